// examples/apps/llama_cpp/llama_model.hpp over a small fake of llama.cpp: what its calls return, and what they leave in the
// cache.
// SPDX-License-Identifier: MIT
#include "llama_cpp/llama_model.hpp"

#include <algorithm>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "fake_llama.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/temporary_file.hpp"

namespace test_examples_llama_model {

using fake_llama::state;
using specdec::Index;
using Tokens = std::vector<specdec::Token>;
using Numbers = std::vector<Index>;

namespace {

LlamaModel model(const LlamaModel::Options& options) {
  static const support::TemporaryFile file("GGUF");
  return LlamaModel(LlamaWeights(file.path()), options);
}

fake_llama::Logits behind(const Tokens& text) {
  fake_llama::Text read;
  for (const specdec::Token token : text) read.add(token);
  return read.logits();
}

bool is_behind(const auto& row, const Tokens& text) {
  const fake_llama::Logits expected = behind(text);
  for (Index x = 0; x < fake_llama::vocab_size; ++x)
    if (row[x] != expected[static_cast<std::size_t>(x)]) return false;
  return true;
}

// All tokens of the context, with one cell for each sequence of a token.
std::vector<fake_llama::Cell> held() {
  std::vector<fake_llama::Cell> cells = fake_llama::contexts.back()->cells;
  for (fake_llama::Cell& cell : cells) std::ranges::sort(cell.sequences);
  std::sort(cells.begin(), cells.end());
  return cells;
}

std::vector<fake_llama::Cell> held_by_all(const Tokens& text, int sequences) {
  std::vector<llama_seq_id> all;
  for (int s = 0; s < sequences; ++s) all.push_back(s);
  std::vector<fake_llama::Cell> cells;
  for (const specdec::Token token : text) cells.push_back({static_cast<llama_pos>(cells.size()), token, all});
  return cells;
}

// A growing tree, and the text before it.
struct Grown {
  Tokens context, tokens;
  Numbers parents;

  Numbers way(Index token) const {
    Numbers way;
    for (; token >= 0; token = parents[static_cast<std::size_t>(token)]) way.push_back(token);
    std::ranges::reverse(way);
    return way;
  }
  Tokens text(Index token) const {
    Tokens text = context;
    for (const Index k : way(token)) text.push_back(tokens[static_cast<std::size_t>(k)]);
    return text;
  }
  void add(const Tokens& more, const Numbers& of) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    parents.insert(parents.end(), of.begin(), of.end());
  }
  void keep(const Numbers& path) {
    context = text(path.empty() ? -1 : path.back());
    tokens.clear();
    parents.clear();
  }
};

}  // namespace

TEST_CASE("a row of a tree is that of a line of the tokens on its way, however the tree has grown") {
  std::mt19937 generator(1);
  const auto below = [&](Index n) { return static_cast<Index>(generator() % static_cast<unsigned>(n)); };
  const auto random_tokens = [&](Index n) {
    Tokens tokens;
    for (Index i = 0; i < n; ++i)
      tokens.push_back(static_cast<specdec::Token>(below(fake_llama::vocab_size)));
    return tokens;
  };
  constexpr int sequences = 6;
  LlamaModel llama = model({.context = 400, .batch = 4, .sequences = sequences});
  Grown grown;
  int refused = 0, taken = 0;
  for (int round = 0; round < 100; ++round) {
    if (round % 7 == 0) {
      const Tokens line = random_tokens(1 + below(9));
      grown.context.insert(grown.context.end(), line.begin(), line.end());
      CHECK(is_behind(llama.forward(line, 1).row(0), grown.context));
    }
    for (Index call = 0; call <= below(3); ++call) {
      const Tokens tokens = random_tokens(1 + below(8));
      Numbers parents;
      for (Index k = 0; k < std::ssize(tokens); ++k)
        parents.push_back(std::max<Index>(-1, std::ssize(grown.tokens) + k - 1 - below(3)));
      const Index rows = 1 + below(std::min<Index>(std::ssize(tokens), 4));
      const auto before = held();
      try {
        const auto output = llama.forward(tokens, parents, rows);
        ++taken;
        grown.add(tokens, parents);
        for (Index i = 0; i < rows; ++i)
          CHECK(is_behind(output.row(i), grown.text(std::ssize(grown.tokens) - rows + i)));
      } catch (const std::length_error&) {
        ++refused;
        CHECK(held() == before);
      }
    }
    const Numbers path = grown.way(below(std::ssize(grown.tokens) + 1) - 1);
    llama.keep(path);
    grown.keep(path);
    CHECK(held() == held_by_all(grown.context, sequences));
    if (round % 10 == 9) {
      const Index length = below(std::ssize(grown.context) + 1);
      llama.truncate(length);
      grown.context.resize(static_cast<std::size_t>(length));
      CHECK(held() == held_by_all(grown.context, sequences));
    }
  }
  CHECK(taken > 50);
  CHECK(refused > 5);
}

TEST_CASE("a call that fails leaves context and tree as they were") {
  for (int failing = 0; failing < 3; ++failing) {
    LlamaModel llama = model({.context = 30, .batch = 3, .sequences = 6});
    llama.forward(Tokens{1, 2}, 1);
    const auto only_context = held();
    state.calls_until_failure = failing;
    CHECK_THROWS_AS(llama.forward(Tokens{1, 2, 3, 4, 0, 1, 2, 3}, 2), std::runtime_error);
    CHECK(held() == only_context);
    state.calls_until_failure = -1;
    llama.forward(Tokens{3, 4, 0}, Numbers{-1, 0, 0}, 1);
    const auto open = held();
    state.calls_until_failure = failing;
    const Tokens more{1, 2, 3, 4, 0, 1, 2};
    const Numbers parents{-1, 3, 1, 5, 1, 0, 3};
    CHECK_THROWS_AS(llama.forward(more, parents, 2), std::runtime_error);
    CHECK(held() == open);
    state.calls_until_failure = -1;
    CHECK(is_behind(llama.forward(Tokens{1}, Numbers{1}, 1).row(0), {1, 2, 3, 4, 1}));
    llama.keep(Numbers{0, 2});
    CHECK(held() == held_by_all({1, 2, 3, 0}, 6));
  }
}

TEST_CASE("what a context has no room for is refused, and said") {
  LlamaModel llama = model({.context = 8, .batch = 4, .sequences = 2});
  llama.forward(Tokens{1, 2}, 1);
  CHECK(
      support::message_of<std::length_error>([&] {
        llama.forward(Tokens{1, 2, 3}, Numbers{-1, -1, -1}, 1);
      }) ==
      "a tree with 3 leaves needs as many sequences, but the context has 2 (LlamaModel::Options::sequences)");
  CHECK(held() == held_by_all({1, 2}, 2));
  llama.forward(Tokens{1, 2, 3}, Numbers{-1, -1, 0}, 1);
  CHECK_THROWS_AS(llama.forward(Tokens{1}, Numbers{0}, 1), std::length_error);  // beside token 2
  CHECK_THROWS_AS(llama.forward(Tokens{1, 2, 3, 4}, Numbers{2, 3, 4, 5}, 1), std::length_error);
  CHECK_THROWS_AS(llama.forward(Tokens{1}, 1), std::logic_error);
  CHECK_THROWS_AS(llama.forward(Tokens{1}, Numbers{3}, 1), std::invalid_argument);
  CHECK_THROWS_AS(llama.forward(Tokens{1}, Numbers{-2}, 1), std::invalid_argument);
  CHECK_THROWS_AS(llama.forward(Tokens{1, 2}, Numbers{2}, 1), std::invalid_argument);
  CHECK_THROWS_AS(llama.forward(Tokens{1}, Numbers{2}, 2), std::invalid_argument);
  for (const Numbers& path : {Numbers{1, 2}, {2}, {0, 3}, {-1}, {0, 0}})
    CHECK_THROWS_AS(llama.keep(path), std::invalid_argument);
  CHECK(is_behind(llama.forward(Tokens{1, 2, 3}, Numbers{2, 3, 4}, 1).row(0), {1, 2, 1, 3, 1, 2, 3}));
  llama.truncate(1);
  CHECK(held() == held_by_all({1}, 2));
  CHECK_THROWS_AS(model({.context = 8, .sequences = 0}), std::invalid_argument);
}

TEST_CASE("no call goes on after tokens that could not be removed, until they are") {
  LlamaModel llama = model({.context = 30, .sequences = 3});
  llama.forward(Tokens{1, 2}, 1);
  llama.forward(Tokens{3, 4}, Numbers{-1, -1}, 1);
  state.removes = false;
  llama.keep(Numbers{1});
  state.removes = true;
  CHECK_THROWS_AS(llama.forward(Tokens{1}, 1), std::runtime_error);
  llama.truncate(2);
  CHECK(is_behind(llama.forward(Tokens{1}, 1).row(0), {1, 2, 1}));
}

}  // namespace test_examples_llama_model

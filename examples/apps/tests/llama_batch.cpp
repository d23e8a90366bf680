// examples/apps/llama_cpp/llama_batch.hpp over a small fake of llama.cpp: rows and texts of many sequences equal those of each
// sequence alone, and a failing call changes nothing.
// SPDX-License-Identifier: MIT
#include "llama_cpp/llama_batch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_llama.hpp"
#include "llama_cpp/llama_model.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/temporary_file.hpp"

namespace test_examples_llama_batch {

using fake_llama::state;
using specdec::BatchFeed;
using specdec::Index;
using support::message_of;
using Tokens = std::vector<specdec::Token>;

namespace {

const LlamaWeights& weights() {
  static const support::TemporaryFile file("GGUF");
  static const LlamaWeights weights(file.path());
  return weights;
}

bool is_behind(const auto& row, std::span<const specdec::Token> text) {
  fake_llama::Text read;
  for (const specdec::Token token : text) read.add(token);
  const fake_llama::Logits expected = read.logits();
  for (Index x = 0; x < fake_llama::vocab_size; ++x)
    if (row[x] != expected[static_cast<std::size_t>(x)]) return false;
  return true;
}

BatchFeed line(Index sequence, const Tokens& tokens, Index rows, Index from = 0) {
  return {{.tokens = tokens, .from = from, .rows = rows}, sequence};
}

// The tokens of each sequence of llama.cpp, the longest first. Each token must be in exactly one sequence.
std::vector<Tokens> held() {
  const llama_context& context = *fake_llama::contexts.back();
  std::map<llama_seq_id, Tokens> texts;
  for (const fake_llama::Cell& cell : context.cells) {
    CHECK(cell.sequences.size() == 1);
    const llama_seq_id id = cell.sequences.front();
    texts[id] = context.text(id, context.end(id));
  }
  std::vector<Tokens> all;
  for (const auto& [id, text] : texts) all.push_back(text);
  std::ranges::sort(all);
  return all;
}

}  // namespace

TEST_CASE(
    "on llama.cpp rows of a batch are those after each sequence's text, in one call of exactly these rows") {
  std::mt19937 generator(1);
  const auto below = [&](Index n) { return static_cast<Index>(generator() % static_cast<unsigned>(n)); };
  constexpr Index most = 4, context = 30, cells = 100;
  LlamaBatch llama(weights(), {.sequences = most, .context = context, .cells = cells, .batch = 8});
  std::map<Index, Tokens> texts;
  Index next = 0, longest_call = 0;
  for (int round = 0; round < 400; ++round) {
    while (std::ssize(texts) < most) texts[next++];
    std::vector<Index> fed;
    for (const auto& [sequence, text] : texts)
      if (below(4) > 0) fed.push_back(sequence);
    std::ranges::shuffle(fed, generator);
    std::vector<Tokens> tokens(fed.size());
    std::vector<BatchFeed> feeds;
    Index count = 0, rows = 0;
    for (std::size_t i = 0; i < fed.size(); ++i) {
      const Tokens& text = texts[fed[i]];
      for (Index left = below(std::min<Index>(context - std::ssize(text), 12) + 1); left > 0; --left)
        tokens[i].push_back(static_cast<specdec::Token>(below(fake_llama::vocab_size)));
      feeds.push_back(line(fed[i], tokens[i], below(std::ssize(tokens[i]) + 1), std::ssize(text)));
      count += std::ssize(tokens[i]);
      rows += feeds.back().rows;
    }
    const int calls = state.calls;
    if (count > cells - llama.held()) {
      CHECK_THROWS_AS(llama.forward(feeds), std::length_error);
      CHECK(state.calls == calls);
    } else {
      const auto output = llama.forward(feeds);
      CHECK(state.calls == calls + (count > 0));
      CHECK((count == 0 || state.outputs == rows));
      REQUIRE(output.rows() == rows);
      Index row = 0;
      for (const BatchFeed& feed : feeds) {
        Tokens& text = texts[feed.sequence];
        text.insert(text.end(), feed.tokens.begin(), feed.tokens.end());
        for (Index i = feed.rows; i-- > 0; ++row)
          CHECK(is_behind(output.row(row), std::span(text).first(text.size() - static_cast<std::size_t>(i))));
      }
      longest_call = std::max(longest_call, count);
    }
    for (const Index sequence : fed) {
      Tokens& text = texts[sequence];
      const Index length = std::ssize(text) - below(6);
      llama.keep(sequence, length);
      text.resize(static_cast<std::size_t>(std::max<Index>(length, 0)));
      if (below(12) > 0) continue;
      llama.release(sequence);
      texts.erase(sequence);
    }
    std::vector<Tokens> expected;
    Index sum = 0;
    for (const auto& [sequence, text] : texts) {
      if (!text.empty()) expected.push_back(text);
      CHECK(llama.length(sequence) == std::ssize(text));
      sum += std::ssize(text);
    }
    std::ranges::sort(expected);
    REQUIRE(held() == expected);
    CHECK(llama.held() == sum);
  }
  CHECK(next > 50);         // many sequence numbers for the few ids of llama.cpp
  CHECK(longest_call > 8);  // llama.cpp splits such a call by itself
}

TEST_CASE("texts of a batch on llama.cpp are what they are alone, whichever call fails") {
  const specdec::Chain chain{specdec::Temperature{4e6}}, draft_chain{specdec::Temperature{8e6}};
  const specdec::Options options{.max_new_tokens = 25, .gamma = 3};
  const std::vector<Tokens> prompts{
      {1, 2, 3}, {4}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 0, 0, 1, 1, 2, 2, 3}};  // to the end
  std::vector<Tokens> alone;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    LlamaModel target(weights()), draft(weights());
    specdec::SpecDec decoder{specdec::ProcessedModel{target, chain},
                             specdec::ModelDrafter{specdec::ProcessedModel{draft, draft_chain}}};
    std::mt19937_64 generator(i);
    alone.push_back(decoder.generate(prompts[i], options, generator).tokens);
  }
  CHECK(alone[2].size() < 25);
  // Writes five texts with three sequences of llama.cpp; two texts join later. Returns the number of calls.
  const auto serve = [&](int failing) {
    constexpr std::array<std::size_t, 5> order{0, 1, 2, 1, 0};
    const LlamaBatch::Options room{.sequences = 3};
    LlamaBatch target(weights(), room), draft(weights(), room);
    specdec::Batch batch{specdec::ProcessedModel{target, chain},
                         specdec::ModelDrafter{specdec::ProcessedModel{draft, draft_chain}},
                         specdec::BlockVerifier{}, specdec::BatchOptions{.tokens_per_call = 14}};
    state.calls_until_failure = failing;
    std::size_t added = 0;
    Index finished = 0, failed = 0;
    while (added < order.size() || !batch.empty()) {
      for (; added < order.size() && batch.size() < 3; ++added)
        batch.add(prompts[order[added]], options, std::mt19937_64(order[added]));
      try {
        for (const specdec::Finished& done : batch.step()) {
          CHECK_FALSE(done.error);
          CHECK(done.result.tokens == alone[order[static_cast<std::size_t>(done.sequence)]]);
          ++finished;
        }
      } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).find("could not decode") != std::string::npos);
        REQUIRE(++failed == 1);  // the batch goes on after the failure
      }
    }
    CHECK(finished == 5);
    CHECK(failed == (failing >= 0));
    CHECK(fake_llama::contexts[0]->cells.empty());
    CHECK(fake_llama::contexts[1]->cells.empty());
    return state.calls;
  };
  const int calls = serve(-1);
  CHECK(calls > 60);
  for (int failing = 0; failing < calls; ++failing) serve(failing);
}

TEST_CASE("what llama.cpp cannot take in is refused and said, and every sequence is as it was") {
  LlamaBatch llama(weights(), {.sequences = 3, .context = 10, .cells = 16});
  CHECK(llama.context_size() == 10);
  CHECK(llama.cells() == 16);
  const Tokens good{1, 2, 3}, unknown{1, 5}, negative{-1};
  llama.forward(std::vector{line(1, {1, 2, 3, 4}, 1), line(2, {4, 3}, 0)});
  const auto before = held();
  const auto complaint = [&](const BatchFeed& feed) {
    return message_of<std::exception>([&] {
      llama.forward(std::vector{line(2, good, 1, 2), line(7, good, 1), feed});
    });
  };
  const std::string model = "'" + weights().path() + "'";
  CHECK(complaint(line(1, unknown, 1, 4)) == "feeds[2]: tokens[1] = 5 is outside the vocabulary 0..4");
  CHECK(complaint(line(1, negative, 1, 4)) == "feeds[2]: tokens[0] = -1 is outside the vocabulary 0..4");
  CHECK(complaint(line(1, good, 4, 4)) == "feeds[2]: rows = 4 is outside 0..3, the number of tokens");
  CHECK(complaint(line(1, good, -1, 4)) == "feeds[2]: rows = -1 is outside 0..3, the number of tokens");
  CHECK(complaint(line(1, good, 1, 3)) == "feeds[2]: from = 3, but sequence 1 holds 4 tokens");
  CHECK(complaint(line(7, good, 1)) == "feeds[2]: sequence 7 is in feeds[1], too");
  CHECK(complaint(line(1, Tokens(7, 1), 1, 4)) ==
        "feeds[2]: 7 tokens after 4 do not fit in the context of 10");
  CHECK(complaint(line(1, Tokens(5, 1), 1, 4)) ==
        "the cache of " + model +
            " is full: it holds 6 of 16 tokens (LlamaBatch::Options::cells), and 11 more are to follow");
  CHECK(complaint(line(8, good, 1)) == "feeds[2]: sequence 8 is one more than " + model +
                                           " has room for: 3 (LlamaBatch::Options::sequences)");
  const std::vector<Index> parents{-1, 0, 0};
  CHECK(complaint({{.tokens = good, .from = 4, .rows = 1, .parents = parents}, 1}) ==
        "feeds[2]: the draft branches, which LlamaBatch does not take");
  CHECK(held() == before);
  CHECK(llama.length(7) == 0);
  CHECK(llama.forward(std::vector<BatchFeed>{}).rows() == 0);
  const auto output = llama.forward(
      std::vector{line(2, good, 1, 2), line(5, good, 1), line(1, Tokens(4, 1), 1, 4)});  // to the last cell
  CHECK(is_behind(output.row(0), Tokens{4, 3, 1, 2, 3}));
  CHECK(is_behind(output.row(1), good));
  CHECK(is_behind(output.row(2), Tokens{1, 2, 3, 4, 1, 1, 1, 1}));
  CHECK(llama.held() == 16);
  llama.keep(9, 0);
  llama.release(9);
  CHECK(llama.held() == 16);
  CHECK(message_of([] { LlamaBatch(weights(), {.sequences = 0}); }) ==
        "sequences = 0: a context has one sequence at least");
}

TEST_CASE("what could not be taken back costs its own sequence, until it can") {
  LlamaBatch llama(weights(), {.sequences = 2});
  CHECK(llama.cells() == 2 * fake_llama::trained_context);
  llama.forward(std::vector{line(1, {1, 2, 3}, 1), line(2, {4, 3}, 1)});
  const auto refuses = [&](Index sequence, Index from) {
    CHECK_THROWS_AS(llama.forward(std::vector{line(sequence, {1}, 1, from)}), std::runtime_error);
  };
  state.removes = false;
  llama.keep(1, 2);
  refuses(1, 2);
  CHECK(is_behind(llama.forward(std::vector{line(2, {1}, 1, 2)}).row(0), Tokens{4, 3, 1}));
  state.removes = true;
  llama.keep(1, 2);
  CHECK(is_behind(llama.forward(std::vector{line(1, {4}, 1, 2)}).row(0), Tokens{1, 2, 4}));

  state.removes = false;
  state.calls_until_failure = 0;
  refuses(2, 3);  // the call fails and cannot be undone
  refuses(2, 3);
  llama.release(2);
  CHECK_THROWS_AS(llama.forward(std::vector{line(3, {1}, 1)}), std::length_error);  // the id is not empty
  state.removes = true;
  CHECK(is_behind(llama.forward(std::vector{line(3, {0}, 1)}).row(0), Tokens{0}));
  CHECK(held() == std::vector<Tokens>{{0}, {1, 2, 4}});
}

}  // namespace test_examples_llama_batch

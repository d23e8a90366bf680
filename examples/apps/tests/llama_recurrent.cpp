// Recurrent models over a small fake of llama.cpp, which cannot roll them back: rows are right for the text before them.
// SPDX-License-Identifier: MIT
#include "llama_cpp/llama_recurrent.hpp"

#include <algorithm>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_llama.hpp"
#include "llama_cpp/any_llama.hpp"
#include "llama_cpp/llama_batch.hpp"
#include "llama_cpp/llama_model.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/temporary_file.hpp"

namespace test_examples_llama_recurrent {

using fake_llama::state;
using specdec::Index;
using support::message_of;
using Tokens = std::vector<specdec::Token>;

namespace {

// While an object lives, all loaded models are recurrent, or none is.
struct Kind {
  explicit Kind(bool recurrent) { fake_llama::recurrent = recurrent; }
  Kind(const Kind&) = delete;
  Kind& operator=(const Kind&) = delete;
  ~Kind() { fake_llama::recurrent = false; }
};

LlamaWeights weights() {
  static const support::TemporaryFile file("GGUF");
  return LlamaWeights(file.path());
}

bool is_behind(const auto& row, std::span<const specdec::Token> text) {
  fake_llama::Text read;
  for (const specdec::Token token : text) read.add(token);
  const fake_llama::Logits expected = read.logits();
  for (Index x = 0; x < fake_llama::vocab_size; ++x)
    if (row[x] != expected[static_cast<std::size_t>(x)]) return false;
  return true;
}

}  // namespace

TEST_CASE("a row on llama.cpp is the one after the text, for recurrent models and others, whatever fails") {
  for (const bool recurrent : {true, false}) {
    const Kind kind(recurrent);
    std::mt19937 generator(1);
    const auto below = [&](Index n) { return static_cast<Index>(generator() % static_cast<unsigned>(n)); };
    AnyLlama llama(weights(), {.context = 500, .batch = 7});
    CHECK(llama.context_size() == 500);
    int failures = 0;
    Tokens text;
    for (int round = 0; round < 300; ++round) {
      const Index length = std::max<Index>(0, std::ssize(text) - below(5));
      llama.truncate(length);
      text.resize(static_cast<std::size_t>(length));
      Tokens tokens;
      for (Index i = 0; i <= below(round % 20 == 0 ? 30 : 6); ++i)
        tokens.push_back(static_cast<specdec::Token>(below(fake_llama::vocab_size)));
      const Index rows = 1 + below(std::min<Index>(std::ssize(tokens), 7));
      state.calls_until_failure = below(4) == 0 ? static_cast<int>(below(3)) : -1;
      try {
        const auto logits = llama.forward(tokens, rows);
        text.insert(text.end(), tokens.begin(), tokens.end());
        for (Index i = 0; i < rows; ++i)
          CHECK(is_behind(logits.row(i),
                          std::span(text).first(text.size() - static_cast<std::size_t>(rows - 1 - i))));
      } catch (const std::runtime_error&) {
        ++failures;
      }
    }
    CHECK(failures > 20);
    CHECK(text.size() > 100);
  }
}

TEST_CASE("where a recurrent model has no place, or its state cannot be had, that is said") {
  const Kind kind(true);
  CHECK_THROWS_AS(LlamaModel(weights()), std::runtime_error);
  CHECK_THROWS_AS(LlamaBatch(weights()), std::runtime_error);
  CHECK(message_of<std::runtime_error>([&] {
          AnyLlama(weights(), {.sequences = 2});
        }).ends_with("takes no trees"));
  specdec::Replayed llama{LlamaRecurrent(weights(), {.context = 8, .batch = 4})};
  llama.forward(Tokens{1, 2, 3}, 1);
  llama.forward(Tokens{4, 0}, 2);
  CHECK_THROWS_AS(llama.forward(Tokens{1, 2, 3, 4}, 1), std::length_error);
  CHECK_THROWS_AS(llama.forward(Tokens{1}, 2), std::invalid_argument);
  llama.truncate(4);
  state.loads = false;
  CHECK(message_of<std::runtime_error>([&] {
          llama.forward(Tokens{1}, 1);
        }).ends_with("could not be taken back to a state that was saved"));
  state.loads = true;
  state.removes = false;
  CHECK(
      message_of<std::runtime_error>([&] { llama.forward(Tokens{1}, 1); }).ends_with("could not be emptied"));
  state.removes = true;
  CHECK(is_behind(llama.forward(Tokens{1}, 1).row(0), Tokens{1, 2, 3, 4, 1}));
}

}  // namespace test_examples_llama_recurrent

// Bad words against a search of the text that each token would make, forward and back.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <random>
#include <specdec/more/samplers/bad_words.hpp>
#include <specdec/sample/text_processor.hpp>
#include <stdexcept>
#include <vector>

#include "support/applied.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_sample_bad_words {

using namespace specdec;
using support::applied;
using support::message_of;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool ends_with(const std::vector<Token>& text, const std::vector<Token>& word) {
  return word.size() <= text.size() && std::equal(word.rbegin(), word.rend(), text.rbegin());
}

// Whether the text has a bad word at its end once the token is appended.
bool is_bad(std::vector<Token> text, Token x, const std::vector<std::vector<Token>>& words) {
  text.push_back(x);
  return std::ranges::any_of(words, [&](const auto& word) { return ends_with(text, word); });
}

std::vector<std::vector<Token>> random_words(std::mt19937_64& rng) {
  std::vector<std::vector<Token>> words(1 + rng() % 6);
  for (auto& word : words)
    for (std::uint64_t n = 1 + rng() % 4; n > 0; --n) word.push_back(static_cast<Token>(rng() % 4));
  return words;
}

}  // namespace

static_assert(TextProcessor<BadWords>);

TEST_CASE("bad words forbid each token that would complete one, and no other") {
  constexpr Index vocabulary = 4;
  std::mt19937_64 rng{1};
  int completed = 0, rows = 0;
  for (int round = 0; round < 200; ++round) {
    const auto words = random_words(rng);
    BadWords processor{words};
    std::vector<Token> text;
    for (int step = 0; step < 30; ++step, ++rows) {
      support::change_text(processor, text, 3, rng, [&] { return static_cast<Token>(rng() % 4); });
      const auto got = applied(processor, std::vector<double>(vocabulary, 1.5));
      for (Token x = 0; x < vocabulary; ++x) {
        const bool bad = is_bad(text, x, words);
        REQUIRE(got[x] == (bad ? -infinity : 1.5));
        completed += bad && !is_bad({}, x, words) ? 1 : 0;
      }
    }
  }
  CHECK(rows == 6000);
  CHECK(completed > 1000);  // by a sequence of several tokens
}

TEST_CASE("bad words ignore tokens beyond the row, and refuse sequences without a meaning") {
  BadWords one{{{1, 7}}};
  one.push(1);
  CHECK(applied(one, {0, 0, 0}) == Eigen::RowVector3d::Zero());
  CHECK(applied(BadWords{{}}, {0, 0, 0}) == Eigen::RowVector3d::Zero());
  CHECK(message_of([] { BadWords{{{1}, {}}}; }) == "specdec: words[1] has no tokens");
  CHECK(message_of([] { BadWords{{{1}, {2, -3}}}; }) == "specdec: words[1][1] = -3 is negative");
}

}  // namespace test_sample_bad_words

// A reasoning budget against a search of the whole text, forward and back.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <random>
#include <specdec/more/samplers/bad_words.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/reasoning_budget.hpp>
#include <specdec/sample/text_processor.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/applied.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_sample_reasoning_budget {

using namespace specdec;
using support::applied;
using support::message_of;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
using Tokens = std::vector<Token>;

bool ends_with(const Tokens& text, const Tokens& end) {
  return end.size() <= text.size() && std::equal(end.rbegin(), end.rend(), text.rbegin());
}

// The token that is forced after a text; −1 if none is. By reading the text, without states.
Token forced_after(const Tokens& text, const ReasoningBudgetSettings& set) {
  bool inside = false;
  Tokens since;  // the tokens since the last start or end
  for (const Token x : text) {
    since.push_back(x);
    if (!ends_with(since, inside ? set.end : set.start)) continue;
    inside = !inside;
    since.clear();
  }
  if (!inside || std::ssize(since) < set.tokens) return -1;
  Tokens forced = set.message;
  forced.insert(forced.end(), set.end.begin(), set.end.end());
  std::size_t written = forced.size() - 1;
  while (!ends_with(since, Tokens(forced.begin(), forced.begin() + static_cast<Index>(written)))) --written;
  return forced[written];
}

Tokens random_tokens(std::size_t least, std::size_t most, std::mt19937_64& rng) {
  Tokens tokens(least + rng() % (most - least + 1));
  for (Token& x : tokens) x = static_cast<Token>(rng() % 3);
  return tokens;
}

}  // namespace

static_assert(TextProcessor<ReasoningBudget>);

TEST_CASE("a reasoning budget forces what reading the text from its beginning says") {
  constexpr Index vocabulary = 3;
  std::mt19937_64 rng{1};
  int rows = 0, forced = 0, ended = 0;
  for (int round = 0; round < 400; ++round) {
    const ReasoningBudgetSettings set{.start = random_tokens(1, 3, rng),
                                      .end = random_tokens(1, 3, rng),
                                      .tokens = static_cast<Index>(rng() % 6),
                                      .message = random_tokens(0, round % 2 == 0 ? 0 : 3, rng)};
    ReasoningBudget budget{set};
    Tokens text;
    for (int step = 0; step < 25; ++step, ++rows) {
      support::change_text(budget, text, 4, rng, [&] {
        const Token must = forced_after(text, set);  // mostly obeyed, but a prompt need not
        return must >= 0 && rng() % 4 > 0 ? must : static_cast<Token>(rng() % 3);
      });
      const auto got = applied(budget, std::vector<double>(vocabulary, 1.5));
      const Token must = forced_after(text, set);
      for (Token x = 0; x < vocabulary; ++x) REQUIRE(got[x] == (must < 0 || must == x ? 1.5 : -infinity));
      forced += must >= 0 ? 1 : 0;
      ended += ends_with(text, set.end) ? 1 : 0;
    }
  }
  CHECK(rows == 10000);
  CHECK(forced > 1000);
  CHECK(ended > 1000);
}

TEST_CASE("the end is written token by token when the budget is used up, and what is begun is gone on with") {
  const auto text_from = [](ReasoningBudgetSettings set, Tokens text) {
    ReasoningBudget budget{std::move(set)};
    for (const Token x : text) budget.push(x);
    for (int n = 0; n < 9; ++n) {
      const auto row = applied(budget, std::vector<double>(10, 0.0));
      if ((row.array() == 0).count() > 1) break;
      Index next = 0;
      row.maxCoeff(&next);
      text.push_back(static_cast<Token>(next));
      budget.push(text.back());
    }
    return text;
  };
  const ReasoningBudgetSettings plain{.start = {1}, .end = {7, 8}, .tokens = 2};
  CHECK(text_from(plain, {1, 5}) == Tokens{1, 5});
  CHECK(text_from(plain, {1, 5, 5}) == Tokens{1, 5, 5, 7, 8});
  CHECK(text_from(plain, {1, 5, 7}) == Tokens{1, 5, 7, 8});
  CHECK(text_from(plain, {1, 7, 8, 5, 5, 5}) == Tokens{1, 7, 8, 5, 5, 5});
  CHECK(text_from(plain, {1, 7, 8, 1, 5, 5}) == Tokens{1, 7, 8, 1, 5, 5, 7, 8});
  CHECK(text_from({.start = {1, 2}, .end = {3}, .tokens = 0}, {1, 1, 2}) == Tokens{1, 1, 2, 3});
  CHECK(text_from({.start = {1}, .end = {7}, .tokens = 1, .message = {5, 6}}, {1, 4}) ==
        Tokens{1, 4, 5, 6, 7});
  CHECK(text_from({.start = {1}, .end = {7}}, {1, 4, 4, 4}) == Tokens{1, 4, 4, 4});
  // What an earlier processor has forbidden stays forbidden.
  Processors both{BadWords{{{7}}}, ReasoningBudget{plain}};
  for (const Token x : {1, 5, 5}) both.push(x);
  CHECK(applied(both, {0, 0, 0, 0, 0, 0, 0, 0, 0}) == Eigen::RowVectorXd::Constant(9, -infinity));
}

TEST_CASE("a reasoning budget refuses settings without a meaning") {
  CHECK(message_of([] { ReasoningBudget({.start = {}, .end = {1}}); }) == "specdec: start has no tokens");
  CHECK(message_of([] { ReasoningBudget({.start = {1}, .end = {}}); }) == "specdec: end has no tokens");
  CHECK(message_of([] {
          ReasoningBudget({.start = {1}, .end = {2, -3}});
        }) == "specdec: end[1] = -3 is negative");
  CHECK(message_of([] { ReasoningBudget({.start = {1}, .end = {2}, .tokens = 4, .message = {-1}}); }) ==
        "specdec: message[0] = -1 is negative");
  CHECK(message_of([] { ReasoningBudget({.start = {1}, .end = {2}, .tokens = -4}); }) ==
        "specdec: ReasoningBudget: tokens = -4 is negative");
}

}  // namespace test_sample_reasoning_budget

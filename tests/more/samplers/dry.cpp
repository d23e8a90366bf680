// DRY against a search of the whole text, forward and back.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/more/samplers/dry.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/sample/text_processor.hpp>
#include <stdexcept>
#include <vector>

#include "support/applied.hpp"
#include "support/catch.hpp"
#include "support/sorted.hpp"

namespace test_sample_dry {

using namespace specdec;
using support::applied;

namespace {

// By brute force: the longest suffix of the text, of at most `limit` tokens, that x follows earlier.
double price(const std::vector<Token>& text, Token x, const DrySettings& set) {
  const Index size = std::min(std::ssize(text), set.last_n);
  const std::vector<Token> seen(text.end() - size, text.end());
  Index limit = size;
  for (Index start = size - 1; start >= 0 && limit == size; --start) {
    Index longest = 0;
    for (const auto& b : set.breakers)
      if (start + std::ssize(b) <= size && std::equal(b.begin(), b.end(), seen.begin() + start))
        longest = std::max(longest, std::ssize(b));
    if (longest > 0) {
      limit = size - start - longest;
      break;
    }
  }
  for (const auto& b : set.breakers)
    if (b == std::vector<Token>{x}) return 0;
  for (Index n = limit; n >= set.allowed_length; --n)
    for (Index end = n; end < size; ++end)
      if (seen[static_cast<std::size_t>(end)] == x &&
          std::equal(seen.end() - n, seen.end(), seen.begin() + end - n))
        return set.multiplier * std::pow(set.base, static_cast<double>(n - set.allowed_length));
  return 0;
}

}  // namespace

static_assert(TextProcessor<Dry>);

TEST_CASE("DRY subtracts what a search of the text says") {
  constexpr Index vocabulary = 4;
  std::mt19937_64 rng{1};
  int lowered = 0;
  for (int round = 0; round < 30; ++round) {
    DrySettings set{.multiplier = 0.3, .base = 1.2, .allowed_length = 1 + round % 3};
    if (round % 2 == 1) set.last_n = 12;
    if (round % 3 == 1) set.breakers = {{3}};
    if (round % 3 == 2) set.breakers = {{2, 3}, {2}, {1, 1, 0}};
    Dry dry{set};
    std::vector<Token> text;
    for (int step = 0; step < 60; ++step) {
      support::change_text(dry, text, 4, rng,
                           [&] { return static_cast<Token>(rng() % 8 == 0 ? rng() % 5 : rng() % 2); });
      const auto got = applied(dry, std::vector<double>(vocabulary, 1.0));
      for (Token x = 0; x < vocabulary; ++x) {
        const double expected = price(text, x, set);
        REQUIRE(std::abs(got[x] - (1 - expected)) < 1e-12);
        lowered += expected > 0 ? 1 : 0;
      }
    }
  }
  CHECK(lowered > 500);
}

TEST_CASE("DRY keeps logits finite, and refuses settings without a meaning") {
  Dry dry{{.base = 1e10}};
  for (int n = 0; n < 100; ++n) dry.push(1);
  CHECK(applied(dry, {0, 0})[1] == std::numeric_limits<double>::lowest());
  CHECK_THROWS_AS(Dry({.multiplier = -1}), std::invalid_argument);
  CHECK_THROWS_AS(Dry({.base = 0.5}), std::invalid_argument);
  CHECK_THROWS_AS(Dry({.allowed_length = 0}), std::invalid_argument);
  CHECK_THROWS_AS(Dry({.breakers = {{}}}), std::invalid_argument);
}

}  // namespace test_sample_dry

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/any_rows.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_top_tokens {

using namespace specdec;
using namespace support;

namespace {

// The likeliest tokens, by sorting all tokens.
template <class Row>
std::vector<Token> expected(const Row& row, Index count) {
  std::vector<Token> tokens;
  for (Token x = 0; x < row.vocab_size(); ++x)
    if (row.probability(x) > 0) tokens.push_back(x);
  std::ranges::stable_sort(tokens, [&](Token a, Token b) { return row.probability(a) > row.probability(b); });
  if (std::ssize(tokens) > count) tokens.resize(static_cast<std::size_t>(std::max<Index>(count, 0)));
  return tokens;
}

template <class Row>
void check(const Row& row, TopTokens& top) {
  for (const Index count : {-1, 0, 1, 2, 3, 7, 100}) {
    std::vector<Token> found;
    for (const auto& [token, probability] : top.of(row, count)) {
      CHECK(probability == Approx(row.probability(token)).epsilon(1e-6));
      found.push_back(token);
    }
    CHECK(found == expected(row, count));
  }
}

// Multiples of 2^-12: many tokens have equal probabilities, and some have none.
RowMajor<double> ties(Index size, std::mt19937_64& rng) {
  RowMajor<double> row(1, size);
  for (Index x = 0; x < size; ++x) row(0, x) = static_cast<double>(rng() % 5) / 4096;
  row(0, 0) = 1 - row.rightCols(size - 1).sum();
  return row;
}

}  // namespace

TEST_CASE("the likeliest tokens of rows of every kind are those that sorting finds") {
  std::mt19937_64 rng{1};
  TopTokens top;
  for (const Index size : {Index{1}, Index{2}, Index{5}, Index{40}, max_segment_size + 30}) {
    const RowMajor<double> p = ties(size, rng);
    const auto dense = distributions(p);
    check(dense.row(0), top);
    check(AnyRow(dense.row(0)), top);
    AsSparse<float> sparse;
    sparse.hold(p);
    check(distributions(std::as_const(sparse).view()).row(0), top);
    AsLogits<double> logits;
    logits.hold(p);
    check(distributions(std::as_const(logits).view()).row(0), top);
  }
  check(OneHotRow(3), top);
}

TEST_CASE(
    "logits of probability 0 are left out, and logits keep their order even where probabilities are equal") {
  TopTokens top;
  const std::vector<float> numbers{1, 3, 3, 2, -5, 2.5f};
  const NumberRow<float> logits(numbers.data(), 6);
  const auto tokens = [&](const LogitsRow<float>& row) {
    std::vector<Token> found;
    for (const TopToken& likely : top.of(row, 4)) found.push_back(likely.token);
    return found;
  };
  CHECK(tokens(LogitsRow<float>(logits)) == std::vector<Token>{1, 2, 5, 3});
  CHECK(tokens(LogitsRow<float>(logits, 0)) == std::vector<Token>{1});
  CHECK(tokens(LogitsRow<float>(logits).above(2.5f)) == std::vector<Token>{1, 2, 5});
  CHECK(tokens(LogitsRow<float>(logits, 1e30)) == std::vector<Token>{1, 2, 5, 3});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> with = numbers;
    with[4] = bad;
    const LogitsRow<float> row(NumberRow<float>(with.data(), 6), 1,
                               LogSumExp{3});  // so the row is not read as a whole
    CHECK(message_of<InvalidDistribution>([&] { tokens(row); }).starts_with("the logit of token 4 is "));
  }
}

TEST_CASE("NaN or infinity is never the likeliest probability") {
  TopTokens top;
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (const Index place : {0, 1, 2}) {
      std::vector<double> p{0.5, 0.25, 0.25};
      p[static_cast<std::size_t>(place)] = bad;
      CHECK(message_of<InvalidDistribution>([&] {
              top.of(DenseRow<double>(p.data(), 3), 1);
            }).starts_with("the probability of token " + std::to_string(place) + " is "));
      CHECK(top.of(DenseRow<double>(p.data(), 3), 0).empty());
    }
  const std::vector<double> p{0.5, -1, 0.5};
  CHECK(top.of(DenseRow<double>(p.data(), 3), 3).size() == 2);
}

}  // namespace test_rows_top_tokens

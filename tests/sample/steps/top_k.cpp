// TopK against what sorting keeps.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <specdec/sample/steps/top_k.hpp>
#include <specdec/sample/steps/top_p.hpp>
#include <string>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/sorted.hpp"

namespace test_sample_top_k {

using namespace specdec;
using namespace support;

static_assert(RowStep<TopK>);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

void check(const std::vector<double>& logits, Index k) {
  CAPTURE(k, logits.size());
  Sorted expected(logits);
  expected.top_k(k);
  expected.check(process<float>(TopK(k), logits), 4e-6);
}

}  // namespace

TEST_CASE("top-k keeps the tokens that sorting keeps") {
  std::mt19937_64 rng{1};
  for (int n = 0; n < bound(400); ++n) {
    const auto logits = random_logits(random_size(rng), rng);
    const Index size = std::ssize(logits);
    for (const Index k :
         {Index{1}, Index{2}, static_cast<Index>(rng() % logits.size()), size - 1, size, size + 1})
      check(logits, k);
  }
  for (const std::size_t size : {20'000u, 128'256u})
    for (int n = 0; n < (size > 100'000 ? bound(6) : bound(40)); ++n) {
      auto logits = random_logits(size, rng);
      if (n % 3 == 0) std::ranges::shuffle(logits, rng);
      check(logits, n % 2 == 0 ? 40 : static_cast<Index>(rng() % size));
    }
}

TEST_CASE("top-k is right on rows that are hard to cut") {
  for (const auto& logits : hard_rows()) {
    const Index size = std::ssize(logits);
    for (const Index k : {Index{1}, Index{40}, size / 5, size / 2 - 1, size - 10, size - 1})
      if (k > 0) check(logits, k);
  }
}

TEST_CASE("all tokens that tie with the k-th stay") {
  const std::vector<double> logits{2, 1, 1, 1, 0};
  const auto count = [&](Index k) { return 5 - std::ranges::count(process<float>(TopK(k), logits).p, 0.0); };
  CHECK(count(1) == 1);
  CHECK(count(2) == 4);
  CHECK(count(3) == 4);
  CHECK(count(4) == 4);
  CHECK(count(5) == 5);
}

TEST_CASE("a top-k of 0, or of at least the vocabulary, leaves the row as it is") {
  const std::vector<float> logits{1, 2, static_cast<float>(-infinity), 2, 0};
  const auto row = row_of(logits);
  for (const Index k : {0, 5, 1000}) CHECK(TopK(k)(row).cut() == row.cut());
}

TEST_CASE("top-k hands over the normaliser that it has computed") {
  std::mt19937_64 rng{6};
  std::normal_distribution<float> normal;
  std::vector<float> logits(30'000);
  for (float& l : logits) l = normal(rng);
  for (const double t : {1.0, 0.6}) {
    const auto row = TopK(50)(row_of(logits).tempered(t));
    double sum = 0;
    for (Token x = 0; x < row.vocab_size(); ++x) sum += row.probability(x);
    CHECK(std::abs(sum - 1) < 2e-6);
    // Over a copy that holds only the token asked for: no other may be read.
    const std::vector<float> one{logits[3]};
    CHECK(TopK(50)(row_of(logits).tempered(t)).over(one.data() - 3).probability(3) == row.probability(3));
  }
}

TEST_CASE("top-k gives right probabilities at the smallest temperatures") {
  // Six equal maxima: each has 1/6 at any temperature except 0.
  std::vector<float> logits(5000, 1.0f);
  for (std::size_t x = 0; x < 6; ++x) logits[7 * x] = 20.0f;
  for (const double t : {1.0, 1e-6, 1e-12, 1e-30})
    CHECK(std::abs(TopK(6)(row_of(logits).tempered(t)).probability(7) - 1.0 / 6) < 1e-7);
}

TEST_CASE("top-k hands over the normaliser at temperatures so large that their inverse is nearly 0") {
  std::vector<float> logits(192, -std::numeric_limits<float>::infinity());
  logits[5] = 3e38f;
  logits[70] = 1;
  logits[140] = -3e38f;  // the distance to the largest logit overflows a float
  for (const double t : {1e39, 1e300, std::numeric_limits<double>::max()}) {
    const auto row = Chain{Temperature(t), TopK(3)}(row_of(logits));
    CHECK(row.is_normalised());
    double sum = 0;
    for (Token x = 0; x < row.vocab_size(); ++x) sum += row.probability(x);
    CHECK(std::abs(sum - 1) < 1e-3);  // e^-7 of the overflow is missing in the normaliser
    CHECK(row.probability(140) < row.probability(70));
    CHECK(row.probability(9) == 0);
  }
}

TEST_CASE("top-k cuts rows that were cut at their largest logit, and at -inf") {
  for (const float top : {-0.0f, 0.0f, 0x1.ffep-138f}) {  // also a number that is no normal one
    const std::vector<float> logits{top, -5, -6};
    for (const auto& row : {TopP(0.5)(row_of(logits)), TopK(1)(row_of(logits)), row_of(logits).above(0)}) {
      CHECK(TopK(2)(row).probability(0) == 1);
      CHECK(TopK(2)(row).probability(1) == 0);
    }
  }
  const std::vector<float> dead(3, -std::numeric_limits<float>::infinity());
  const LogitsRow<float> row(NumberRow<float>(dead.data(), 3), 1.0, -std::numeric_limits<float>::infinity());
  CHECK(TopK(2)(row).is_dead_end());
}

TEST_CASE("top-k notices rows that are not distributions") {
  for (const std::size_t size : {1u, 2u, 600u, 5000u})
    for (const double bad : {nan_value, infinity}) {
      std::vector<double> logits(size, 0.5);
      logits[size / 2] = bad;
      CHECK_THROWS_AS(process<float>(TopK(1), logits), InvalidDistribution);
    }
  CHECK(process<float>(TopK(1), std::vector<double>(3000, -infinity)).p == std::vector<double>(3000, 0.0));
}

TEST_CASE("a negative top-k is refused") {
  CHECK(message_of([] { TopK(-1); }) == "specdec: TopK{-1} is negative");
  CHECK(TopK(3).value() == 3);
}

}  // namespace test_sample_top_k

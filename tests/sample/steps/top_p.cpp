// TopP against what sorting keeps.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/steps/top_p.hpp>
#include <string>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/sorted.hpp"

namespace test_sample_top_p {

using namespace specdec;
using namespace support;

static_assert(RowStep<TopP>);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

void check(const std::vector<double>& logits, double p) {
  CAPTURE(p, logits.size());
  const Processed row = process<float>(TopP(p), logits);
  Sorted expected(logits);
  expected.top_p(p, row.cut);
  expected.check(row, 4e-6);
}

}  // namespace

TEST_CASE("top-p keeps the tokens that sorting keeps") {
  std::mt19937_64 rng{1};
  for (int n = 0; n < bound(400); ++n) {
    const auto logits = random_logits(random_size(rng), rng);
    for (const double p : {1e-9, 0.1, 0.5, 0.95, uniform01(rng), 1 - 1e-4}) check(logits, p);
  }
  for (const std::size_t size : {20'000u, 128'256u})
    for (int n = 0; n < (size > 100'000 ? bound(6) : bound(40)); ++n) {
      auto logits = random_logits(size, rng);
      if (n % 3 == 0) std::ranges::shuffle(logits, rng);
      check(logits, n % 2 == 0 ? 0.95 : uniform01(rng));
    }
}

TEST_CASE("top-p is right on rows that are hard to cut", "[long]") {
  for (const auto& logits : hard_rows())
    for (const double p : {0.0001, 0.3, 0.45, 0.9, 0.95, 0.999, 0.9999}) check(logits, p);
}

TEST_CASE("the token that crosses p stays, and so do all tokens with an equal logit") {
  const std::vector<double> logits{2, 1, 1, 1, 0};
  const auto count = [&](double p) { return 5 - std::ranges::count(process<float>(TopP(p), logits).p, 0.0); };
  const double all = std::exp(2) + 3 * std::exp(1) + 1, first = std::exp(2) / all, second = std::exp(1) / all;
  CHECK(count(1e-12) == 1);
  CHECK(count(first - 0.01) == 1);
  CHECK(count(first + 0.01) == 4);
  CHECK(count(first + second + 0.01) == 4);
  CHECK(count(first + 3 * second + 0.01) == 5);
}

TEST_CASE("a top-p of 1 leaves the row as it is, and one just below 1 leaves all tokens with mass") {
  const std::vector<float> few{1, 2, static_cast<float>(-infinity), 2, 0};
  CHECK(TopP(1.0)(row_of(few)).cut() == row_of(few).cut());
  std::mt19937_64 rng{4};
  std::normal_distribution<float> normal;
  std::vector<float> logits(128'256);
  for (float& l : logits) l = normal(rng);
  const auto all = TopP(std::nextafter(1.0, 0.0))(row_of(logits));
  double sum = 0;
  for (Token x = 0; x < all.vocab_size(); ++x) sum += all.probability(x);
  CHECK(std::abs(sum - 1) < 1e-6);
}

TEST_CASE("top-p hands over the normaliser that it has computed") {
  std::mt19937_64 rng{6};
  std::normal_distribution<float> normal;
  std::vector<float> logits(30'000);
  for (float& l : logits) l = normal(rng);
  for (const double t : {1.0, 0.6}) {
    const auto row = TopP(0.9)(row_of(logits).tempered(t));
    double sum = 0;
    for (Token x = 0; x < row.vocab_size(); ++x) sum += row.probability(x);
    CHECK(std::abs(sum - 1) < 2e-6);
    // Over a copy that holds only the token asked for: no other may be read.
    const std::vector<float> one{logits[3]};
    CHECK(TopP(0.9)(row_of(logits).tempered(t)).over(one.data() - 3).probability(3) == row.probability(3));
  }
}

TEST_CASE("the smallest positive top-p still keeps a token") {
  const std::vector<float> logits{0.7f, 0.8f, 1.0f, 0.9f};
  const double log_sum_exp = row_of(logits).log_sum_exp().value;
  const LogitsRow<float> row(NumberRow<float>(logits.data(), 4), 1.0, LogSumExp{log_sum_exp});
  const auto one = TopP(0.1)(row);  // its mass is known, and less than a half
  for (const double p : {1e-300, std::numeric_limits<double>::denorm_min()}) {
    CHECK(TopP(p)(row).probability(2) == Approx(1));
    CHECK(TopP(p)(one).probability(2) == Approx(1));
    CHECK(TopP(p)(one).probability(3) == 0);
  }
}

TEST_CASE("top-p gives right probabilities at the smallest temperatures") {
  // Six equal maxima: each has 1/6 at any temperature except 0.
  std::vector<float> logits(5000, 1.0f);
  for (std::size_t x = 0; x < 6; ++x) logits[7 * x] = 20.0f;
  for (const double t : {1.0, 1e-6, 1e-12, 1e-30})
    CHECK(std::abs(TopP(0.9)(row_of(logits).tempered(t)).probability(7) - 1.0 / 6) < 1e-7);
}

TEST_CASE("top-p notices rows that are not distributions") {
  for (const std::size_t size : {1u, 2u, 600u, 5000u})
    for (const double bad : {nan_value, infinity}) {
      std::vector<double> logits(size, 0.5);
      logits[size / 2] = bad;
      CHECK_THROWS_AS(process<float>(TopP(0.5), logits), InvalidDistribution);
    }
  CHECK(process<float>(TopP(0.5), std::vector<double>(3000, -infinity)).p == std::vector<double>(3000, 0.0));
}

TEST_CASE("a top-p outside (0, 1] is refused") {
  CHECK(message_of([] { TopP(0.0); }) == "specdec: TopP{0} is not above 0 and at most 1");
  CHECK(message_of([] { TopP(1.5); }) == "specdec: TopP{1.5} is not above 0 and at most 1");
  CHECK_THROWS_AS(TopP(nan_value), std::invalid_argument);
  CHECK(TopP(0.5).value() == 0.5);
}

TEST_CASE("top-p refuses a log-sum-exp that no logits can have") {
  const std::vector<float> logits{1, 2, 0};
  for (const double handed_in : {nan_value, infinity, -infinity, 1e300, -1e300}) {
    const LogitsRow<float> row(NumberRow<float>(logits.data(), 3), 1.0, LogSumExp{handed_in});
    CHECK(message_of<InvalidDistribution>([&] { TopP(0.9)(row); }) ==
          "the log-sum-exp handed in cannot be that of its logits");
  }
  // One that is wrong, but that logits may have, is not noticed. No token, or any, may be kept.
  for (const double handed_in : {-300.0, -1.0, 1.0, 300.0})
    for (const float l : {-static_cast<float>(infinity), 0.0f}) {
      const std::vector<float> wrong(5000, l);
      const LogitsRow<float> row(NumberRow<float>(wrong.data(), 5000), 1.0, LogSumExp{handed_in});
      const auto kept = TopP(0.9)(row);
      CHECK((kept.cut() == row.cut() || kept.possible(7)));
    }
}

}  // namespace test_sample_top_p

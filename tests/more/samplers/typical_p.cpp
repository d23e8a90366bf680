// Typical sampling against sorting by the distance between surprise and entropy.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/typical_p.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <specdec/sample/steps/top_k.hpp>
#include <specdec/sample/text_processor.hpp>
#include <stdexcept>
#include <vector>

#include "support/applied.hpp"
#include "support/catch.hpp"
#include "support/sorted.hpp"

namespace test_sample_typical_p {

using namespace specdec;
using support::applied;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The largest distance that stays, by sorting probabilities; also how near a decision was to rounding.
std::vector<bool> kept(const std::vector<double>& logits, double p, Index min_keep, double& margin) {
  double z = 0, entropy = 0;
  for (const double l : logits) z += std::exp(l);
  std::vector<std::pair<double, double>> tokens;
  for (const double l : logits)
    if (const double q = std::exp(l) / z; q > 0) entropy -= q * std::log(q);
  for (const double l : logits)
    if (const double q = std::exp(l) / z; q > 0) tokens.emplace_back(std::abs(-std::log(q) - entropy), q);
  std::ranges::sort(tokens);
  double sum = 0, reach = infinity;
  margin = infinity;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sum += tokens[i].second;
    margin = std::min(margin, std::abs(sum - p));
    if (sum >= p && static_cast<Index>(i) + 1 >= min_keep) {
      reach = tokens[i].first;
      break;
    }
  }
  std::vector<bool> out;
  for (const double l : logits) {
    const double q = std::exp(l) / z, distance = std::abs(-std::log(q) - entropy);
    out.push_back(q > 0 && distance <= reach + 1e-12);
  }
  return out;
}

}  // namespace

static_assert(TextProcessor<TypicalP>);

TEST_CASE("typical-p keeps the tokens nearest to the entropy that sorting keeps") {
  std::mt19937_64 rng{1};
  int compared = 0, without_best = 0;
  for (int n = 0; n < 2000; ++n) {
    const auto logits = support::random_logits(1 + rng() % 60, rng);
    const double p = 0.02 + 0.97 * uniform01(rng);
    const Index min_keep = static_cast<Index>(rng() % 4);
    double margin = 0;
    const auto expected = kept(logits, p, min_keep, margin);
    if (margin < 1e-9) continue;
    ++compared;
    const auto got = applied(TypicalP{p, min_keep}, logits);
    for (std::size_t x = 0; x < logits.size(); ++x)
      REQUIRE(got[static_cast<Index>(x)] == (expected[x] ? logits[x] : -infinity));
    without_best +=
        expected[static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin())] ? 0 : 1;
  }
  CHECK(compared > 1000);
  CHECK(without_best > 20);
}

TEST_CASE("typical-p leaves rows alone that it cannot judge, and refuses shares outside (0, 1]") {
  const std::vector<double> dead(3, -infinity), flat(5, 1.0);
  CHECK(applied(TypicalP{0.5}, dead) == Eigen::RowVectorXd::Constant(3, -infinity));
  CHECK(applied(TypicalP{0.5}, flat) == Eigen::RowVectorXd::Ones(5));
  CHECK_THROWS_AS(TypicalP(0), std::invalid_argument);
  CHECK_THROWS_AS(TypicalP(1.1), std::invalid_argument);
  CHECK_THROWS_AS(TypicalP(0.5, -1), std::invalid_argument);
}

TEST_CASE("steps among processors act in the order written") {
  const std::vector<double> logits{3, 1, 2.5, 0, -1};
  const auto got = applied(Processors{TopK{3}, TypicalP{0.3}, Temperature{0.5}}, logits);
  double margin = 0;
  const auto expected = kept({3, 1, 2.5, -infinity, -infinity}, 0.3, 0, margin);
  for (std::size_t x = 0; x < 5; ++x) CHECK((got[static_cast<Index>(x)] > -infinity) == expected[x]);
  CHECK(applied(Processors{TopK{2}}, logits) ==
        Eigen::RowVectorXd{{3, -infinity, 2.5, -infinity, -infinity}});
  CHECK(applied(Processors{Temperature{0.5}}, logits) == 2 * Eigen::RowVectorXd{{0, -2, -0.5, -3, -4}});
  CHECK(applied(Processors{Temperature{0.0}}, logits)[0] == 3);
  CHECK(applied(Processors{Temperature{0.0}}, logits)[2] == -infinity);
}

}  // namespace test_sample_typical_p

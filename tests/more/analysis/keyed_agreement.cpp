// Oracles: the sum as written, its bounds, and draws of the shipped source of chance.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"

namespace test_more_analysis_keyed_agreement {

using namespace specdec;

namespace {

using Numbers = std::vector<double>;

DenseRow<double> row(const Numbers& p) { return {p.data(), std::ssize(p)}; }

// A row of a given size, with zeros and equal ratios.
Numbers random_row(std::size_t size, SplitMix64& rng) {
  Numbers p(size);
  double sum = 0;
  for (double& x : p) sum += x = rng() % 4 == 0 ? 0.0 : static_cast<double>(1 + rng() % 16);
  p[rng() % size] += 1;
  for (double& x : p) x /= sum + 1;
  return p;
}

double at(const Numbers& p, std::size_t x) { return x < p.size() ? p[x] : 0.0; }

double as_written(const Numbers& p, const Numbers& q) {
  double sum = 0;
  const std::size_t size = std::max(p.size(), q.size());
  for (std::size_t x = 0; x < size; ++x) {
    if (at(p, x) == 0 || at(q, x) == 0) continue;
    double inner = 0;
    for (std::size_t y = 0; y < size; ++y) inner += std::max(at(p, y) / at(p, x), at(q, y) / at(q, x));
    sum += 1 / inner;
  }
  return sum;
}

}  // namespace

TEST_CASE("keyed agreement is the sum of its definition, and within its bounds") {
  SplitMix64 rng(8);
  for (int i = 0; i < 300; ++i) {
    const Numbers p = random_row(1 + rng() % 12, rng), q = random_row(1 + rng() % 12, rng);
    const double agreement = keyed_agreement(row(p), row(q)), beta = overlap(row(p), row(q));
    REQUIRE(std::abs(agreement - as_written(p, q)) < 1e-14);
    REQUIRE(std::abs(agreement - keyed_agreement(row(q), row(p))) < 1e-14);
    REQUIRE(agreement <= beta + 1e-14);
    REQUIRE(agreement >= beta / (2 - beta) - 1e-14);  // (1 − TV)/(1 + TV)
    REQUIRE(std::abs(keyed_agreement(row(p), row(p)) - 1) < 1e-14);
  }
  const Numbers p{0.5, 0.5, 0, 0}, q{0, 0, 1};
  CHECK(keyed_agreement(row(p), row(q)) == 0);
  CHECK(keyed_agreement(row(p), OneHotRow(1)) == 0.5);
  const Numbers bad{0.5, std::numeric_limits<double>::quiet_NaN()}, minus{0.5, -0.5};
  CHECK_THROWS_AS(keyed_agreement(row(p), row(bad)), InvalidDistribution);
  CHECK_THROWS_AS(keyed_agreement(row(bad), row(q)), InvalidDistribution);
  CHECK_THROWS_AS(keyed_agreement(row(minus), row(p)), InvalidDistribution);
}

TEST_CASE("keyed draws agree as often as keyed agreement says") {
  SplitMix64 rng(21);
  for (int i = 0; i < 6; ++i) {
    const Numbers p = random_row(9, rng), q = random_row(12, rng);
    Keyed target(static_cast<std::uint64_t>(i)), drafter(static_cast<std::uint64_t>(i));
    const int draws = support::bound(40000);
    int agreed = 0;
    for (int k = 0; k < draws; ++k) agreed += target.draw(row(p)) == drafter.draw(row(q));
    const double expected = keyed_agreement(row(p), row(q));
    CHECK(std::abs(agreed - draws * expected) < 4.5 * std::sqrt(draws * expected * (1 - expected)));
  }
}

}  // namespace test_more_analysis_keyed_agreement

// XTC against sorting, and the law of a processed model with it.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/xtc.hpp>
#include <specdec/sample/text_processor.hpp>
#include <stdexcept>
#include <vector>

#include "support/applied.hpp"
#include "support/catch.hpp"
#include "support/sorted.hpp"

namespace test_sample_xtc {

using namespace specdec;
using support::applied;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> by_sorting(std::vector<double> logits, double threshold, Index min_keep) {
  double z = 0;
  for (const double l : logits) z += std::exp(l);
  std::vector<double> likely;
  for (const double l : logits)
    if (std::exp(l) > 0 && std::exp(l) / z >= threshold) likely.push_back(l);
  if (likely.size() < 2 || threshold > 0.5) return logits;
  const double least = *std::ranges::min_element(likely);
  const auto stays = [&](double l) { return std::exp(l) > 0 && l <= least; };
  if (std::ranges::count_if(logits, stays) < min_keep) return logits;
  for (double& l : logits) l = l <= least ? l : -infinity;
  return logits;
}

}  // namespace

static_assert(TextProcessor<Xtc>);

TEST_CASE("where its coin says so, XTC removes what sorting removes") {
  std::mt19937_64 rng{1};
  int removed = 0;
  for (int n = 0; n < 2000; ++n) {
    const auto logits = support::random_logits(1 + rng() % 40, rng);
    const double threshold = 0.003 + 0.55 * uniform01(rng) * uniform01(rng);
    const Index min_keep = static_cast<Index>(rng() % 5);
    const auto expected = by_sorting(logits, threshold, min_keep);
    const auto got = applied(Xtc{1, threshold, 7, min_keep}, logits);
    for (std::size_t x = 0; x < logits.size(); ++x) REQUIRE(got[static_cast<Index>(x)] == expected[x]);
    removed += expected != logits ? 1 : 0;
    CHECK(applied(Xtc{0, threshold, 7, min_keep}, logits) ==
          Eigen::Map<const Eigen::RowVectorXd>(logits.data(), std::ssize(logits)));
  }
  CHECK(removed > 200);
}

TEST_CASE(
    "the coin of XTC belongs to the place: it follows the text forward and back, and is fair over places and "
    "seeds") {
  Xtc xtc{0.3, 0.1, 5};
  const std::vector<double> logits{1, 1.5, 0};
  const auto removes = [&] { return applied(xtc, logits)[1] == -infinity; };
  for (Index n = 0; n < 200; ++n, xtc.push(0)) REQUIRE(removes() == xtc.removes_after(n));
  for (Index n = 199; n > 9; n -= 10) {
    xtc.pop(n == 199 ? 1 : 10);
    REQUIRE(removes() == xtc.removes_after(n));
  }
  double ones = 0, pairs = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed)
    for (Index n = 0; n < 100; ++n) {
      const Xtc other{0.3, 0.1, seed};
      ones += other.removes_after(n) ? 1 : 0;
      pairs += other.removes_after(n) && other.removes_after(n + 1) ? 1 : 0;
    }
  CHECK(std::abs(ones / 40'000 - 0.3) < 0.012);
  CHECK(std::abs(pairs / 40'000 - 0.09) < 0.012);
}

TEST_CASE("XTC refuses what is no probability") {
  CHECK_THROWS_AS(Xtc(1.1, 0.1, 1), std::invalid_argument);
  CHECK_THROWS_AS(Xtc(0.5, -0.1, 1), std::invalid_argument);
  CHECK_THROWS_AS(Xtc(0.5, 0.1, 1, -1), std::invalid_argument);
}

}  // namespace test_sample_xtc

// Top-nσ against its definition.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/top_n_sigma.hpp>
#include <specdec/sample/text_processor.hpp>
#include <stdexcept>
#include <vector>

#include "support/applied.hpp"
#include "support/catch.hpp"
#include "support/sorted.hpp"

namespace test_sample_top_n_sigma {

using namespace specdec;
using support::applied;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

static_assert(RowStep<TopNSigma>);

TEST_CASE("top-n-sigma keeps the logits within n standard deviations of the largest kept one") {
  std::mt19937_64 rng{1};
  for (int n = 0; n < 2000; ++n) {
    const auto logits = support::random_logits(1 + rng() % 60, rng);
    const double width = 0.1 + 2 * uniform01(rng);
    std::vector<double> finite;
    for (const double l : logits)
      if (l > -infinity) finite.push_back(l);
    const double mean =
        std::accumulate(finite.begin(), finite.end(), 0.0) / static_cast<double>(finite.size());
    double variance = 0;
    for (const double l : finite) variance += (l - mean) * (l - mean) / static_cast<double>(finite.size());
    const double limit = std::ranges::max(finite) - width * std::sqrt(variance);
    const auto got = applied(Processors{TopNSigma{width}}, logits);
    for (std::size_t x = 0; x < logits.size(); ++x)
      if (std::abs(logits[x] - limit) > 1e-6)
        REQUIRE(got[static_cast<Index>(x)] == (logits[x] >= limit ? logits[x] : -infinity));
  }
  CHECK_THROWS_AS(TopNSigma(-1), std::invalid_argument);
  const std::vector<double> row{1, 9, 3};
  CHECK(applied(Processors{TopNSigma{0}}, row) == Eigen::RowVector3d(1, 9, 3));
}

}  // namespace test_sample_top_n_sigma

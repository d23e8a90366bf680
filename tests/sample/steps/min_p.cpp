// MinP against its definition: p(x) >= min_p · max p.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/steps/min_p.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/sorted.hpp"

namespace test_sample_min_p {

using namespace specdec;
using namespace support;

static_assert(RowStep<MinP>);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// A temperature, then MinP.
struct TemperedMinP {
  double temperature, p;
  template <class Row>
  Row operator()(const Row& row) const {
    return MinP(p)(row.tempered(temperature));
  }
};

void check(const std::vector<double>& logits, double temperature, double p) {
  CAPTURE(p, temperature, logits.size());
  Sorted expected(logits);
  expected.temperature(temperature);
  expected.min_p(p);
  expected.check(process<float>(TemperedMinP{temperature, p}, logits), 4e-6);
}

}  // namespace

TEST_CASE("min-p keeps the tokens that its definition keeps") {
  std::mt19937_64 rng{1};
  for (int n = 0; n < 400; ++n) {
    const auto logits = random_logits(random_size(rng), rng);
    for (const double p : {1.0, 0.5, 0.05, 1e-6, uniform01(rng)}) check(logits, n % 2 == 0 ? 1.0 : 0.7, p);
  }
}

TEST_CASE("a token near the edge of min-p stays exactly if it is at least as probable as the edge") {
  // Neighbouring float logits around log p, which mostly lies between two of them. They differ by far more than the
  // rounding of double.
  int below = 0;
  for (int n = 1; n < 1000; ++n) {
    const double p = n / 1000.0;
    const auto near = static_cast<float>(std::log(p));
    const std::vector<double> logits{0, std::nextafter(near, -100.0f), near, std::nextafter(near, 100.0f)};
    const Processed row = process<float>(MinP(p), logits);
    CAPTURE(p);
    for (std::size_t x = 0; x < logits.size(); ++x)
      CHECK((row.p[x] > 0) == (std::exp(static_cast<long double>(logits[x])) >= static_cast<long double>(p)));
    below += row.p[2] > 0 ? 0 : 1;
  }
  CHECK(below > 300);  // so often the nearest float lies below the edge
}

TEST_CASE("a min-p of 1 keeps what equals the largest, and one of 0 keeps everything") {
  const std::vector<double> logits{2, 1, 2, std::nextafter(2.0f, 0.0f), -infinity};
  CHECK(process<float>(MinP(1.0), logits).p[2] == 0.5);
  CHECK(process<float>(MinP(1.0), logits).p[3] == 0);
  const std::vector<float> held = as<float>(logits);
  CHECK(MinP(0.0)(row_of(held)).cut() == row_of(held).cut());
  CHECK(process<float>(MinP(std::exp(-1.0) * 0.999), logits).p[1] > 0);
}

TEST_CASE("min-p does not bring back tokens that earlier steps removed") {
  const std::vector<float> logits{3, 2, 1, 0};
  const auto row = row_of(logits).above(2.0f);
  CHECK(MinP(0.3)(row).probability(1) > 0);   // e^-1 of the largest
  CHECK(MinP(0.1)(row).probability(2) == 0);  // e^-2 of the largest, but removed before
}

TEST_CASE("min-p notices rows that are not distributions") {
  for (const std::size_t size : {1u, 2u, 600u, 5000u})
    for (const double bad : {nan_value, infinity}) {
      std::vector<double> logits(size, 0.5);
      logits[size / 2] = bad;
      CHECK_THROWS_AS(process<float>(MinP(0.5), logits), InvalidDistribution);
    }
  CHECK(process<float>(MinP(0.5), std::vector<double>(3000, -infinity)).p == std::vector<double>(3000, 0.0));
}

TEST_CASE("a min-p outside [0, 1] is refused") {
  CHECK(message_of([] { MinP(-0.1); }) == "specdec: MinP{-0.1} is not between 0 and 1");
  CHECK(message_of([] { MinP(1.1); }) == "specdec: MinP{1.1} is not between 0 and 1");
  CHECK_THROWS_AS(MinP(nan_value), std::invalid_argument);
  CHECK(MinP(0.25).value() == 0.25);
}

}  // namespace test_sample_min_p

// Dynamic temperature against its definition, by probabilities one after another.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/more/samplers/dynamic_temperature.hpp>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/steps/min_p.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <specdec/sample/steps/top_k.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/sorted.hpp"

namespace test_sample_dynamic_temperature {

using namespace specdec;
using namespace support;

static_assert(RowStep<DynamicTemperature>);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The probabilities of the logits from `cut` on at a temperature.
std::vector<double> softmax(const std::vector<double>& logits, double cut, double temperature) {
  const double largest = std::ranges::max(logits);
  double total = 0;
  std::vector<double> p;
  for (const double l : logits) p.push_back(l >= cut ? std::exp((l - largest) / temperature) : 0.0);
  for (const double w : p) total += w;
  for (double& w : p) w /= total;
  return p;
}

double temperature_of(const std::vector<double>& logits, double cut, double t, double range,
                      double exponent) {
  double entropy = 0, kept = 0;
  for (const double p : softmax(logits, cut, 1))
    if (p > 0) entropy -= p * std::log(p);
  for (const double l : logits) kept += l >= cut && l > -infinity ? 1 : 0;
  const double low = std::max(0.0, t - range), high = t + range;
  return low + (high - low) * std::pow(kept > 1 ? entropy / std::log(kept) : 0.0, exponent);
}

// The worst differences of temperatures, and of probabilities.
struct Worst {
  double temperature = 0, probability = 0;
};

template <class S>
Worst worst_of(int rows) {
  std::mt19937_64 rng{1};
  Worst worst;
  for (int n = 0; n < rows; ++n) {
    const auto logits = random_logits(random_size(rng), rng);
    const double t = 0.3 + uniform01(rng), range = t * uniform01(rng),
                 exponent = n % 3 == 0 ? 1 : 2 * uniform01(rng);
    const double share = n % 2 == 0 ? 0 : 0.3 * uniform01(rng);
    const std::vector<S> held = as<S>(logits);
    const auto kept = MinP{share}(row_of(held));
    const auto row = DynamicTemperature{t, range, exponent}(kept);
    const auto cut = static_cast<double>(kept.cut());
    const double expected = temperature_of(logits, cut, t, range, exponent);
    worst.temperature = std::max(worst.temperature, std::abs(row.temperature() - expected));
    const auto p = softmax(logits, cut, expected);
    for (std::size_t x = 0; x < logits.size(); ++x)
      worst.probability =
          std::max(worst.probability, std::abs(row.probability(static_cast<Token>(x)) - p[x]));
  }
  return worst;
}

}  // namespace

TEST_CASE("the temperature follows from the entropy of what earlier steps have kept") {
  const Worst of_double = worst_of<double>(2000), of_float = worst_of<float>(2000);
  CHECK(of_double.temperature < 1e-12);
  CHECK(of_double.probability < 1e-12);
  CHECK(of_float.temperature < 1e-4);  // a power of little is steep
  CHECK(of_float.probability < 1e-5);
}

TEST_CASE(
    "a flat row has the highest temperature, a sure one the lowest, and no other range means a temperature") {
  const std::vector<float> flat(7, 1.5f), sure{90, 0, 0, 0}, one{0.2f, static_cast<float>(-infinity)},
      some{1, 2, 0};
  const DynamicTemperature step{0.8, 0.3, 1.5};
  CHECK(step(row_of(flat)).temperature() == Approx(1.1));
  CHECK(step(row_of(sure)).temperature() == Approx(0.5));
  CHECK(step(row_of(one)).temperature() == Approx(0.5));
  CHECK(step(row_of(flat).tempered(0.5)).temperature() == Approx(0.55));
  CHECK(DynamicTemperature{0.8, 0}(row_of(some)).temperature() == 0.8);
  CHECK(DynamicTemperature{0.8, 0.3, 0}(row_of(sure)).temperature() == Approx(1.1));
  CHECK(DynamicTemperature{0.5, 2}(row_of(one)).is_argmax());  // the lowest temperature is 0
  CHECK(DynamicTemperature{0.5, 2}(row_of(one)).probability(0) == 1);
  CHECK(Chain{Temperature{0}, step}(row_of(some)).argmax() == 1);
  CHECK(Chain{TopK{1}, step}(row_of(some)).probability(1) == 1);
}

TEST_CASE("dynamic temperature notices rows that are not distributions, and refuses odd numbers") {
  std::vector<double> logits(3000, 0.5);
  CHECK(process<float>(DynamicTemperature(1, 0.5), std::vector<double>(30, -infinity)).p ==
        std::vector<double>(30, 0.0));
  logits[7] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(process<float>(DynamicTemperature(1, 0.5), logits), InvalidDistribution);
  CHECK(message_of([] { DynamicTemperature(-1, 0); }) ==
        "specdec: DynamicTemperature: t = -1 is not a finite number >= 0");
  CHECK_THROWS_AS(DynamicTemperature(1, -0.1), std::invalid_argument);
  CHECK_THROWS_AS(DynamicTemperature(1, 0.1, -1), std::invalid_argument);
  CHECK_THROWS_AS(DynamicTemperature(1, infinity), std::invalid_argument);
  CHECK_THROWS_AS(DynamicTemperature(1e308, 1e308), std::invalid_argument);
}

}  // namespace test_sample_dynamic_temperature

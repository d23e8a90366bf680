// Temperature against softmax(l/t).
// SPDX-License-Identifier: MIT
#include <limits>
#include <random>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/sorted.hpp"

namespace test_sample_temperature {

using namespace specdec;
using namespace support;

static_assert(RowStep<Temperature>);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("a temperature divides the logits, and temperature 0 leaves the first of the largest") {
  std::mt19937_64 rng{1};
  for (int n = 0; n < 400; ++n) {
    const auto logits = random_logits(random_size(rng), rng);
    for (const double t : {0.0, 0.5, 1.0, 1.7}) {
      CAPTURE(t, logits.size());
      Sorted expected(logits);
      expected.temperature(t);
      expected.check(process<float>(Temperature(t), logits), 4e-6);
    }
  }
}

TEST_CASE("temperatures multiply, and temperature 1 changes nothing") {
  const std::vector<float> logits{1, 2, 0};
  const auto row = row_of(logits);
  CHECK(Temperature(1.0)(row).temperature() == 1);
  CHECK(Temperature(0.5)(Temperature(3.0)(row)).temperature() == 1.5);
  CHECK(Temperature(0.5)(Temperature(2.0)(row)).probability(1) == row.probability(1));
  CHECK(Temperature(0.5)(row.above(1.0f)).probability(2) == 0);  // removed tokens stay removed
}

TEST_CASE("a product of temperatures that overflows is the largest number, and a product with 0 is 0") {
  const std::vector<float> logits{1, 2, 0, -std::numeric_limits<float>::infinity(), 2};
  const auto hot = Chain{Temperature(1e300), Temperature(1e300)}(row_of(logits));
  CHECK(hot.temperature() == std::numeric_limits<double>::max());
  for (const Token x : {0, 1, 2, 4}) CHECK(hot.probability(x) == 0.25);
  CHECK(hot.probability(3) == 0);
  const auto cold = Temperature(0.0)(hot);
  CHECK(cold.temperature() == 0);
  CHECK(cold.probability(1) == 1);
  CHECK(Chain{Temperature(0.0), Temperature(1e300)}(row_of(logits)).probability(1) == 1);
}

TEST_CASE("a temperature of 0 notices rows that are not distributions") {
  for (const double bad : {nan_value, infinity})
    CHECK_THROWS_AS(process<float>(Temperature(0.0), {0.5, bad, 0.5}), InvalidDistribution);
  CHECK(process<float>(Temperature(0.0), {-infinity, -infinity}).p == std::vector<double>{0, 0});
}

TEST_CASE("an invalid temperature is refused") {
  CHECK(message_of([] { Temperature(-1.0); }) == "specdec: Temperature{-1} is not a finite number >= 0");
  CHECK_THROWS_AS(Temperature(infinity), std::invalid_argument);
  CHECK_THROWS_AS(Temperature(nan_value), std::invalid_argument);
  CHECK(Temperature(0.8).value() == 0.8);
}

}  // namespace test_sample_temperature

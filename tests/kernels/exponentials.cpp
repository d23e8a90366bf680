// Exponentials against those of the standard library in long double.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <specdec/kernels/exponentials.hpp>

#include "kernels/widths.hpp"
#include "support/catch.hpp"

namespace test_kernels_exponentials {

using namespace test_kernels;

namespace {

/// One exponential, computed among a lot of others.
template <class Scalar>
Scalar exponential(Scalar logit, const Exponentials<Scalar>& e) {
  std::vector<Scalar> logits(lot, -std::numeric_limits<Scalar>::infinity()), out(lot);
  logits[37] = logit;
  run_wide<WriteExponentials<Scalar>>(logits.data(), lot, e, Scalar{1}, out.data());
  for (std::size_t i = 0; i < out.size(); ++i)
    if (i != 37) REQUIRE(out[i] == 0);
  return out[37];
}

/// The largest error, relative to the documented ε·(1.2 + |x|), over exponents with this step between them.
template <class Scalar>
double largest_error(Scalar first, Scalar last, Scalar step) {
  const double epsilon = static_cast<double>(std::numeric_limits<Scalar>::epsilon());
  double worst = 0;
  for (Scalar x = first; x <= last; x += step) {
    const long double exact = std::exp(static_cast<long double>(x));
    const long double error = std::abs(exponential(x, {0, 1}) / exact - 1);
    worst =
        std::max(worst, static_cast<double>(error) / (epsilon * (1.2 + std::abs(static_cast<double>(x)))));
  }
  return worst;
}

}  // namespace

TEST_CASE("exponentials are as accurate as documented, over all finite exponents") {
  CHECK(largest_error<float>(-78, 88, 0.00731f) < 1);
  CHECK(largest_error<double>(-699, 708, 0.0731) < 1);
  CHECK(largest_error<float>(-1, 1, 0.000231f) < 1);
  CHECK(exponential<float>(0, {0, 1}) == 1);
  CHECK(exponential<double>(3.5, {3.5, 2}) == 1);
}

TEST_CASE("an exponential that overflows is infinite, and one that underflows is 0") {
  for (const float x : {89.0f, 130.0f, 1e4f, 1e30f, std::numeric_limits<float>::infinity()})
    CHECK(exponential<float>(x, {0, 1}) == std::numeric_limits<float>::infinity());
  CHECK(exponential<double>(1e4, {0, 1}) == std::numeric_limits<double>::infinity());
  for (const float x : {-90.0f, -1e30f, std::numeric_limits<float>::lowest()})
    CHECK(exponential<float>(x, {0, 1}) == 0);
}

TEST_CASE("shift, temperature and cut work as defined") {
  const Exponentials<double> e{2, 0.5, 1.0};
  CHECK(std::abs(exponential(5.0, e) - std::exp(1.5)) < 1e-14);
  CHECK(std::abs(exponential(1.0, e) - std::exp(-0.5)) < 1e-15);
  CHECK(exponential(0.999, e) == 0);
  CHECK(std::isnan(exponential(std::numeric_limits<double>::quiet_NaN(), e)));
  // A temperature with a nearly infinite inverse.
  const Exponentials<float> cold{1, std::numeric_limits<float>::max()};
  CHECK(exponential(1.0f, cold) == 1);
  CHECK(exponential(0.5f, cold) == 0);
}

TEST_CASE("sums include every number, and nothing for infinitely improbable ones") {
  std::mt19937_64 rng{4};
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> l(lot * 20);
  for (float& x : l) x = normal(rng);
  const Exponentials<float> e{20, 0.8f}, cut{20, 0.8f, 2.5f};
  long double all = 0, above = 0;
  for (const float x : l) {
    const long double value = std::exp((static_cast<long double>(x) - 20) * static_cast<long double>(0.8f));
    all += value;
    above += x >= 2.5f ? value : 0;
  }
  const auto close = [](double sum, long double expected) {
    return std::abs(sum - expected) < 2e-6L * expected;
  };
  CHECK(close(run_wide<SumOfExponentials<float>>(l.data(), std::ssize(l), e), all));
  CHECK(close(run_wide<SumOfExponentials<float>>(l.data(), std::ssize(l), cut), above));
  const std::vector<float> none(l.size(), -std::numeric_limits<float>::infinity());
  CHECK(run_wide<SumOfExponentials<float>>(none.data(), std::ssize(none), e) == 0);
  CHECK(run_wide<SumOfExponentials<float>>(none.data(), std::ssize(none), cut) == 0);
}

}  // namespace test_kernels_exponentials

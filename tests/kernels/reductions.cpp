// The largest of many numbers and their sums, against plain loops.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <specdec/kernels/reductions.hpp>

#include "kernels/widths.hpp"
#include "support/catch.hpp"

namespace test_kernels_reductions {

using namespace test_kernels;

namespace {

struct Product {
  SPECDEC_KERNEL double operator()(double p, double q) const { return p * q; }
};

}  // namespace

TEST_CASE("the largest number is found wherever it is, and NaN too") {
  std::vector<float> l(3 * lot, -2.0f);
  for (std::size_t at = 0; at < l.size(); ++at) {
    l[at] = -1;
    CHECK(run_wide<LargestNumber<float>>(l.data(), std::ssize(l)) == -1);
    l[at] = at % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(run_wide<LargestNumber<float>>(l.data(), std::ssize(l))));
    l[at] = -2;
  }
  // A NaN that is seen is not forgotten, and only larger numbers move the stretch.
  LargestSoFar<float> found{-2, 7, true};
  found =
      run_wide<FindLargest<float>>(static_cast<const float*>(l.data()), std::ssize(l), Index{1000}, found);
  CHECK((found.number == -2 && found.stretch == 7 && found.has_nan));
  l.assign(std::size_t{6} * lot, -2.0f);
  l[std::size_t{5} * lot] = -1;
  found = run_wide<FindLargest<float>>(static_cast<const float*>(l.data()), std::ssize(l), Index{1000},
                                       LargestSoFar<float>{});
  CHECK((found.number == -1 && found.stretch == 1000 + 4 * lot && !found.has_nan));
  CHECK(run_wide<LargestNumber<double>>(static_cast<const double*>(nullptr), Index{0}) ==
        -std::numeric_limits<double>::infinity());
}

TEST_CASE("sums include every number once, and add up lots in double") {
  std::vector<double> x(5 * lot), y(x.size());
  double sum = 0, products = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp(1.0, static_cast<int>(i % 50));
    y[i] = static_cast<double>(i);
    sum += x[i];
    products += x[i] * y[i];
  }
  CHECK(run_wide<SumOfNumbers<double>>(x.data(), std::ssize(x)) == sum);
  CHECK(run_wide<PairSum<Product, double, double>>(Product{}, x.data(), y.data(), std::ssize(x)) == products);
  std::vector<float> f(1000 * lot, 0.1f);
  CHECK(std::abs(run_wide<SumOfNumbers<float>>(f.data(), std::ssize(f)) - static_cast<double>(0.1f) * 64000) <
        1e-3);
}

}  // namespace test_kernels_reductions

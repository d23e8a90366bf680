// The largest number of each lot, at every width.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <specdec/rows/kinds/stretches.hpp>

#include "kernels/widths.hpp"
#include "support/catch.hpp"

namespace test_kernels_lot_maxima {

using namespace test_kernels;

namespace {

template <class Scalar>
void check(std::mt19937_64& rng) {
  for (const Index lots : {0, 1, 2, 7, 33})
    for (const bool with_nan : {false, true}) {
      if (lots == 0 && with_nan) continue;
      const auto x = numbers<Scalar>(lots, with_nan, rng);
      for (const VectorWidth width : widths()) {
        std::vector<Scalar> largest(static_cast<std::size_t>(lots) + 1, Scalar{77});
        CHECK(run_at<LotMaxima<Scalar>>(width, x.data(), std::ssize(x), largest.data()) == with_nan);
        CHECK(largest.back() == 77);
        for (std::size_t i = 0; !with_nan && i + 1 < largest.size(); ++i)
          CHECK(largest[i] == *std::max_element(x.begin() + static_cast<std::ptrdiff_t>(64 * i),
                                                x.begin() + static_cast<std::ptrdiff_t>(64 * (i + 1))));
      }
    }
}

}  // namespace

TEST_CASE("the largest number of each lot is found, and NaN anywhere") {
  std::mt19937_64 rng{5};
  for (int n = 0; n < 20; ++n) {
    check<float>(rng);
    check<double>(rng);
  }
}

}  // namespace test_kernels_lot_maxima

// Kernels for the largest of many numbers, for their sum, and for sums over two rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <limits>

#include "specdec/kernels/machine_width.hpp"

namespace specdec::inline v0_2_0::detail {

/// A sum of lots. The 64 numbers of a lot become 16 partial sums in their own scalar type; these are summed in double.
class LotSum {
 public:
  /// Adds a lot, and overwrites it.
  template <std::floating_point Scalar>
  SPECDEC_KERNEL void add(Scalar* numbers) {
    for (Index i = 0; i < 32; ++i) numbers[i] += numbers[i + 32];
    for (Index i = 0; i < lanes; ++i) numbers[i] += numbers[i + lanes];
    for (Index i = 0; i < lanes; ++i) sums_[i] += static_cast<double>(numbers[i]);
  }

  SPECDEC_KERNEL double total() const {
    double total = 0;
    for (const double sum : sums_) total += sum;
    return total;
  }

 private:
  static constexpr Index lanes = 16;
  static_assert(lot == 4 * lanes);

  double sums_[lanes] = {};
};

/// The sum of `count` numbers, whole lots.
/// Numeric: in the numbers' own arithmetic over up to 1024, in double across.
template <std::floating_point Scalar>
struct SumOfNumbers {
  static SPECDEC_KERNEL double run(const Scalar* numbers, Index count) {
    double total = 0;
    for (Index start = 0; start < count;) {
      const Index end = count - start < 16 * lot ? count : start + 16 * lot;
      Scalar sums[lanes] = {};
      for (; start < end; start += lot) {
        const Scalar* n = numbers + start;
        for (Index i = 0; i < lanes; ++i)
          sums[i] += ((n[i] + n[i + lanes]) + (n[i + 2 * lanes] + n[i + 3 * lanes])) +
                     ((n[i + 4 * lanes] + n[i + 5 * lanes]) + (n[i + 6 * lanes] + n[i + 7 * lanes]));
      }
      for (Index half = lanes / 2; half > 0; half /= 2)
        for (Index i = 0; i < half; ++i) sums[i] += sums[i + half];
      total += static_cast<double>(sums[0]);
    }
    return total;
  }

 private:
  static constexpr Index lanes = lot / 8;
};

/// The sum of the numbers with a key that is not below a threshold. Each of the `count` numbers (whole lots) has a key.
template <std::floating_point Scalar>
struct SumOfNotBelow {
  static SPECDEC_KERNEL double run(const Scalar* numbers, const Scalar* keys, Index count, Scalar threshold) {
    LotSum sum;
    Scalar those[lot];
    for (Index start = 0; start < count; start += lot) {
      for (Index i = 0; i < lot; ++i)
        those[i] = numbers[start + i];  // all of them: to choose which to read would be a branch
      for (Index i = 0; i < lot; ++i) those[i] = keys[start + i] < threshold ? Scalar{0} : those[i];
      sum.add(those);
    }
    return sum.total();
  }
};

/// The largest of `count` numbers (whole lots); NaN if one of them is NaN.
template <std::floating_point Scalar>
struct LargestNumber {
  static SPECDEC_KERNEL Scalar run(const Scalar* numbers, Index count) {
    Scalar largest[half];
    unsigned nan = 0;
    for (Scalar& x : largest) x = -std::numeric_limits<Scalar>::infinity();
    for (Index start = 0; start < count; start += lot) {
      const Scalar *a = numbers + start, *b = a + half;
      Scalar larger[half];
      for (Index i = 0; i < half; ++i) nan |= static_cast<unsigned>(std::isunordered(a[i], b[i]));
      for (Index i = 0; i < half; ++i) larger[i] = a[i] < b[i] ? b[i] : a[i];
      for (Index i = 0; i < half; ++i) largest[i] = largest[i] < larger[i] ? larger[i] : largest[i];
    }
    for (Index i = 1; i < half; ++i) largest[0] = largest[0] < largest[i] ? largest[i] : largest[0];
    return nan != 0 ? std::numeric_limits<Scalar>::quiet_NaN() : largest[0];
  }

 private:
  static constexpr Index half = lot / 2;
};

/// Σ f(p[i], q[i]) over `count` pairs, whole lots.
/// Numeric: in double.
template <class F, std::floating_point P, std::floating_point Q>
struct PairSum {
  static SPECDEC_KERNEL double run(F f, const P* p, const Q* q, Index count) {
    LotSum sum;
    double values[lot];
    for (Index start = 0; start < count; start += lot) {
      for (Index i = 0; i < lot; ++i)
        values[i] = f(static_cast<double>(p[start + i]), static_cast<double>(q[start + i]));
      sum.add(values);
    }
    return sum.total();
  }
};

}  // namespace specdec::detail

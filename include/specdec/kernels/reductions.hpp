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

/// The largest number so far of a row, the stretch in which it is first, and whether any number was NaN.
template <std::floating_point Scalar>
struct LargestSoFar {
  static constexpr Index stretch_size = 4 * lot;

  Scalar number = -std::numeric_limits<Scalar>::infinity();
  Index stretch = 0;  ///< the first index of the stretch
  bool has_nan = false;

  SPECDEC_KERNEL Scalar or_nan() const { return has_nan ? std::numeric_limits<Scalar>::quiet_NaN() : number; }
};

/// Goes on with `count` numbers (whole lots). They have the indices from `first` on.
template <std::floating_point Scalar>
struct FindLargest {
  static SPECDEC_KERNEL LargestSoFar<Scalar> run(const Scalar* numbers, Index count, Index first,
                                                 LargestSoFar<Scalar> found) {
    constexpr Index stretch_size = LargestSoFar<Scalar>::stretch_size;
    Scalar largest[places];
    unsigned nan[places] = {}, some = 0;
    for (Scalar& x : largest) x = found.number;
    for (Index start = 0; start < count; start += stretch_size) {
      const Index size = count - start < stretch_size ? count - start : stretch_size;
      for (Index i = 0; i < size; i += lot) look_at(numbers + start + i, largest, nan);
      unsigned more = 0;
      for (const Scalar x : largest) more |= static_cast<unsigned>(found.number < x);
      if (more == 0) continue;  // nearly always
      found.stretch = first + start;
      for (const Scalar x : largest) found.number = larger(found.number, x);
    }
    for (const unsigned one : nan) some |= one;
    found.has_nan |= some != 0;
    return found;
  }

 private:
  static constexpr Index places = 8;
  static_assert(lot == 8 * places);

  // Takes all numbers of a place in one expression, so that compilers keep the places in registers.
  static SPECDEC_KERNEL void look_at(const Scalar* n, Scalar* largest, unsigned* nan) {
    for (Index i = 0; i < places; ++i) {
      const Scalar a = n[i], b = n[i + 8], c = n[i + 16], d = n[i + 24];
      const Scalar e = n[i + 32], f = n[i + 40], g = n[i + 48], h = n[i + 56];
      nan[i] |= (unordered(a, b) | unordered(c, d)) | (unordered(e, f) | unordered(g, h));
      const Scalar left = larger(larger(a, b), larger(c, d)), right = larger(larger(e, f), larger(g, h));
      largest[i] = larger(largest[i], larger(left, right));
    }
  }
  static SPECDEC_KERNEL Scalar larger(Scalar a, Scalar b) { return a < b ? b : a; }
  static SPECDEC_KERNEL unsigned unordered(Scalar a, Scalar b) {
    return static_cast<unsigned>(std::isunordered(a, b));
  }
};

/// The largest of `count` numbers (whole lots); NaN if one of them is NaN.
template <std::floating_point Scalar>
struct LargestNumber {
  static SPECDEC_KERNEL Scalar run(const Scalar* numbers, Index count) {
    return FindLargest<Scalar>::run(numbers, count, 0, {}).or_nan();
  }
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

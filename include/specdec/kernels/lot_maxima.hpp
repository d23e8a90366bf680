// A kernel for the largest number of each lot.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>

#include "specdec/kernels/machine_width.hpp"

namespace specdec::inline v0_2_0::detail {

/// Writes the largest of each lot of `count` numbers (whole lots). Returns whether one is NaN: the result then means nothing.
template <std::floating_point Scalar>
struct LotMaxima {
  static SPECDEC_KERNEL bool run(const Scalar* numbers, Index count, Scalar* largest) {
    unsigned nan = 0;
    for (Index start = 0; start < count; start += lot) {
      prefetch_ahead(numbers + start);
      const Scalar *a = numbers + start, *b = a + half;
      Scalar m[half];
      for (Index i = 0; i < half; ++i) nan |= static_cast<unsigned>(std::isunordered(a[i], b[i]));
      for (Index i = 0; i < half; ++i) m[i] = a[i] < b[i] ? b[i] : a[i];
      for (Index i = 0; i < 16; ++i) m[i] = m[i] < m[i + 16] ? m[i + 16] : m[i];
      for (Index i = 0; i < 8; ++i) m[i] = m[i] < m[i + 8] ? m[i + 8] : m[i];
      for (Index i = 0; i < 4; ++i) m[i] = m[i] < m[i + 4] ? m[i + 4] : m[i];
      for (Index i = 0; i < 2; ++i) m[i] = m[i] < m[i + 2] ? m[i + 2] : m[i];
      *largest++ = m[0] < m[1] ? m[1] : m[0];
    }
    return nan != 0;
  }

 private:
  static constexpr Index half = lot / 2;
};

}  // namespace specdec::detail

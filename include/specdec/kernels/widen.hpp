// Conversion of 16-bit numbers to floats.
// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>

#include "specdec/eigen.hpp"
#include "specdec/kernels/machine_width.hpp"

namespace specdec::inline v0_2_0::detail {

/// All bits set if the condition holds, else 0. No compiler makes a branch of it.
SPECDEC_KERNEL std::uint32_t all_if(bool condition) {
  return ~std::uint32_t{0} * static_cast<std::uint32_t>(condition);
}

/// A bfloat16 is the upper half of a float.
SPECDEC_KERNEL std::uint32_t widened(std::uint32_t bits, Eigen::bfloat16) { return bits << 16; }

/// A half has five bits of exponent, a float has eight. Halves with exponent 0 have no leading 1: it is added and subtracted again.
SPECDEC_KERNEL std::uint32_t widened(std::uint32_t bits, Eigen::half) {
  constexpr std::uint32_t exponent_1 = 1U << 23, infinite = 31 * exponent_1, rebias = 112 * exponent_1;
  const std::uint32_t sign = (bits & 0x8000U) << 16, magnitude = (bits & 0x7FFFU) << 13;
  const std::uint32_t normal = magnitude + rebias + (rebias & all_if(magnitude >= infinite));
  const float with_one = std::bit_cast<float>(magnitude + rebias + exponent_1);
  const auto subnormal = std::bit_cast<std::uint32_t>(with_one - std::bit_cast<float>(rebias + exponent_1));
  const std::uint32_t is_small = all_if(magnitude < exponent_1);
  return sign | (subnormal & is_small) | (normal & ~is_small);
}

/// Writes `count` numbers, whole lots, as floats.
template <class Narrow>
struct Widen {
  static SPECDEC_KERNEL void run(const Narrow* numbers, Index count, float* out) {
    for (Index start = 0; start < count; start += lot)
      for (Index i = start; i < start + lot; ++i)
        out[i] = std::bit_cast<float>(
            widened(Eigen::numext::bit_cast<Eigen::numext::uint16_t>(numbers[i]), Narrow{}));
  }
};

}  // namespace specdec::detail

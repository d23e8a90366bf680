// Numbers of logits, and powers of two, in code that also compiles for a GPU.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "specdec/types.hpp"

// SPECDEC_TEAM marks functions that a GPU runs, too. They are always inlined: a call on a GPU takes registers away.
#if defined(__CUDACC__) && !defined(__clang__)  // nvcc
#define SPECDEC_TEAM __host__ __device__ __forceinline__
#elif defined(__CUDA__)  // Clang, which needs no SDK
#define SPECDEC_TEAM __attribute__((host, device, always_inline)) inline
#else
#define SPECDEC_TEAM inline
#endif
// For lambdas. Clang takes their host and device from where they stand.
#if defined(__CUDA__) && defined(__clang__)
#define SPECDEC_TEAM_LAMBDA __attribute__((always_inline))
#else
#define SPECDEC_TEAM_LAMBDA
#endif
#if defined(__CUDA__) || defined(__CUDACC__)
#define SPECDEC_UNROLLED _Pragma("unroll")
#else
#define SPECDEC_UNROLLED
#endif

namespace specdec::inline v0_2_0::device {

/// A half by its bits: IEEE 754 binary16.
struct Half {
  std::uint16_t bits;
};
/// A bfloat16 by its bits: the upper half of a float.
struct Bfloat16 {
  std::uint16_t bits;
};

SPECDEC_TEAM float widen(float x) { return x; }
SPECDEC_TEAM float widen(Bfloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
/// A half has five bits of exponent, a float has eight. A product by 2^112 moves the exponent, and makes subnormal halves normal.
SPECDEC_TEAM float widen(Half x) {
  const std::uint32_t sign = (x.bits & 0x8000U) << 16, magnitude = (x.bits & 0x7fffU) << 13;
  const bool infinite_or_nan = magnitude >= 0x0f800000U;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  return std::bit_cast<float>(sign | (infinite_or_nan ? magnitude | 0x7f800000U : finite));
}

/// a·b + c, rounded once, on each processor.
#if defined(__CUDA__) || defined(__CUDACC__)
SPECDEC_TEAM float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SPECDEC_TEAM double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
SPECDEC_TEAM float rounded_up(float x) { return __builtin_ceilf(x); }
#else
inline float fused(float a, float b, float c) { return std::fma(a, b, c); }
inline double fused(double a, double b, double c) { return std::fma(a, b, c); }
inline float rounded_up(float x) { return std::ceil(x); }
#endif

/// a·b, rounded. No compiler makes a fused product of it and of a sum.
SPECDEC_TEAM double product(double a, double b) {
#if defined(__CUDA_ARCH__) && defined(__clang__)
  return __nvvm_mul_rn_d(a, b);
#elif defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
  double result = a * b;
#if defined(__GNUC__)
  __asm__(""
          : "+m"(result));  // GCC has no pragma for one function, and Clang's gives way to -ffp-contract=fast
#endif
  return result;
#endif
}

namespace detail {

/// 2^x, where `Bits` is the integer of Real's size, and a Real has `digits` binary digits after the first. 2^r of what is left
/// after rounding x to an integer, |r| <= 1/2, is the polynomial with these coefficients, the highest power first.
template <class Bits, int digits, class Real, class... Coefficients>
SPECDEC_TEAM Real power_by(Real x, Real highest, Coefficients... coefficients) {
  constexpr Real integers = static_cast<Real>(Bits{3} << (digits - 1));  // here numbers are 1 apart
  const Real shifted = x + integers;        // rounds to an integer, which lies in the low bits
  const Real r = x - (shifted - integers);  // exact
  Real y = highest;
  ((y = fused(y, r, coefficients)), ...);
  return std::bit_cast<Real>(std::bit_cast<Bits>(y) + (std::bit_cast<Bits>(shifted) << digits));
}

}  // namespace detail

/// 2^(l·scale − top) in float, for l·scale <= top. 0 from 2^-127 on downward, and for l = -inf.
/// Numeric: relative error below 2e-7, beside the rounding of l·scale − top to a float. NaN and +inf give any number.
SPECDEC_TEAM float power_of_two(float l, float scale, float top) {
  const float x = fused(l, scale, -top);
  // A minimax polynomial with 2^0 = 1.
  return detail::power_by<std::uint32_t, 23>(x > -127.0F ? x : -127.0F, 0x1.5bb9ep-10F, 0x1.3ceab6p-7F,
                                             0x1.c6b754p-5F, 0x1.ebf9bcp-3F, 0x1.62e42ap-1F, 1.0F);
}

/// 2^x in double, for x <= 1023. 0 below 2^-1000 and for NaN.
/// Numeric: relative error below 1e-15.
SPECDEC_TEAM double power_of_two(double x) {
  if (!(x > -1000)) return 0;
  // The series of exp(r·log 2).
  return detail::power_by<std::uint64_t, 52>(
      x, 0x1.c3bd650fc2986p-36, 0x1.e8cac7351bb25p-32, 0x1.e4cf5158b8ecap-28, 0x1.b5253d395e7c4p-24,
      0x1.62c0223a5c824p-20, 0x1.ffcbfc588b0c7p-17, 0x1.430912f86c787p-13, 0x1.5d87fe78a6731p-10,
      0x1.3b2ab6fba4e77p-7, 0x1.c6b08d704a0c0p-5, 0x1.ebfbdff82c58fp-3, 0x1.62e42fefa39efp-1, 1.0);
}

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float log2_of_e = 1.44269504F;

}  // namespace specdec::device

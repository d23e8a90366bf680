// Exponentials of logits.
// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numbers>

#include "specdec/kernels/machine_width.hpp"

namespace specdec::inline v0_2_0::detail {

/// What 2^x is computed from: integers as wide as the scalar, and a polynomial 1 + c₀r + c₁r² + ... for 2^r. Its largest
/// relative error for |r| <= 1/2 is the least possible: 9e-8 for float, 3e-18 for double.
template <std::floating_point Scalar>
struct PowerOfTwo;

template <>
struct PowerOfTwo<float> {
  using Bits = std::uint32_t;
  static constexpr float coefficients[] = {0x1.62e42ap-1F, 0x1.ebf9bcp-3F, 0x1.c6b754p-5F, 0x1.3ceab6p-7F,
                                           0x1.5bb9ep-10F};
};

template <>
struct PowerOfTwo<double> {
  using Bits = std::uint64_t;
  static constexpr double coefficients[] = {
      0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5a4p-3,  0x1.c6b08d7049fe7p-5,  0x1.3b2ab6fba00fap-7,
      0x1.5d87fe78cd7d4p-10, 0x1.4309130edfb81p-13, 0x1.ffcbfba949bc9p-17, 0x1.62bfc78aad81bp-20,
      0x1.b5267d24205e5p-24, 0x1.e61b71b0f3625p-28, 0x1.e79b93f76e97ep-32};
};

/// c_k + c_{k+1}·r + c_{k+2}·r² + ...
template <std::size_t k, std::floating_point Scalar>
SPECDEC_KERNEL Scalar polynomial(Scalar r) {
  SPECDEC_UNFUSED
  constexpr auto& c = PowerOfTwo<Scalar>::coefficients;
  if constexpr (k + 1 == std::size(c)) return c[k];
  else return polynomial<k + 1>(r) * r + c[k];
}

/// 2^x, if it is a normal number. Infinite for x just above the largest exponent. NaN stays NaN.
///
/// With n the integer nearest to x, 2^x = 2^(x − n)·2^n. To get n, x is added to a number so large that it has no bits for a
/// fraction: the last bits of the sum are then those of n, and of the bias that a stored exponent has. Shifted to where the
/// exponent is stored, they are the number 2^n.
template <std::floating_point Scalar>
SPECDEC_KERNEL Scalar power_of_two(Scalar x) {
  SPECDEC_UNFUSED
  using Bits = typename PowerOfTwo<Scalar>::Bits;
  constexpr int fraction_bits = std::numeric_limits<Scalar>::digits - 1;
  constexpr Bits bias = std::numeric_limits<Scalar>::max_exponent - 1;
  constexpr auto no_fraction = static_cast<Scalar>((Bits{3} << (fraction_bits - 1)) + bias);
  const Scalar sum = x + no_fraction;
  const Scalar r = x - (sum - no_fraction);
  return (polynomial<0>(r) * r + 1) * std::bit_cast<Scalar>(std::bit_cast<Bits>(sum) << fraction_bits);
}

/// exp((l − shift)/T) of logits l; 0 for logits below `cut`.
/// Numeric: the relative error of e^x is at most ε·(1.2 + |x|), with ε = 2^−23 for floats and 2^−52 for doubles. The
/// rounding of the logit itself makes about such an error, too. NaN stays NaN, also below the cut.
template <std::floating_point Scalar>
struct Exponentials {
  /// Only logits of −inf are below this cut.
  static constexpr Scalar no_cut = std::numeric_limits<Scalar>::lowest();

  Scalar shift, inverse_temperature;
  Scalar cut = no_cut;
  /// Promises that no logit is larger than the shift.
  bool at_most_one = false;

  // Exponents are kept in a range without subnormal numbers, which may take a hundred times as long: logits of −inf are common.
  static constexpr Scalar largest_power = std::numeric_limits<Scalar>::max_exponent;
  static constexpr Scalar least_power = 13 - largest_power;
  /// Above 2^least_power for any rounding.
  static constexpr Scalar negligible = std::numeric_limits<Scalar>::min() * static_cast<Scalar>(0x1p13);

  SPECDEC_KERNEL bool has_cut() const { return cut > no_cut; }

  /// Whether all numbers of a lot are below the cut. A NaN is not below it.
  SPECDEC_KERNEL bool cuts_all(const Scalar* logits) const {
    unsigned left = 0;
    for (Index i = 0; i < lot; ++i) left |= static_cast<unsigned>(!(logits[i] < cut));
    return left == 0;
  }

  /// Writes the x of a lot, where the exponentials are 2^x.
  SPECDEC_KERNEL void write_powers(const Scalar* logits, Scalar* out) const {
    if (!has_cut()) {
      write_uncut_powers(logits, out);
    } else {
      Scalar powers[lot];  // not in place: a store under a mask cannot be read again at once
      write_uncut_powers(logits, powers);
      for (Index i = 0; i < lot; ++i) out[i] = logits[i] < cut ? least_power : powers[i];
    }
    if (!at_most_one)
      for (Index i = 0; i < lot; ++i) out[i] = out[i] > largest_power ? largest_power : out[i];
  }

  /// The sum of `count` values. Zeros are written as 2^least_power: a sum that zeros alone could make is returned as 0.
  static SPECDEC_KERNEL double without_negligible(double sum, Index count) {
    return sum < static_cast<double>(count) * static_cast<double>(negligible) ? 0.0 : sum;
  }

 private:
  // One loop for each choice between two numbers: not every compiler vectorises a loop with two choices.
  SPECDEC_KERNEL void write_uncut_powers(const Scalar* logits, Scalar* out) const {
    SPECDEC_UNFUSED
    const Scalar factor = inverse_temperature * std::numbers::log2e_v<Scalar>;
    const Scalar scale =
        factor < std::numeric_limits<Scalar>::max() ? factor : std::numeric_limits<Scalar>::max();
    for (Index i = 0; i < lot; ++i) {
      const Scalar power = (logits[i] - shift) * scale;
      out[i] = power < least_power ? least_power : power;
    }
  }
};

/// The sum of the exponentials of `count` logits, whole lots.
/// Numeric: in the logits' own arithmetic over up to 1024, in double across.
template <std::floating_point Scalar>
struct SumOfExponentials {
  static SPECDEC_KERNEL double run(const Scalar* logits, Index count, Exponentials<Scalar> e) {
    double total = 0;
    for (Index start = 0; start < count;) {
      const Index end = count - start < 16 * lot ? count : start + 16 * lot;
      Scalar sums[lanes] = {};
      for (; start < end; start += lot) {
        prefetch_ahead(logits + start);
        if (e.has_cut() && e.cuts_all(logits + start)) continue;
        Scalar x[lot];
        e.write_powers(logits + start, x);
        for (Index i = 0; i < lanes; ++i)
          sums[i] += (power_of_two(x[i]) + power_of_two(x[i + lanes])) +
                     (power_of_two(x[i + 2 * lanes]) + power_of_two(x[i + 3 * lanes]));
      }
      for (const Scalar sum : sums) total += static_cast<double>(sum);
    }
    return e.without_negligible(total, count);
  }

 private:
  static constexpr Index lanes = lot / 4;
};

/// Writes the exponentials of `count` logits, whole lots, times a factor.
template <std::floating_point Scalar>
struct WriteExponentials {
  static SPECDEC_KERNEL void run(const Scalar* logits, Index count, Exponentials<Scalar> e, Scalar factor,
                                 Scalar* out) {
    for (Index start = 0; start < count; start += lot) {
      Scalar values[lot], products[lot];
      e.write_powers(logits + start, values);
      for (Scalar& value : values) value = power_of_two(value);
      for (Index i = 0; i < lot; ++i) products[i] = values[i] * factor;
      for (Index i = 0; i < lot; ++i) out[start + i] = values[i] < e.negligible ? Scalar{0} : products[i];
    }
  }
};

}  // namespace specdec::detail

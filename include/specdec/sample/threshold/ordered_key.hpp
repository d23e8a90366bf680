// Maps floating-point numbers to integers and keeps their order.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace specdec::inline v0_2_0::detail {

/// The integer type as wide as F: float or double.
template <std::floating_point F>
  requires(sizeof(F) == 4 || sizeof(F) == 8)
using OrderedKey = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;

/// x < y exactly if ordered_key(x) < ordered_key(y). Both zeros have one key. Not for NaN.
///
/// An IEEE number is a sign and a magnitude; the key is a signed integer made of them. Why: comparisons and sums of
/// integers may be reordered, so compilers vectorise them unasked. And a bisection over integers always ends.
template <std::floating_point F>
constexpr OrderedKey<F> ordered_key(F x) {
  const auto bits = std::bit_cast<OrderedKey<F>>(x);
  return bits >= 0 ? bits : std::numeric_limits<OrderedKey<F>>::min() - bits;
}

/// The number that has this key.
template <std::floating_point F>
constexpr F from_ordered_key(OrderedKey<F> key) {
  return std::bit_cast<F>(key >= 0 ? key : std::numeric_limits<OrderedKey<F>>::min() - key);
}

/// The numbers with keys low..high, both included.
template <std::floating_point F>
struct KeyRange {
  OrderedKey<F> low, high;
};

}  // namespace specdec::detail

// Floating-point numbers as integers of the same order.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace specdec::detail {

/// The integer as wide as a float or a double.
template <std::floating_point F>
  requires(sizeof(F) == 4 || sizeof(F) == 8)
using OrderedKey = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;

/// x < y exactly if ordered_key(x) < ordered_key(y); the two zeros are one. Not for NaN.
///
/// IEEE numbers are a sign and a magnitude, which is made a signed integer. Why: comparisons and sums of
/// integers may be reordered, so compilers vectorise them unasked, and halving a range of integers ends.
template <std::floating_point F>
OrderedKey<F> ordered_key(F x) {
  const auto bits = std::bit_cast<OrderedKey<F>>(x);
  return bits >= 0 ? bits : std::numeric_limits<OrderedKey<F>>::min() - bits;
}

/// The number that has this key.
template <std::floating_point F>
F from_ordered_key(OrderedKey<F> key) {
  return std::bit_cast<F>(key >= 0 ? key : std::numeric_limits<OrderedKey<F>>::min() - key);
}

/// The numbers of keys low..high.
template <std::floating_point F>
struct KeyRange {
  OrderedKey<F> low, high;
};

}  // namespace specdec::detail

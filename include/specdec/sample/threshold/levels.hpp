// The weight of a row's logits by level: a range of numbers in 256 equal parts.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

#include "specdec/kernels/machine_width.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"
#include "specdec/sample/threshold/weighed.hpp"

namespace specdec::inline v0_2_0::detail {

/// Which level a number is on: 0 above the range, 1 to `levels` in it, from the largest number down, `levels` also below it.
/// A larger number is never on a later level.
template <std::floating_point Scalar>
struct LevelOf {
  static constexpr std::int32_t levels = 256;

  /// Pre: both are finite. If they are equal, or too near to one another, larger numbers share a level.
  LevelOf(Scalar low, Scalar high) : high_(high) {
    const Scalar half = high / 2 - low / 2;  // because the range may be larger than the largest number
    constexpr Scalar most = std::numeric_limits<Scalar>::max();
    scale_ = half > 0 ? std::min(levels / half, most) : most;
  }

  SPECDEC_KERNEL std::int32_t operator()(Scalar x) const { return x > high_ ? 0 : in_range(x); }

  /// Writes the levels of a chunk.
  static SPECDEC_KERNEL std::array<std::int32_t, chunk_size> run(const Scalar* numbers, LevelOf level) {
    std::array<Scalar, chunk_size> below;
    std::array<std::int32_t, chunk_size> out;
    // One choice between two numbers in a loop: not every compiler vectorises a loop with two choices.
    for (std::size_t i = 0; i < chunk_size; ++i)
      below[i] = level.high_ < numbers[i] ? level.high_ : numbers[i];
    for (std::size_t i = 0; i < chunk_size; ++i) out[i] = level.in_range(below[i]);
    for (std::size_t i = 0; i < chunk_size; ++i) out[i] = numbers[i] > level.high_ ? 0 : out[i];
    return out;
  }

  /// The keys of a range that are on one level. Pre: there are some.
  KeyRange<Scalar> keys_on(std::int32_t level, const KeyRange<Scalar>& range) const {
    return {first_key(range, level), first_key(range, level - 1) - 1};
  }

 private:
  // Pre: not above the range.
  SPECDEC_KERNEL std::int32_t in_range(Scalar x) const {
    const Scalar depth = (high_ / 2 - x / 2) * scale_;
    return static_cast<std::int32_t>(depth < levels - 1 ? depth : Scalar{levels - 1}) + 1;
  }

  // The first key of the range that is not on a later level; if all are, the one after the range.
  OrderedKey<Scalar> first_key(const KeyRange<Scalar>& range, std::int32_t level) const {
    OrderedKey<Scalar> low = range.low, end = range.high + 1;
    while (low < end) {
      const OrderedKey<Scalar> middle = std::midpoint(low, end);
      if ((*this)(from_ordered_key<Scalar>(middle)) > level) low = middle + 1;
      else end = middle;
    }
    return low;
  }

  Scalar high_, scale_;
};

}  // namespace specdec::detail

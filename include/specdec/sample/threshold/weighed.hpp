// A few thousand numbers with weights, and the search for the cut that keeps a given weight.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "specdec/kernels/keyed_weights.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"

namespace specdec::inline v0_2_0::detail {

/// How many numbers are weighed at a time.
inline constexpr std::size_t chunk_size = 512;

/// 1 if both are true, else 0; without a branch.
constexpr std::size_t both(bool a, bool b) {
  return static_cast<std::size_t>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

/// Numbers, stored as their ordered keys, and their weights. The code that fills in the weights chooses their unit. All are
/// integers: so a sum is exact in any order, and each function is a few vectorised passes over a small buffer.
template <class Scalar>
struct WeighedNumbers {
  using Key = OrderedKey<Scalar>;
  using Weight = std::make_unsigned_t<Key>;

  /// How many numbers there is room for.
  static constexpr std::size_t capacity = std::size_t{12288} / sizeof(Scalar);

  /// How many bits a weight may have. The sum of all weights is then less than 2^63.
  static constexpr int weight_bits = sizeof(Scalar) == 4 ? 31 : 50;

  std::size_t size = 0;
  alignas(64) std::array<Key, capacity> keys;
  alignas(64) std::array<Weight, capacity> weights;

  /// Call this when all numbers are there. The functions below read whole lots, so this fills up the last lot. The filler is
  /// a key that is there already: the smallest and the largest key do not change.
  void fill_up() { std::fill(keys.data() + size, keys.data() + whole_lots(), keys[0]); }

  /// The size, rounded up to whole lots.
  std::size_t whole_lots() const {
    constexpr auto of = static_cast<std::size_t>(lot);
    return (size + of - 1) / of * of;
  }

  std::uint64_t at_least(Key cut) const {
    return run_wide<WeightAtLeast<Key, Weight>>(keys.data(), weights.data(), lots(), cut);
  }

  std::size_t count(Key low, Key high) const {
    const auto n = static_cast<std::size_t>(run_wide<CountBetween<Key>>(keys.data(), lots(), low, high));
    const bool filler_counts = size > 0 && keys[0] >= low && keys[0] <= high;
    return filler_counts ? n - (whole_lots() - size) : n;
  }

  Key smallest() const { return run_wide<SmallestKey<Key>>(keys.data(), lots()); }
  Key largest() const { return run_wide<LargestKey<Key>>(keys.data(), lots()); }

  /// The largest key in [low, high] with at_least(key) >= target; low if there is none.
  Key largest_cut(Key low, Key high, std::uint64_t target) const {
    for (int step = 0; low < high; ++step) {
      if (count(low, high) <= few) return cut_of_few(low, high, rest(target, high));
      const Key middle = middle_of(low, high, step);
      if (at_least(middle) >= target) low = middle;
      else high = middle - 1;
    }
    return low;
  }

 private:
  static constexpr std::size_t few = 64;  // numbers that are sorted

  Index lots() const { return static_cast<Index>(whole_lots()); }

  // The middle of the numbers, not of their keys: numbers are spread more evenly, and half of all keys stand for numbers
  // below 1. But only halving the keys is sure to end soon.
  static Key middle_of(Key low, Key high, int step) {
    if (step >= 8) return std::midpoint(high, low);
    const Scalar middle = std::midpoint(from_ordered_key<Scalar>(low), from_ordered_key<Scalar>(high));
    return std::clamp(ordered_key(middle), static_cast<Key>(low + 1), high);
  }

  // The part of the target that numbers above `high` do not cover.
  std::uint64_t rest(std::uint64_t target, Key high) const {
    const std::uint64_t above = high < std::numeric_limits<Key>::max() ? at_least(high + 1) : 0;
    return target > above ? target - above : 0;
  }

  // The largest cut in [low, high], where few numbers lie. `target` is what these have to weigh.
  Key cut_of_few(Key low, Key high, std::uint64_t target) const {
    if (target == 0) return high;
    std::array<std::pair<Key, Weight>, few + 1> those;  // one more is written than kept
    std::size_t n = 0;
    for (std::size_t i = 0; i < size; ++i) {
      those[n] = {keys[i], weights[i]};
      n += both(keys[i] >= low, keys[i] <= high);
    }
    std::sort(those.begin(), those.begin() + static_cast<std::ptrdiff_t>(n), std::greater<>());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i)
      if ((sum += those[i].second) >= target) return those[i].first;
    return low;
  }
};

}  // namespace specdec::detail

// A few thousand numbers with weights, and the search for the cut that keeps a given weight.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>

#include "specdec/kernels/keyed_weights.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/sample/flags.hpp"
#include "specdec/sample/ordered_key.hpp"

namespace specdec::detail {

/// Numbers, stored as their ordered keys, and their weights. The code that fills in the weights chooses their unit. All are
/// integers: so a sum is exact in any order, and each function is a few vectorised passes over a small buffer.
template <class Scalar, std::size_t max_size = std::size_t{32768} / sizeof(Scalar)>
struct Weighed {
  using Key = OrderedKey<Scalar>;
  using Weight = std::make_unsigned_t<Key>;

  static constexpr std::size_t capacity = max_size;

  /// How many bits a stored weight may have. The sum of all weights is then less than 2^63.
  static constexpr int weight_bits = sizeof(Scalar) == 4 ? 31 : 50;

  /// Room for `capacity` numbers and the excess of Flags, in whole chunks of flags.
  static constexpr std::size_t room =
      (capacity + Flags::excess + Flags::size - 1) / Flags::size * Flags::size;

  std::size_t size = 0;
  alignas(64) std::array<Key, room> keys;
  alignas(64) std::array<Weight, room> weights;

  /// Call this when all numbers are there. The functions below read whole lots, so this fills up the last lot. The filler is
  /// a key that is there already, with weight 0: the smallest and the largest key do not change.
  void fill_up() {
    for (std::size_t i = size; i < whole_lots(); ++i) {
      keys[i] = keys[0];
      weights[i] = 0;
    }
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
    constexpr std::size_t few = max_size / 16;
    for (int step = 0; low < high; ++step) {
      if constexpr (few >= 32)
        if (count(low, high) <= few) return within<few>(low, high).largest_cut(low, high, rest(target, high));
      const Key middle = step < 8 ? middle_value(low, high) : std::midpoint(high, low);
      if (at_least(middle) >= target) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /// The largest key such that at least `rank` numbers have this key or a larger one; the smallest if there are fewer.
  Key of_rank(std::size_t rank) const {
    Key low = smallest(), high = largest();
    for (int step = 0; low < high; ++step) {
      const Key middle = step < 8 ? middle_value(low, high) : std::midpoint(high, low);
      if (count(middle, std::numeric_limits<Key>::max()) >= rank) low = middle;
      else high = middle - 1;
    }
    return low;
  }

 private:
  std::size_t whole_lots() const {
    constexpr auto of = static_cast<std::size_t>(lot);
    return (size + of - 1) / of * of;
  }
  Index lots() const { return static_cast<Index>(whole_lots()); }

  // The middle of the numbers, not of their keys: numbers are spread more evenly, and half of all keys stand for numbers
  // below 1. But only halving the keys is sure to end soon.
  static Key middle_value(Key low, Key high) {
    const Scalar middle = std::midpoint(from_ordered_key<Scalar>(low), from_ordered_key<Scalar>(high));
    return std::clamp(ordered_key(middle), static_cast<Key>(low + 1), high);
  }

  // The part of the target that numbers above `high` do not cover.
  std::uint64_t rest(std::uint64_t target, Key high) const {
    const std::uint64_t above = high < std::numeric_limits<Key>::max() ? at_least(high + 1) : 0;
    return target > above ? target - above : 0;
  }

  // The numbers in [low, high]. There must be no more than `few`.
  template <std::size_t few>
  Weighed<Scalar, few> within(Key low, Key high) const {
    Weighed<Scalar, few> out;
    Flags flags;
    for (std::size_t start = 0; start < size; start += Flags::size) {
      for (std::size_t i = 0; i < Flags::size; ++i)
        flags[i] = both(both(keys[start + i] >= low, keys[start + i] <= high) != 0, start + i < size);
      out.size = flags.pick(out.size, [&](std::size_t k, std::size_t i) {
        out.keys[k] = keys[start + i];
        out.weights[k] = weights[start + i];
      });
    }
    out.fill_up();
    return out;
  }
};

}  // namespace specdec::detail

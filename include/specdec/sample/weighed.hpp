// A few thousand numbers with weights, and the cut that leaves a given weight above it.
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

/// Numbers by their ordered keys, and weights in a unit that whoever fills it in chooses. Integers all: so a
/// sum is exact whatever its order, and every question is one vectorised pass over memory near at hand.
template <class Scalar, std::size_t max_size = std::size_t{32768} / sizeof(Scalar)>
struct Weighed {
  using Key = OrderedKey<Scalar>;
  using Weight = std::make_unsigned_t<Key>;

  static constexpr std::size_t capacity = max_size;

  /// The bits of the largest weight that may be stored: all of them then sum to less than 2^63.
  static constexpr int weight_bits = sizeof(Scalar) == 4 ? 31 : 50;

  /// Looked at in whole lots of flags.
  static constexpr std::size_t room =
      (capacity + Flags::excess + Flags::size - 1) / Flags::size * Flags::size;

  std::size_t size = 0;
  alignas(64) std::array<Key, room> keys;
  alignas(64) std::array<Weight, room> weights;

  /// To be called when there are as many as there will be. Fills up the last lot, which the questions below look at as
  /// a whole: with a key that is there already, so that the smallest and the largest stay, of no weight.
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

  /// The largest key in [low, high] with at_least(key) >= target; low where there is none.
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

  /// The largest key that is not larger than that many of them; the smallest where there are fewer.
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

  // Numbers are spread more evenly than their keys, of which half are those below 1; but only halving the
  // keys is sure to end soon.
  static Key middle_value(Key low, Key high) {
    const Scalar middle = std::midpoint(from_ordered_key<Scalar>(low), from_ordered_key<Scalar>(high));
    return std::clamp(ordered_key(middle), static_cast<Key>(low + 1), high);
  }

  // What of the target is left for those not above `high`.
  std::uint64_t rest(std::uint64_t target, Key high) const {
    const std::uint64_t above = high < std::numeric_limits<Key>::max() ? at_least(high + 1) : 0;
    return target > above ? target - above : 0;
  }

  // Those in [low, high], of which there are no more than that.
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

// Sums and counts of weighed keys, for the search of a cut. (A key is an integer that stands for a number, and sorts like it.)
//
// Each kernel takes whole lots. Sums and counts are kept in 64 places, one for each number of a lot, until the end.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>

#include "specdec/kernels/machine_width.hpp"

namespace specdec::inline v0_2_0::detail {

/// The sum of the weights with keys of at least `cut`, up to 2^15 of them: the two halves of each weight are summed apart.
template <std::signed_integral Key, std::unsigned_integral Weight>
struct WeightAtLeast {
  static SPECDEC_KERNEL std::uint64_t run(const Key* keys, const Weight* weights, Index count, Key cut) {
    constexpr int half = 4 * sizeof(Weight);
    constexpr Weight low_half = (Weight{1} << half) - 1;
    Weight low[lot] = {}, high[lot] = {};
    for (Index start = 0; start < count; start += lot)
      for (Index i = 0; i < lot; ++i) {
        const Weight weight = weights[start + i] * static_cast<Weight>(keys[start + i] >= cut);
        low[i] += weight & low_half;
        high[i] += weight >> half;
      }
    Weight low_sum = 0, high_sum = 0;
    for (const Weight sum : low) low_sum += sum;
    for (const Weight sum : high) high_sum += sum;
    return (std::uint64_t{high_sum} << half) + low_sum;
  }
};

/// The number of keys in [low, high].
template <std::signed_integral Key>
struct CountBetween {
  static SPECDEC_KERNEL Index run(const Key* keys, Index count, Key low, Key high) {
    Key counts[lot] = {};
    for (Index start = 0; start < count; start += lot)
      for (Index i = 0; i < lot; ++i)
        counts[i] += static_cast<Key>((keys[start + i] >= low) & (keys[start + i] <= high));
    Key sum = 0;
    for (const Key n : counts) sum += n;
    return static_cast<Index>(sum);
  }
};

/// The first key in the order of Before; for no keys, the last possible key.
template <std::signed_integral Key, class Before>
struct FirstKey {
  static SPECDEC_KERNEL Key run(const Key* keys, Index count) {
    constexpr Before before;
    constexpr Key least = std::numeric_limits<Key>::min(), most = std::numeric_limits<Key>::max();
    Key first[lot];
    for (Key& key : first) key = before(least, most) ? most : least;
    for (Index start = 0; start < count; start += lot)
      for (Index i = 0; i < lot; ++i)
        first[i] = before(keys[start + i], first[i]) ? keys[start + i] : first[i];
    return *std::min_element(first, first + lot, before);
  }
};

template <std::signed_integral Key>
using SmallestKey = FirstKey<Key, std::less<Key>>;

template <std::signed_integral Key>
using LargestKey = FirstKey<Key, std::greater<Key>>;

}  // namespace specdec::detail

// One pass over a row of logits that copies those in a range to a small buffer.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

#include "specdec/kernels/machine_width.hpp"
#include "specdec/rows/kinds/stretches.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"
#include "specdec/sample/threshold/weighed.hpp"

namespace specdec::inline v0_2_0::detail {

/// Calls f with a pointer to one chunk after the other of the row's live tokens. Contiguous floats and doubles are read where
/// they lie; other chunks, and short runs, are copied. The last chunk is filled up with −inf.
template <Real S, int Stride, class F>
void each_chunk(const NumberRow<S, Stride>& row, const LiveStretches& live, F&& f) {
  using Scalar = Arithmetic<S>;
  constexpr auto chunk = static_cast<Index>(chunk_size);
  std::array<Scalar, chunk_size> copy;
  Index filled = 0;
  const auto hand_out = [&] {
    std::fill(copy.begin() + filled, copy.end(), -std::numeric_limits<Scalar>::infinity());
    f(static_cast<const Scalar*>(copy.data()));
    filled = 0;
  };
  live.each(0, row.size(), [&](Index start, Index count) {
    while (count > 0) {
      constexpr bool side_by_side = std::floating_point<S> && Stride == 1;
      const bool in_place = side_by_side && filled == 0 && count >= chunk;
      const Index taken = in_place ? chunk : std::min(chunk - filled, count);
      if constexpr (side_by_side) {
        if (in_place) f(row.data() + start);
        else std::copy_n(row.data() + start, taken, copy.begin() + filled);
      } else {
        row.read(start, taken, copy.data() + filled);
      }
      if (!in_place && (filled += taken) == chunk) hand_out();
      start += taken;
      count -= taken;
    }
  });
  if (filled > 0) hand_out();
}

/// For each group of 8 numbers of a chunk, which of them lie in [low, high]: bit i stands for number i.
template <class Scalar>
struct GroupsInside {
  static constexpr Index group = 8;
  using Masks = std::array<std::uint8_t, chunk_size / group>;

  static SPECDEC_KERNEL Masks run(const Scalar* numbers, Scalar low, Scalar high) {
    using Lane = OrderedKey<Scalar>;  // as wide as a number
    constexpr Lane bits[group] = {1, 2, 4, 8, 16, 32, 64, 128};
    Masks masks;
    for (std::uint8_t& mask : masks) {
      Lane inside = 0;
      for (Index i = 0; i < group; ++i)
        inside |= -(static_cast<Lane>(numbers[i] >= low) & static_cast<Lane>(numbers[i] <= high)) & bits[i];
      mask = static_cast<std::uint8_t>(inside);
      numbers += group;
    }
    return masks;
  }
};

/// Gathers the keys of the live logits in a range into `gathered`. The range must not contain −inf. Returns whether there was
/// room for all; if not, some are missing.
template <Real S, int Stride>
bool gather(const NumberRow<S, Stride>& row, const LiveStretches& live, const KeyRange<Arithmetic<S>>& range,
            WeighedNumbers<Arithmetic<S>>& gathered) {
  using Scalar = Arithmetic<S>;
  using Groups = GroupsInside<Scalar>;
  gathered.size = 0;
  bool fits = true;
  const auto low = from_ordered_key<Scalar>(range.low), high = from_ordered_key<Scalar>(range.high);
  each_chunk(row, live, [&](const Scalar* logits) {
    fits = fits && gathered.size + chunk_size <= gathered.capacity;
    if (!fits) return;
    for (unsigned mask : run_wide<Groups>(logits, low, high)) {
      for (; mask != 0; mask &= mask - 1)
        gathered.keys[gathered.size++] = ordered_key(logits[std::countr_zero(mask)]);
      logits += Groups::group;
    }
  });
  gathered.fill_up();
  return fits;
}

}  // namespace specdec::detail

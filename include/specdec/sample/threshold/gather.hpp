// One pass over a row of logits that copies those in a range to a small buffer.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
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
      const bool in_place = std::floating_point<S> && Stride == 1 && filled == 0 && count >= chunk;
      const Index taken = in_place ? chunk : std::min(chunk - filled, count);
      if (in_place) {
        if constexpr (std::floating_point<S>) f(row.data() + start);
      } else {
        row.read(start, taken, copy.data() + filled);
        if ((filled += taken) == chunk) hand_out();
      }
      start += taken;
      count -= taken;
    }
  });
  if (filled > 0) hand_out();
}

/// For each group of 8 numbers of a chunk, whether one of them lies in [low, high].
template <class Scalar>
struct GroupsInside {
  static constexpr Index group = 8;
  using Flags = std::array<std::uint8_t, chunk_size / group>;

  static SPECDEC_KERNEL Flags run(const Scalar* numbers, Scalar low, Scalar high) {
    Flags flags;
    for (std::uint8_t& flag : flags) {
      unsigned any = 0;
      for (Index i = 0; i < group; ++i)
        any |= static_cast<unsigned>(numbers[i] >= low) & static_cast<unsigned>(numbers[i] <= high);
      flag = static_cast<std::uint8_t>(any);
      numbers += group;
    }
    return flags;
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
    for (const std::uint8_t any : run_wide<Groups>(logits, low, high)) {
      std::array<OrderedKey<Scalar>, std::size_t{Groups::group}> keys;
      if (any != 0) {
        std::transform(logits, logits + Groups::group, keys.begin(), ordered_key<Scalar>);
        gathered.append(keys.data(), keys.size(), range.low, range.high);
      }
      logits += Groups::group;
    }
  });
  gathered.fill_up();
  return fits;
}

}  // namespace specdec::detail

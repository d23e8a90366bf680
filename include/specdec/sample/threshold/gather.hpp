// One pass over a row of logits: weighs the logits above a bracket, and gathers the logits in it.
//
// The cut lies in the bracket. Logits above the bracket stay in any case: only their total weight matters. The few
// thousand logits in the bracket are copied to a small buffer, where the exact cut is then found.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/rows/kinds/stretches.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/threshold/flags.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"
#include "specdec/sample/threshold/weighed.hpp"

namespace specdec::inline v0_2_0::detail {

/// Calls f with a pointer to one chunk after the other of the row's live tokens. Contiguous floats and doubles are read where
/// they lie; other chunks, and short runs, are copied. The last chunk is filled up with −inf.
template <Real S, int Stride, class F>
void each_chunk(const NumberRow<S, Stride>& row, const LiveStretches& live, F&& f) {
  using Scalar = Arithmetic<S>;
  constexpr auto chunk = static_cast<Index>(Flags::size);
  std::array<Scalar, Flags::size> copy;
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

/// Whether a chunk has logits above the bracket, and whether it has bad ones.
struct ChunkFindings {
  bool any_above, any_bad;
};

/// Flags the logits of a chunk that lie in [low, high]. Returns whether any lies above, and whether any is NaN or +inf.
template <class Scalar>
struct PartChunk {
  static SPECDEC_KERNEL ChunkFindings run(const Scalar* logits, Scalar low, Scalar high,
                                          std::uint8_t* inside) {
    constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
    unsigned above = 0, bad = 0;
    for (Index start = 0; start < static_cast<Index>(Flags::size); start += lot)
      prefetch_ahead(logits + start);
    std::uint8_t flags[Flags::size];  // local: a compiler must assume that bytes elsewhere overlap the logits
    for (std::size_t i = 0; i < Flags::size; ++i) flags[i] = both(logits[i] >= low, logits[i] <= high);
    for (std::size_t i = 0; i < Flags::size; ++i) above |= static_cast<unsigned>(logits[i] > high);
    for (std::size_t i = 0; i < Flags::size; ++i) bad |= static_cast<unsigned>(!(logits[i] < infinity));
    std::memcpy(inside, flags, sizeof(flags));
    return {above != 0, bad != 0};
  }
};

/// The result of a pass.
struct GatherResult {
  double above = 0;  // the weight of the logits above the bracket
  bool overflow =
      false;  // whether the bracket holds more logits than there is room for: then some are missing
};

/// Gathers the keys of the live logits in the bracket into `gathered`. The bracket must not contain −inf. weigh_above(logits, any)
/// returns the weight of a chunk's logits above the bracket; `any` says whether there are any.
/// Throws: InvalidDistribution on a NaN and on a logit of +inf.
template <Real S, int Stride, class WeighAbove>
GatherResult gather(const NumberRow<S, Stride>& row, const LiveStretches& live,
                    const KeyRange<Arithmetic<S>>& bracket, WeighedNumbers<Arithmetic<S>>& gathered,
                    WeighAbove&& weigh_above) {
  using Scalar = Arithmetic<S>;
  const auto low = from_ordered_key<Scalar>(bracket.low), high = from_ordered_key<Scalar>(bracket.high);
  gathered.size = 0;
  GatherResult out;
  Flags inside;
  each_chunk(row, live, [&](const Scalar* logits) {
    const ChunkFindings parted = run_wide<PartChunk<Scalar>>(logits, low, high, inside.data());
    if (parted.any_bad) invalid_distribution("a logit is nan or inf");
    out.above += weigh_above(logits, parted.any_above);
    out.overflow = out.overflow || gathered.size + Flags::size > gathered.capacity;
    if (out.overflow) return;
    gathered.size = inside.pick(
        gathered.size, [&](std::size_t k, std::size_t i) { gathered.keys[k] = ordered_key(logits[i]); });
  });
  gathered.fill_up();
  return out;
}

}  // namespace specdec::detail

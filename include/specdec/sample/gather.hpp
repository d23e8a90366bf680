// One pass over a row of logits: weighs those above a bracket, and gathers those inside it.
//
// A cut that is known to lie between two values leaves little to be found out. What is above both stays in any case, so
// that only its weight matters. What is between them, a few thousand logits, is copied to memory near at hand, in
// which the cut is then found exactly.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/flags.hpp"
#include "specdec/sample/ordered_key.hpp"
#include "specdec/sample/weighed.hpp"

namespace specdec::detail {

/// Logits that are looked at together.
template <class Scalar>
using Chunk = Eigen::Array<Scalar, static_cast<int>(Flags::size), 1>;

/// Calls f with a pointer to each chunk of the row in turn: where it lies if it can be read there, else a copy. The
/// last chunk is filled up with −inf.
template <Real S, int Stride, class F>
void each_chunk(const NumberRow<S, Stride>& row, F&& f) {
  using Scalar = Arithmetic<S>;
  constexpr auto chunk = static_cast<Index>(Flags::size);
  Chunk<Scalar> copy;
  for (Index start = 0; start < row.size(); start += chunk) {
    const Index count = std::min(chunk, row.size() - start);
    if constexpr (std::floating_point<S> && Stride == 1) {
      if (count == chunk) {
        f(row.data() + start);
        continue;
      }
    }
    copy.setConstant(-std::numeric_limits<Scalar>::infinity());
    copy.head(count) = row.segment(start, count);
    f(static_cast<const Scalar*>(copy.data()));
  }
}

/// Flags the logits of a chunk that lie in [low, high] and copies those above, the others as −inf; tells whether there
/// are any above. Throws InvalidDistribution on a NaN and on a logit of +inf.
template <class Scalar>
bool part_chunk(const Scalar* logits, Scalar low, Scalar high, Flags& inside, Chunk<Scalar>& above) {
  constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  unsigned any = 0, bad = 0;
  for (std::size_t i = 0; i < Flags::size; ++i) {
    const Scalar l = logits[i];
    inside[i] = both(l >= low, l <= high);
    above[static_cast<Index>(i)] = l > high ? l : -infinity;
    any |= static_cast<unsigned>(l > high);
    bad |= static_cast<unsigned>(!(l < infinity));
  }
  if (bad != 0) throw InvalidDistribution("a logit is nan or inf");
  return any != 0;
}

/// What a pass has found out.
struct Gathered {
  double above = 0;       // the weight of the logits above the bracket
  bool overflow = false;  // whether there are more in it than there is room for: then not all were gathered
};

/// Gathers the keys of the logits in the bracket, which must not take in −inf, into `near`. weigh_above(logits, above,
/// any) returns the weight of the logits of a chunk that are above the bracket: it is given the chunk, a copy with −inf
/// for the others, and whether there are any.
template <Real S, int Stride, class WeighAbove>
Gathered gather(const NumberRow<S, Stride>& row, const KeyRange<Arithmetic<S>>& bracket,
                Weighed<Arithmetic<S>>& near, WeighAbove&& weigh_above) {
  using Scalar = Arithmetic<S>;
  const auto low = from_ordered_key<Scalar>(bracket.low), high = from_ordered_key<Scalar>(bracket.high);
  near.size = 0;
  Gathered out;
  Flags inside;
  Chunk<Scalar> above;
  each_chunk(row, [&](const Scalar* logits) {
    const bool any = part_chunk(logits, low, high, inside, above);
    out.above += weigh_above(logits, above, any);
    out.overflow = out.overflow || near.size + Flags::size > near.capacity;
    if (out.overflow) return;
    near.size =
        inside.pick(near.size, [&](std::size_t k, std::size_t i) { near.keys[k] = ordered_key(logits[i]); });
  });
  return out;
}

}  // namespace specdec::detail

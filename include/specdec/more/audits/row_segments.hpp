// What readings of whole rows share: segments in double, and the place of a token in them.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/rows/distribution.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing::detail {

/// Whether a row is read by segments that begin at multiples of max_segment_size.
template <class R>
inline constexpr bool has_segments = SegmentedRow<R> && !ListedRow<R>;

/// The segment that holds a token: where it begins, and its size.
inline Index start_of(Token x) { return Index{x} / max_segment_size * max_segment_size; }
template <class R>
Index segment_size(const R& row, Token x) {
  return std::min<Index>(max_segment_size, Index{row.vocab_size()} - start_of(x));
}

/// Evaluates a whole segment in the row's scalar: Eigen may round single entries differently.
template <class Segment>
specdec::detail::Segment<> evaluated(const Segment& segment) {
  const specdec::detail::Segment<typename Segment::Scalar> piece = segment;
  return piece.template cast<double>();
}

/// The token's probability, to the last bit the one in the segments.
template <Distribution R>
double value_of(const R& row, Token x) {
  if constexpr (has_segments<R>)
    return evaluated(row.segment(start_of(x), segment_size(row, x)))[x - start_of(x)];
  else return specdec::probability(row, x);
}

/// How many of the `size` ids, which ascend, are below x.
template <class Ids>
Index count_below(const Ids& ids, Index size, Token x) {
  Index begin = 0, end = size;
  while (begin < end) {
    const Index middle = begin + (end - begin) / 2;
    if (ids(middle) < x) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

}  // namespace specdec::testing::detail

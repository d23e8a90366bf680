// What readings of whole rows share: segments in double, and the place of a token in its row.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/each_segment.hpp"
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

/// Where a token stands in a row, in two orders of the row's tokens: by falling probability, and by id. A token is found among
/// its equals by a number v in [0, 1). The row counts as if it were normalised.
class PlaceInRow {
 public:
  /// The token's probability, and the sum of the row.
  double value() const { return value_; }
  double total() const { return total_; }

  double by_rank(double v) const { return (above_ + v * equal_) / total_; }
  double by_id(double v) const { return (before_ + v * value_) / total_; }

 protected:
  using Piece = specdec::detail::Segment<>;

  template <Distribution R>
  PlaceInRow(const R& row, Token x) : value_(value_of(row, x)) {}

  /// The mass of the tokens that are as likely.
  double equal() const { return equal_; }

  /// Reads the row in one pass, and calls visit(piece, ids) for each of its segments.
  template <Distribution R, class Visit>
  void read(const R& row, Token x, const Visit& visit) {
    specdec::detail::each_segment(row, [&](const auto& ids, const auto& segment) {
      const Piece p = evaluated(segment);
      total_ += p.sum();
      above_ += (p > value_).select(p, 0.0).sum();
      equal_ += (p == value_).select(p, 0.0).sum();
      const auto below = [&](Index k) { return ids(k) < x; };  // ids ascend
      before_ += p.head(specdec::detail::partition_point(p.size(), below)).sum();
      visit(p, ids);
    });
  }

 private:
  double value_, total_ = 0, above_ = 0, equal_ = 0, before_ = 0;
};

}  // namespace specdec::testing::detail

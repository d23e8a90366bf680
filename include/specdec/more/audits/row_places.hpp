// Where a token stands in a row, in three orders of the row's tokens.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>

#include "specdec/more/audits/row_segments.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/segments.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing::detail {

/// Reads, in one pass over the row, the place of a token in three orders: by falling probability, by id, and by falling ratio of
/// the reference row to the row. If the token is drawn from the row and v is uniform, each place is uniform (Rosenblatt, "Remarks
/// on a multivariate transformation", 1952). Of the reference only the tokens count that have mass in the row.
class RowPlaces : public PlaceInRow {
 public:
  template <Distribution P>
  RowPlaces(const P& row, Token x) : PlaceInRow(row, x) {
    read(row, x, [this](const Piece& p, const auto&) { take(p); });
  }
  template <Distribution P, Distribution R>
  RowPlaces(const P& row, Token x, const R& reference) : PlaceInRow(row, x), has_reference_(true) {
    const double its_own = reference_value(row, x, reference);
    ratio_ = value() > 0 ? its_own / value() : 0;
    read(row, x, [&](const Piece& p, const auto& ids) {
      take(p);
      if constexpr (has_segments<P>) {
        compare(p, stretch(reference, ids(0), p.size()));
      } else {
        Piece r(p.size());
        for (Index k = 0; k < r.size(); ++k) r[k] = specdec::probability(reference, ids(k));
        compare(p, r);
      }
    });
  }

  /// Whether every number of the row is finite and not negative, and there is mass.
  bool is_readable() const { return least_ >= 0 && total() > 0 && std::isfinite(squares_); }
  bool is_normalised() const { return std::abs(total() - 1) <= 0.01; }
  /// Whether there was a reference row, and all its numbers are finite and not negative.
  bool has_reference() const { return has_reference_; }
  bool is_readable_reference() const { return least_reference_ >= 0 && std::isfinite(reference_total_); }

  /// Whether the place tells something: not in a row that is nearly one-hot, where it is nearly v. It depends on the row alone.
  bool is_informative() const { return squares_ < 0.9 * total() * total(); }
  /// Whether the place by ratio tells something: not where row and reference are nearly equal.
  bool is_informative_reference() const { return overlap_ < 0.99 * total(); }

  double by_ratio(double v) const { return (ratio_above_ + v * ratio_equal_) / total(); }
  /// The reference's probability over the row's, both normalised over the tokens with mass in the row. 0 if the reference has no
  /// mass there.
  double ratio() const { return reference_total_ > 0 ? ratio_ * (total() / reference_total_) : 0; }

 private:
  template <Distribution R>
  static Piece stretch(const R& row, Index start, Index size) {
    specdec::detail::GatheredSegment<R> piece = specdec::detail::GatheredSegment<R>::Zero(size);
    specdec::detail::add_stretch(row, 1.0, start, piece);
    return piece;
  }

  // To the last bit the one in the segments.
  template <Distribution P, Distribution R>
  static double reference_value(const P& row, Token x, const R& reference) {
    if constexpr (has_segments<P>)
      return stretch(reference, start_of(x), segment_size(row, x))[x - start_of(x)];
    else return specdec::probability(reference, x);
  }

  void take(const Piece& p) {
    least_ = std::min(least_, p.minCoeff());
    squares_ += p.square().sum();
  }

  void compare(const Piece& p, const Piece& r) {
    least_reference_ = std::min(least_reference_, r.minCoeff());
    reference_total_ += (p > 0.0).select(r, 0.0).sum();
    overlap_ += p.min(r).sum();
    const Piece ratios = (p > 0.0).select(r / p, 0.0);
    ratio_above_ += (ratios > ratio_).select(p, 0.0).sum();
    ratio_equal_ += (ratios == ratio_).select(p, 0.0).sum();
  }

  double squares_ = 0, least_ = 0;
  bool has_reference_ = false;
  double reference_total_ = 0, least_reference_ = 0, overlap_ = 0;
  double ratio_ = 0, ratio_above_ = 0, ratio_equal_ = 0;
};

}  // namespace specdec::testing::detail

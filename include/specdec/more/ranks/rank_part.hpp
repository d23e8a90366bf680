// The part of a row that one rank holds.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <utility>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

template <Distribution R>
class ColumnsOfRow;

/// One rank's columns: tokens first..first + count − 1. Takes them of any row, as a row that begins at token 0. Needs no
/// exchange.
struct RankPart {
  Index first, count;

  /// The tokens start..end − 1 that are in this part, as offsets from `first`.
  std::pair<Index, Index> within(Index start, Index end) const {
    return {std::clamp<Index>(start - first, 0, count), std::clamp<Index>(end - first, 0, count)};
  }
  template <Distribution R>
  auto operator()(const R& row) const {
    if constexpr (MadeOfParts<R, RankPart>) return row.made_of(*this);
    else return ColumnsOfRow<R>(row, *this);
  }
  friend bool operator==(const RankPart&, const RankPart&) = default;
};

/// Some columns of a local row, times a factor, as a row that begins at token 0. Columns beyond the row are 0.
template <Distribution R>
class ColumnsOfRow {
 public:
  ColumnsOfRow(const R& row, RankPart columns, double factor = 1)
      : row_(row), columns_(columns), factor_(factor) {
    if constexpr (ListedRow<R>) {
      listed_from_ = lower_bound(row_, columns.first);
      listed_ = lower_bound(row_, columns.first + columns.count) - listed_from_;
    }
  }

  Index vocab_size() const { return columns_.count; }
  double probability(Token x) const {
    const auto whole = static_cast<Token>(columns_.first + x);
    return factor_ == 0 ? 0.0 : factor_ * specdec::probability(row_, whole);
  }

  double sum(Index start, Index count) const
    requires SummableRow<R>
  {
    count = there(start, count);
    return count > 0 ? factor_ * static_cast<double>(row_.sum(columns_.first + start, count)) : 0.0;
  }
  Segment<> segment(Index start, Index count) const
    requires(SegmentedRow<R> && !ListedRow<R>)
  {
    Segment<> out = Segment<>::Zero(count);
    if (const Index n = there(start, count); n > 0)
      out.head(n) = factor_ * row_.segment(columns_.first + start, n).template cast<double>().array();
    return out;
  }

  Index support_size() const
    requires ListedRow<R>
  {
    return factor_ == 0 ? 0 : listed_;
  }
  Token support(Index k) const
    requires ListedRow<R>
  {
    return static_cast<Token>(row_.support(listed_from_ + k) - columns_.first);
  }
  double listed(Index k) const
    requires ListedRow<R>
  {
    return factor_ * static_cast<double>(row_.listed(listed_from_ + k));
  }

  auto sampler() const { return ComputedSampler<ColumnsOfRow>(*this); }

 private:
  // How many of the columns the row has; 0 if the factor is 0.
  Index there(Index start, Index count) const {
    return factor_ == 0 ? 0 : std::min<Index>(count, row_.vocab_size() - columns_.first - start);
  }

  R row_;
  RankPart columns_;
  double factor_;
  Index listed_from_ = 0, listed_ = 0;
};

}  // namespace specdec::detail

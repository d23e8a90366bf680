// Rows of which only some columns are here: sums over them, and draws from what sums make of them.
//
// What is summed over a row that is spread over ranks is summed by each of them over its own columns, so that one number a
// rank crosses. A row offers that by
//
//   spread()        who has the rest: columns() are the tokens that are here; sum(f) is Σ f() over all ranks; draw(u, part)
//                   is a token of a row of which part() are the columns that are here; first_to_arrive(f) is the token
//                   of the first of all f(), arrivals of tokens (chance/keyed.hpp)
//   part(columns)   these columns by themselves, from token 0 on, a row that asks no other rank
//
// A row that is made of such rows offers both by asking these.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <concepts>
#include <utility>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Tokens first..first + count − 1.
struct ColumnRange {
  Index first, count;

  /// What of tokens start..end − 1 is among them, counted from `first` on.
  std::pair<Index, Index> within(Index start, Index end) const {
    return {std::clamp<Index>(start - first, 0, count), std::clamp<Index>(end - first, 0, count)};
  }
  friend bool operator==(const ColumnRange&, const ColumnRange&) = default;
};

/// A row that is spread over ranks.
template <class R>
concept SpreadRow = requires(const R& row) {
  { row.spread().columns() } -> std::same_as<ColumnRange>;
};

namespace detail {

/// Some columns of a row that is here, times a factor, counted from 0 on. Those that the row has not are 0.
template <Distribution R>
class PartOfRow {
  using Stretch = Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size>;

 public:
  PartOfRow(const R& row, ColumnRange columns, double factor = 1)
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
  Stretch segment(Index start, Index count) const
    requires(SegmentedRow<R> && !ListedRow<R>)
  {
    Stretch out = Stretch::Zero(count);
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

  auto sampler() const {
    if constexpr (ListedRow<R>) return ListSampler<PartOfRow>(*this);
    else return PrefixSampler<PartOfRow>(*this);
  }

 private:
  // How many of the columns the row has, and has something in.
  Index there(Index start, Index count) const {
    return factor_ == 0 ? 0 : std::min<Index>(count, row_.vocab_size() - columns_.first - start);
  }

  R row_;
  ColumnRange columns_;
  double factor_;
  Index listed_from_ = 0, listed_ = 0;
};

/// Some columns of any row, by themselves.
template <Distribution R>
auto part_of(const R& row, ColumnRange columns) {
  if constexpr (requires { row.part(columns); }) return row.part(columns);
  else return PartOfRow<R>(row, columns);
}

/// Draws from a SpreadRow by what its parts sum to.
///
/// Cost: two exchanges a draw, of one number and of two.
template <class Row>  // a SpreadRow, complete only by the time of a draw
class SpreadSampler {
 public:
  explicit SpreadSampler(const Row& row) : row_(row) {}

  Token operator()(double u) {
    const auto spread = row_.spread();
    return spread.draw(u, [&] { return row_.part(spread.columns()); });
  }

 private:
  Row row_;
};

}  // namespace detail
}  // namespace specdec

// A row without some of its tokens: what is drawn from when a token may not be drawn twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/part_alone.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// A row with zeros in the places of some tokens. It sums to less than 1.
template <Distribution R>
class RowWithGaps {
 public:
  RowWithGaps(const R& row, std::span<const Token> gaps) : row_(row), gaps_(gaps) {}

  static constexpr double rounding_of_small = detail::rounding_of_small<R>;

  const R& row() const { return row_; }
  bool may_have(Token x) const { return std::find(gaps_.begin(), gaps_.end(), x) == gaps_.end(); }

  Index vocab_size() const { return row_.vocab_size(); }
  double probability(Token x) const { return may_have(x) ? static_cast<double>(row_.probability(x)) : 0.0; }

  /// Stretch by stretch between the gaps: a sum from which they were subtracted would leave something of them.
  double sum(Index start, Index count) const {
    const Index end = start + count;
    double sum = 0;
    for (; start < end; ++start) {
      const Index gap = next_gap(start, end);
      if (start < gap) sum += sum_of_stretch(start, gap - start);
      start = gap;
    }
    return sum;
  }

  /// Some of its entries, in double.
  Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size> stretch(Index start,
                                                                                     Index count) const
    requires SegmentedRow<R>
  {
    Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size> stretch =
        row_.segment(start, count).template cast<double>();
    for (const Token x : gaps_)
      if (x >= start && x < start + count) stretch[x - start] = 0;
    return stretch;
  }

  Index support_size() const
    requires ListedRow<R>
  {
    return row_.support_size();
  }
  Token support(Index k) const
    requires ListedRow<R>
  {
    return row_.support(k);
  }
  double listed(Index k) const
    requires ListedRow<R>
  {
    return may_have(row_.support(k)) ? static_cast<double>(row_.listed(k)) : 0.0;
  }

  /// What the gaps would have. One that is told twice counts once.
  double taken() const {
    double taken = 0;
    for (std::size_t i = 0; i < gaps_.size(); ++i) {
      const bool again = std::find(gaps_.begin(), gaps_.begin() + static_cast<std::ptrdiff_t>(i), gaps_[i]) !=
                         gaps_.begin() + static_cast<std::ptrdiff_t>(i);
      if (!again && gaps_[i] >= 0) taken += specdec::probability(row_, gaps_[i]);
    }
    return taken;
  }

  auto sampler() const {
    if constexpr (ListedRow<R>) return ListSampler<RowWithGaps>(*this);
    else if constexpr (requires { row_.known_stretch(); })
      return PrefixSampler<RowWithGaps>(*this, row_.known_stretch());
    else return PrefixSampler<RowWithGaps>(*this);
  }

 private:
  Index next_gap(Index start, Index end) const {
    for (const Token gap : gaps_)
      if (gap >= start && gap < end) end = gap;
    return end;
  }

  double sum_of_stretch(Index start, Index count) const {
    if constexpr (SummableRow<R>) {
      return static_cast<double>(row_.sum(start, count));
    } else {
      double sum = 0;
      for (Index x = start; x < start + count; ++x)
        sum += static_cast<double>(row_.probability(static_cast<Token>(x)));
      return sum;
    }
  }

  R row_;
  std::span<const Token> gaps_;
};

}  // namespace detail

/// The distribution of a row's tokens given that it is none of those in a list, which must outlive it: what the next
/// sibling is drawn from where siblings are drawn without replacement. Tokens that the row does not have, or that are
/// listed twice, change nothing.
///
/// Throws: InvalidDistribution where what is left sums to no finite number.
/// Cost: as many look-ups as there are tokens in the list; where these have more than half of the mass, a pass over the
/// rest, too. A draw reads the row up to the token that is drawn.
/// Numeric: more than half of the mass is what the list leaves of 1, less is summed up, so that nothing cancels out.
template <Distribution R>
class WithoutTokensRow : public detail::PartAlone<detail::RowWithGaps<R>> {
  using Rest = detail::RowWithGaps<R>;

 public:
  WithoutTokensRow(const R& row, std::span<const Token> tokens) : WithoutTokensRow(Rest(row, tokens)) {}
  template <detail::OwningTemporary Temporary>
  WithoutTokensRow(const R& row, Temporary&& tokens) = delete;

  static constexpr bool constant_time_probability = specdec::constant_time_probability<R>;

 private:
  explicit WithoutTokensRow(const Rest& rest) : detail::PartAlone<Rest>(rest, mass_of(rest)) {}

  static double mass_of(const Rest& rest) {
    const double taken = rest.taken();
    if (taken <= 0.5) return 1 - taken;
    const double left = rest.sum(0, rest.vocab_size());
    if (!detail::is_probability(left))
      throw InvalidDistribution(detail::message("the probabilities of the other tokens sum to ", left));
    return left;
  }
};

template <Distribution R, class Tokens>
WithoutTokensRow(const R&, Tokens&&) -> WithoutTokensRow<R>;

}  // namespace specdec

// A row of which only some tokens may be drawn: those that another vocabulary has, too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/part_alone.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// A row with zeros in the places of tokens that are not kept. It sums to less than 1.
template <Distribution R>
class MaskedRow {
 public:
  MaskedRow(const R& row, std::span<const std::uint8_t> kept) : row_(row), kept_(kept) {}

  static constexpr double rounding_of_small = detail::rounding_of_small<R>;

  const R& row() const { return row_; }
  std::span<const std::uint8_t> kept() const { return kept_; }
  bool may_have(Token x) const {
    const auto i = static_cast<std::size_t>(x);
    return i < kept_.size() && kept_[i] != 0;
  }

  Index vocab_size() const { return row_.vocab_size(); }
  double probability(Token x) const { return may_have(x) ? static_cast<double>(row_.probability(x)) : 0.0; }

  double sum(Index start, Index count) const {
    const Index end = start + count;
    double sum = 0;
    if constexpr (ListedRow<R>) {
      for (Index k = lower_bound(row_, start); k < row_.support_size() && row_.support(k) < end; ++k)
        sum += listed(k);
    } else if constexpr (SegmentedRow<R>) {
      for (; start < end; start += max_segment_size)
        sum += stretch(start, std::min(max_segment_size, end - start)).sum();
    } else {
      for (; start < end; ++start) sum += probability(static_cast<Token>(start));
    }
    return sum;
  }

  /// Some of its entries, in double.
  auto stretch(Index start, Index count) const
    requires SegmentedRow<R>
  {
    Stretch p = row_.segment(start, count).template cast<double>();
    for (Index i = 0; i < count; ++i) p[i] = may_have(static_cast<Token>(start + i)) ? p[i] : 0.0;
    return p;
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

  auto sampler() const {
    if constexpr (ListedRow<R>) return ListSampler<MaskedRow>(*this);
    else return PrefixSampler<MaskedRow>(*this);
  }

 private:
  using Stretch = Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size>;

  R row_;
  std::span<const std::uint8_t> kept_;
};

}  // namespace detail

/// The distribution of a row's tokens given that it is one of those that are kept: kept[x] is not 0. Tokens beyond that
/// list, which must outlive the row, are not kept. Many tokens may be left out; for a handful there is WithoutTokensRow.
///
/// Throws: InvalidDistribution where what is kept sums to no finite number.
/// Cost: one pass over the row. A draw reads the row up to the token that is drawn.
/// Numeric: the mass of what is kept is summed up in double, so that nothing cancels out.
template <Distribution R>
class OnlyTokensRow : public detail::PartAlone<detail::MaskedRow<R>> {
  using Part = detail::MaskedRow<R>;

 public:
  OnlyTokensRow(const R& row, std::span<const std::uint8_t> kept) : OnlyTokensRow(Part(row, kept)) {}
  template <detail::OwningTemporary Temporary>
  OnlyTokensRow(const R& row, Temporary&& kept) = delete;

  static constexpr bool constant_time_probability = specdec::constant_time_probability<R>;

  /// The row with the tokens that are not kept.
  const R& row() const { return this->part().row(); }

  /// These tokens of a copy of the row, which is not summed up again.
  template <Distribution Copy>
  OnlyTokensRow<Copy> of_copy(const Copy& copy) const {
    return {detail::MaskedRow<Copy>(copy, this->part().kept()), this->mass()};
  }

 private:
  template <Distribution>
  friend class OnlyTokensRow;

  OnlyTokensRow(const Part& part, double mass) : detail::PartAlone<Part>(part, mass) {}
  explicit OnlyTokensRow(const Part& part) : detail::PartAlone<Part>(part, mass_of(part)) {}

  static double mass_of(const Part& part) {
    const double mass = part.sum(0, part.vocab_size());
    if (!(mass >= 0) || !std::isfinite(mass))
      throw InvalidDistribution(
          detail::message("the probabilities of the tokens that are kept sum to ", mass));
    return mass;
  }
};

template <Distribution R, class Kept>
OnlyTokensRow(const R&, Kept&&) -> OnlyTokensRow<R>;

}  // namespace specdec

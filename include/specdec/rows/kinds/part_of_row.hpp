// A row of which only some tokens may be drawn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// The tokens x of which kept[x] is not 0, of those that another vocabulary has, say. Tokens beyond the list are not kept.
struct OnlyTokens {
  detail::Borrowed<const std::uint8_t> kept;

  static constexpr bool leaves_most = false;
  static constexpr const char* name = "the tokens that are kept";
  bool has(Token x) const {
    const auto i = static_cast<std::size_t>(x);
    return i < kept.size() && kept[i] != 0;
  }
};

/// All tokens but a handful: what a next sibling may be where siblings are drawn without replacement. Tokens that the row
/// does not have, or that are listed twice, change nothing.
struct WithoutTokens {
  detail::Borrowed<const Token> gone;

  static constexpr bool leaves_most = true;
  static constexpr const char* name = "the other tokens";
  bool has(Token x) const { return std::find(gone.begin(), gone.end(), x) == gone.end(); }

  /// The first token from `start` on that is gone, at most `end`.
  Index next_gap(Index start, Index end) const {
    for (const Token x : gone)
      if (x >= start && x < end) end = x;
    return end;
  }

  /// What the row gives to them.
  template <class R>
  double taken_from(const R& row) const {
    double taken = 0;
    for (auto x = gone.begin(); x != gone.end(); ++x)
      if (*x >= 0 && std::find(gone.begin(), x, *x) == x) taken += specdec::probability(row, *x);
    return taken;
  }
};

/// The distribution of a row's tokens given that it is one of some: OnlyTokens{kept} or WithoutTokens{gone}, whose list must
/// outlive it. Where these have no mass there is no distribution to draw from.
///
/// Throws: InvalidDistribution where their mass is no finite number.
/// Cost: one pass over the row; of WithoutTokens as many look-ups as it lists, and the pass only where these have more than
/// half of the mass. A draw reads the row up to the token that is drawn.
/// Numeric: the mass is summed up in double, or is what less than half of it leaves of 1, so that nothing cancels out.
template <Distribution R, class Tokens>
class PartOfRow {
  using Segment = detail::Segment<>;

 public:
  PartOfRow(const R& row, const Tokens& tokens) : row_(row), tokens_(tokens), mass_(mass_of_tokens()) {}

  static constexpr bool constant_time_probability = specdec::constant_time_probability<R>;
  static constexpr double rounding_of_small = detail::rounding_of_small<R>;

  /// What the row has on the tokens that are left.
  double mass() const { return mass_; }
  /// The row with all its tokens.
  const R& row() const { return row_; }

  /// These tokens of a copy of the row, which is not summed up again.
  template <Distribution Copy>
  PartOfRow<Copy, Tokens> of_copy(const Copy& copy) const {
    return {copy, tokens_, mass_};
  }

  Index vocab_size() const { return row_.vocab_size(); }
  double probability(Token x) const {
    return tokens_.has(x) ? normalised(static_cast<double>(row_.probability(x))) : 0.0;
  }
  bool possible(Token x) const { return tokens_.has(x) && specdec::possible(row_, x); }
  void prefetch(Token x) const { specdec::prefetch(row_, x); }
  double sum(Index start, Index count) const { return normalised(sum_of_row(start, count)); }

  auto segment(Index start, Index count) const
    requires SegmentedRow<R>
  {
    Segment segment = stretch(start, count);
    if (mass_ > 0) segment /= mass_;
    return segment;
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
    return tokens_.has(row_.support(k)) ? normalised(static_cast<double>(row_.listed(k))) : 0.0;
  }

  /// Draws from what the row itself has on these tokens, at u times their mass.
  auto sampler() const {
    return [draw = sampler_of(PartOfRow(row_, tokens_, 1.0)), mass = mass_](double u) mutable {
      return draw(u * mass);
    };
  }

 private:
  template <Distribution, class>
  friend class PartOfRow;

  PartOfRow(const R& row, const Tokens& tokens, double mass) : row_(row), tokens_(tokens), mass_(mass) {}

  static auto sampler_of(const PartOfRow& part) {
    if constexpr (Tokens::leaves_most && requires { part.row_.known_stretch(); })
      return PrefixSampler<PartOfRow>(part, part.row_.known_stretch());
    else return detail::ComputedSampler<PartOfRow>(part);
  }

  double normalised(double p) const { return mass_ > 0 ? p / mass_ : p; }

  double mass_of_tokens() const {
    if constexpr (Tokens::leaves_most) {
      const double taken = tokens_.taken_from(row_);
      if (taken <= 0.5) return 1 - taken;
    }
    const double mass = sum_of_row(0, vocab_size());
    if (!(mass >= 0) || !std::isfinite(mass))
      throw InvalidDistribution(detail::message("the probabilities of ", Tokens::name, " sum to ", mass));
    return mass;
  }

  // What the row itself has on these tokens. What is left out is never summed and subtracted, which would leave its rounding.
  double sum_of_row(Index start, Index count) const {
    const Index end = start + count;
    double sum = 0;
    if constexpr (ListedRow<R>) {
      for (Index k = detail::lower_bound(row_, start); k < row_.support_size() && row_.support(k) < end; ++k)
        if (tokens_.has(row_.support(k))) sum += static_cast<double>(row_.listed(k));
    } else if constexpr (Tokens::leaves_most && SummableRow<R>) {
      for (; start < end; ++start) {
        const Index gap = tokens_.next_gap(start, end);
        if (start < gap) sum += static_cast<double>(row_.sum(start, gap - start));
        start = gap;
      }
    } else if constexpr (SegmentedRow<R>) {
      for (; start < end; start += max_segment_size)
        sum += stretch(start, std::min(max_segment_size, end - start)).sum();
    } else {
      for (auto x = static_cast<Token>(start); x < end; ++x)
        if (tokens_.has(x)) sum += static_cast<double>(row_.probability(x));
    }
    return sum;
  }

  // Some entries of the row, with zeros where a token is left out.
  Segment stretch(Index start, Index count) const {
    Segment stretch = row_.segment(start, count).template cast<double>();
    if constexpr (Tokens::leaves_most) {
      for (const Token x : tokens_.gone)
        if (x >= start && x < start + count) stretch[x - start] = 0;
    } else {
      for (Index i = 0; i < count; ++i)
        stretch[i] = tokens_.has(static_cast<Token>(start + i)) ? stretch[i] : 0.0;
    }
    return stretch;
  }

  R row_;
  Tokens tokens_;
  double mass_;
};

}  // namespace specdec

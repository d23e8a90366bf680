// A row restricted to some of its tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/rows/read/largest_probability.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"
#include "specdec/rows/row_adaptor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The tokens x with kept[x] != 0, such as those of another vocabulary. Tokens beyond the end of the list are not kept.
struct OnlyTokens {
  detail::BorrowedSpan<const std::uint8_t> kept;

  static constexpr bool leaves_most = false;
  static constexpr const char* name = "the tokens that are kept";
  bool has(Token x) const { return x >= 0 && x < std::ssize(kept) && detail::at(kept, x) != 0; }
};

/// All tokens except a few, as for the next of siblings drawn without replacement. Unknown and repeated tokens are ignored.
struct WithoutTokens {
  detail::BorrowedSpan<const Token> gone;

  static constexpr bool leaves_most = true;
  static constexpr const char* name = "the other tokens";
  bool has(Token x) const { return std::find(gone.begin(), gone.end(), x) == gone.end(); }

  /// The first excluded token from `start` on; `end` if there is none before it.
  Index next_gap(Index start, Index end) const {
    for (const Token x : gone)
      if (x >= start && x < end) end = x;
    return end;
  }

  /// The mass of the excluded tokens in the row.
  template <class R>
  double taken_from(const R& row) const {
    double taken = 0;
    for (auto x = gone.begin(); x != gone.end(); ++x)
      if (*x >= 0 && std::find(gone.begin(), x, *x) == x) taken += specdec::probability(row, *x);
    return taken;
  }
};

/// A row restricted to OnlyTokens{kept} or to WithoutTokens{gone}, and normalised. The list of tokens must outlive it. If
/// the remaining tokens have no mass, nothing can be drawn.
/// Throws: InvalidDistribution if the mass of the remaining tokens is no finite number.
/// Cost: one pass over the row. With WithoutTokens, one look-up per excluded token; the pass is needed only if these tokens
/// have more than half of the mass. A draw reads the row up to the drawn token.
/// Numeric: the mass is summed in double, or is 1 minus at most one half. So nothing cancels out.
template <Distribution R, class Tokens>
class PartOfRow : public detail::RowAdaptor<PartOfRow<R, Tokens>, detail::Keeps::ids, R> {
  using Segment = detail::GatheredSegment<R>;

 public:
  PartOfRow(const R& row, const Tokens& tokens) : row_(row), tokens_(tokens), mass_(mass_of_tokens()) {}

  /// The mass of the remaining tokens in the whole row.
  double mass() const { return mass_; }
  bool is_dead_end() const { return mass_ == 0; }
  /// The row with all its tokens.
  const R& row() const { return row_; }
  auto ask(const auto& f) const { return f(row_); }

  /// The restriction of a copy of the row. The mass is not summed again.
  template <Distribution Copy>
  PartOfRow<Copy, Tokens> of_copy(const Copy& copy) const {
    return {copy, tokens_, mass_};
  }
  /// With an equal list of tokens elsewhere. The mass is not summed again.
  PartOfRow with(const Tokens& tokens) const { return {row_, tokens, mass_}; }

  /// The restriction of the row before temperature, cuts and hooks.
  auto unprocessed() const
    requires detail::KnowsUnprocessed<R>
  {
    const auto row = row_.unprocessed();
    return PartOfRow<std::remove_cvref_t<decltype(row)>, Tokens>(row, tokens_);
  }

  double probability(Token x) const {
    return tokens_.has(x) ? normalised(static_cast<double>(row_.probability(x))) : 0.0;
  }
  double log_probability(Token x) const {
    if (!tokens_.has(x)) return -std::numeric_limits<double>::infinity();
    return specdec::log_probability(row_, x) - (mass_ > 0 ? std::log(mass_) : 0);
  }
  bool possible(Token x) const { return tokens_.has(x) && specdec::possible(row_, x); }
  double sum(Index start, Index count) const { return normalised(sum_of_row(start, count)); }

  auto segment(Index start, Index count) const
    requires SegmentedRow<R>
  {
    Segment segment = stretch(start, count);
    if (mass_ > 0) segment /= mass_;
    return segment;
  }

  double listed(Index k) const
    requires ListedRow<R>
  {
    return tokens_.has(row_.support(k)) ? normalised(static_cast<double>(row_.listed(k))) : 0.0;
  }

  /// The most probable of the remaining tokens, the lowest id among equals.
  /// Throws: InvalidDistribution on NaN, and if no token has positive probability.
  /// Cost: the row's argmax; a pass over the row if that token is left out.
  Token argmax() const
    requires ArgmaxRow<R>
  {
    if (const Token x = row_.argmax(); tokens_.has(x)) return x;
    return detail::find_likeliest(*this).first;
  }

  /// Draws from the unnormalised probabilities of the remaining tokens, at u times their mass.
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
    if constexpr (Tokens::leaves_most && detail::KnowsStretches<R>)
      return PrefixSampler<PartOfRow>(part, part.row_.known_stretch());
    else return detail::ComputedSampler<PartOfRow>(part);
  }

  double normalised(double p) const { return mass_ > 0 ? p / mass_ : p; }

  double mass_of_tokens() const {
    if constexpr (Tokens::leaves_most) {
      const double taken = tokens_.taken_from(row_);
      if (taken <= 0.5 && (taken > 0 || !detail::is_dead_end(row_))) return 1 - taken;
    }
    const double mass = sum_of_row(0, row_.vocab_size());
    if (!(mass >= 0) || !std::isfinite(mass))
      detail::invalid_distribution("the probabilities of ", Tokens::name, " sum to ", mass);
    return mass;
  }

  // The unnormalised mass of the remaining tokens. No excluded mass is subtracted from a sum: a rounding error would stay.
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

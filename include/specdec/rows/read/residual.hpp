// The residual (a·p − b·q)+ of two rows. Of a row and several others: rough_residual.hpp.
//
// Most rules do not sum residuals: they race (see chance/race.hpp). The sum is needed if a race takes too many rounds, for
// the live modifications of greedy block verification, for rejected siblings, and for the correction token of K-SEQ.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/little_left.hpp"
#include "specdec/rows/read/segments.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// (a·p − b·q)+ of token x.
inline double residual_of(double a, double p, double b, double q, Token x) {
  const double difference = a * p - b * q;
  if (!std::isfinite(difference)) invalid_distribution("at token ", x, " target = ", p, " and draft = ", q);
  return std::max(difference, 0.0);
}

/// (a·p − b·q)+, to be summed over rows.
struct ResidualOf {
  double a, b;

  // NaN stays NaN.
  SPECDEC_KERNEL double operator()(double p, double q) const {
    SPECDEC_UNFUSED
    const double difference = a * p - b * q;
    return difference < 0 ? 0 : difference;
  }

  // A row is not asked about a stretch that begins after its end.
  double alone(const SummableRow auto& p, Index start, Index end) const {
    return start < end ? a * static_cast<double>(p.sum(start, end - start)) : 0.0;
  }
};

/// (a·p − b·q)+, to be summed over the probabilities that residual() returns: see hardly_any_left.
struct ResidualOfTokens : ResidualOf {
  using TokenByToken = void;
};

template <Distribution P, Distribution Q>
class RoughResidualRow;

}  // namespace detail

/// (a·p(x) − b·q(x))+ for one token.
/// Throws: InvalidDistribution if the result is not finite.
template <Distribution P, Distribution Q>
double residual(double a, const P& p, double b, const Q& q, Token x) {
  return detail::residual_of(a, specdec::probability(p, x), b, specdec::probability(q, x), x);
}

/// Σ (a·p(x) − b·q(x))+ over `count` tokens from `start` on. q's vocabulary may have another size.
/// Pre: the tokens are in p's vocabulary.
/// Numeric: differences and sums in double. NaN anywhere gives NaN.
/// Cost: if p has a list, a pass over this list. If only q has a list, a pass over p and over this list. If both rows have
/// segments, one fused pass over both. Else one look-up in each row per token. If a row is spread over ranks, each rank sums
/// its own columns, and one number is exchanged once.
template <Distribution P, Distribution Q>
double residual_mass(double a, const P& p, double b, const Q& q, Index start, Index count) {
  return detail::sum_over(detail::ResidualOf{a, b}, p, q, start, start + count);
}

/// Σ (a·p(x) − b·q(x))+ over the whole row. If it is positive, residual() is positive for some token.
/// Throws: InvalidDistribution if the sum is not finite.
/// Cost: a second pass, with one look-up in each row per token, if the sum is below 1e-4.
template <Distribution P, Distribution Q>
double residual_mass(double a, const P& p, double b, const Q& q) {
  return detail::in_name_of(p, [&] {
    double mass = residual_mass(a, p, b, q, 0, p.vocab_size());
    if (mass < detail::hardly_any_left)
      mass = detail::sum_over(detail::ResidualOfTokens{{a, b}}, p, q, 0, p.vocab_size());
    if (!std::isfinite(mass)) detail::invalid_distribution("the residual of target and draft sums to ", mass);
    return mass;
  });
}

/// The distribution ∝ (a·p − b·q)+ as a row. It lists its tokens if p does.
template <Distribution P, Distribution Q>
class ResidualRow {
 public:
  /// Sums the mass.
  ResidualRow(double a, const P& p, double b, const Q& q)
      : ResidualRow(a, p, b, q, residual_mass(a, p, b, q)) {}

  /// With a known mass.
  ResidualRow(double a, const P& p, double b, const Q& q, double mass)
      : a_(a), b_(b), p_(p), q_(q), mass_(mass) {}

  /// Σ (a·p − b·q)+. If it is 0, by rounding or by the data, nothing can be drawn from the row.
  double mass() const { return mass_; }
  /// (a·p(x) − b·q(x))+, if p(x) is known.
  double left(Token x, double p) const { return std::max(a_ * p - b_ * specdec::probability(q_, x), 0.0); }

  Index vocab_size() const { return p_.vocab_size(); }
  double probability(Token x) const { return residual(a_, p_, b_, q_, x) / mass_; }
  double sum(Index start, Index count) const {
    if (mass_ >= detail::hardly_any_left) return residual_mass(a_, p_, b_, q_, start, count) / mass_;
    return detail::sum_over(detail::ResidualOfTokens{{a_, b_}}, p_, q_, start, start + count) / mass_;
  }
  auto segment(Index start, Index count) const
    requires(!ListedRow<P>)
  {
    using Segment = detail::GatheredSegment<P, Q>;
    Segment rest = Segment::Zero(count);
    detail::add_stretch(p_, a_, start, rest);
    detail::add_stretch(q_, -b_, start, rest);
    return Segment((rest < 0).select(0.0, rest) / mass_);  // NaN stays NaN
  }

  Index support_size() const
    requires ListedRow<P>
  {
    return p_.support_size();
  }
  Token support(Index k) const
    requires ListedRow<P>
  {
    return p_.support(k);
  }
  double listed(Index k) const
    requires ListedRow<P>
  {
    detail::check_ascending(p_, k, 0);
    const Token x = support(k);
    return detail::residual_of(a_, p_.listed(k), b_, specdec::probability(q_, x), x) / mass_;
  }

  template <class F>
  auto named(F&& f) const {
    return detail::in_name_of(p_, std::forward<F>(f));
  }
  auto spread() const
    requires detail::SpreadRow<P>
  {
    return p_.spread();
  }
  template <class Part>
  auto made_of(const Part& part) const {
    const auto p = part(p_);
    const auto q = part(q_);
    return ResidualRow<std::remove_cvref_t<decltype(p)>, std::remove_cvref_t<decltype(q)>>(a_, p, b_, q,
                                                                                           mass_);
  }

  auto sampler() const { return detail::ComputedSampler<ResidualRow>(*this); }

 private:
  friend class detail::RoughResidualRow<P, Q>;

  double a_, b_;
  P p_;
  Q q_;
  double mass_;
};

}  // namespace specdec

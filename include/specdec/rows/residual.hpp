// The residual (a·p − b·q)+: the one place where a whole row is read against another.
//
// The verifiers do not sum residuals (they race, see race.hpp). Masses are needed when a race has gone on for
// too long, and for the live modifications of greedy block verification.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/prefix_sampler.hpp"
#include "specdec/rows/sparse.hpp"

namespace specdec {

/// (a·p(x) − b·q(x))+ for one token. Throws InvalidDistribution when that is not a finite number.
template <Distribution P, Distribution Q>
double residual(double a, const P& p, double b, const Q& q, Token x) {
  const double difference = a * specdec::probability(p, x) - b * specdec::probability(q, x);
  if (!std::isfinite(difference))
    throw InvalidDistribution(detail::message("at token ", x, " target = ", specdec::probability(p, x),
                                              " and draft = ", specdec::probability(q, x)));
  return std::max(difference, 0.0);
}

namespace detail {

/// (d)+, but NaN stays NaN.
inline double positive_part(double d) { return d < 0 ? 0 : d; }

/// Σ p(x) over `count` tokens from `start` on, where there are any: a row need not answer for a stretch that
/// begins behind its end.
template <SummableRow P>
double mass_of(const P& p, Index start, Index count) {
  return count > 0 ? static_cast<double>(p.sum(start, count)) : 0.0;
}

/// p sparse: only the tokens it lists have a residual. With q sparse too the two lists are merged, in
/// O(k_p + k_q).
template <SparseRowLike P, Distribution Q>
double sparse_residual_mass(double a, const P& p, double b, const Q& q, Index start, Index end) {
  double mass = 0;
  [[maybe_unused]] Index j = 0;
  if constexpr (SparseRowLike<Q>) j = lower_bound(q, start);
  for (Index k = lower_bound(p, start); k < p.support_size() && p.support(k) < end; ++k) {
    check_ascending(start, p.support(k));
    start = Index{p.support(k)} + 1;
    double subtrahend = 0;
    if constexpr (SparseRowLike<Q>) {
      while (j < q.support_size() && q.support(j) < p.support(k)) ++j;
      if (j < q.support_size() && q.support(j) == p.support(k)) subtrahend = q.weight(j);
    } else {
      subtrahend = specdec::probability(q, p.support(k));
    }
    mass += positive_part(a * p.weight(k) - b * subtrahend);
  }
  return mass;
}

/// Only q sparse: between the tokens it lists the residual is a·p.
template <SummableRow P, SparseRowLike Q>
double residual_mass_around(double a, const P& p, double b, const Q& q, Index start, Index end) {
  double mass = 0;
  for (Index k = lower_bound(q, start); k < q.support_size() && q.support(k) < end; ++k) {
    const Token x = q.support(k);
    check_ascending(start, x);
    mass += a * mass_of(p, start, x - start) + positive_part(a * p.probability(x) - b * q.weight(k));
    start = Index{x} + 1;
  }
  return mass + a * mass_of(p, start, end - start);
}

/// Both dense: one fused pass over both rows. (d)+ = (d + |d|)/2 exactly, and keeps a NaN.
template <BlockRow P, BlockRow Q>
double dense_residual_mass(double a, const P& p, double b, const Q& q, Index start, Index end) {
  double mass = 0;
  for (; start < end; start += max_block_size) {
    const Index count = std::min(max_block_size, end - start);
    const auto& p_block = p.block(start, count);
    const auto& q_block = q.block(start, count);
    const auto difference = a * p_block.template cast<double>() - b * q_block.template cast<double>();
    mass += 0.5 * (difference + difference.abs()).sum();
  }
  return mass;
}

}  // namespace detail

/// Σ (a·p(x) − b·q(x))+ over `count` tokens from `start` on, which p's vocabulary must hold; q's may be of
/// another size.
///
/// Numeric: differences and sums in double. NaN anywhere gives NaN.
/// Cost: one fused pass over both rows where both hand out blocks; where p is sparse its list alone, where q
/// is, p and q's list; else one lookup each per token.
template <Distribution P, Distribution Q>
double residual_mass(double a, const P& p, double b, const Q& q, Index start, Index count) {
  const Index end = start + count;
  if constexpr (SparseRowLike<P>) {
    return detail::sparse_residual_mass(a, p, b, q, start, end);
  } else if constexpr (SummableRow<P> && SparseRowLike<Q>) {
    return detail::residual_mass_around(a, p, b, q, start, end);
  } else if constexpr (BlockRow<P> && SummableRow<P> && BlockRow<Q>) {
    const Index common = std::clamp<Index>(q.vocab_size(), start, end);
    return detail::dense_residual_mass(a, p, b, q, start, common) +
           a * detail::mass_of(p, common, end - common);
  } else {
    double mass = 0;
    for (Index x = start; x < end; ++x) {
      const auto token = static_cast<Token>(x);
      mass += detail::positive_part(a * p.probability(token) - b * specdec::probability(q, token));
    }
    return mass;
  }
}

/// The same over the whole row, which must come to a finite number: else InvalidDistribution.
template <Distribution P, Distribution Q>
double residual_mass(double a, const P& p, double b, const Q& q) {
  const double mass = residual_mass(a, p, b, q, 0, p.vocab_size());
  if (!std::isfinite(mass))
    throw InvalidDistribution(detail::message("the residual of target and draft sums to ", mass));
  return mass;
}

/// The distribution ∝ (a·p − b·q)+ as a row; sparse where p is.
template <Distribution P, Distribution Q>
class ResidualRow {
 public:
  /// Sums the mass.
  ResidualRow(double a, const P& p, double b, const Q& q)
      : ResidualRow(a, p, b, q, residual_mass(a, p, b, q)) {}

  /// Where the mass is known.
  ResidualRow(double a, const P& p, double b, const Q& q, double mass)
      : a_(a), b_(b), p_(p), q_(q), mass_(mass) {}

  /// Σ (a·p − b·q)+; 0 where rounding or the data left nothing: then there is no distribution to draw from.
  double mass() const { return mass_; }

  Index vocab_size() const { return p_.vocab_size(); }
  double probability(Token x) const { return residual(a_, p_, b_, q_, x) / mass_; }
  double sum(Index start, Index count) const { return residual_mass(a_, p_, b_, q_, start, count) / mass_; }

  Index support_size() const
    requires SparseRowLike<P>
  {
    return p_.support_size();
  }
  Token support(Index k) const
    requires SparseRowLike<P>
  {
    return p_.support(k);
  }
  double weight(Index k) const
    requires SparseRowLike<P>
  {
    detail::check_ascending(0, support(k));
    return probability(support(k));
  }

  auto sampler() const {
    if constexpr (SparseRowLike<P>) return detail::SparseSampler<ResidualRow>(*this);
    else return PrefixSampler<ResidualRow>(*this);
  }

 private:
  double a_, b_;
  P p_;
  Q q_;
  double mass_;
};

}  // namespace specdec

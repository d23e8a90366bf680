// The residual (a·p − b·q)+: the one place where a whole row is read against another.
//
// The verifiers do not sum residuals (they race, see race.hpp). Masses are needed when a race has gone on for
// too long, and for the live modifications of greedy block verification.
#pragma once

#include <algorithm>
#include <cmath>

#include "specdec/core/distribution.hpp"
#include "specdec/core/error.hpp"
#include "specdec/core/prefix_sampler.hpp"

namespace specdec {

/// (a·p(x) − b·q(x))+ for one token. Throws InvalidDistribution when that is not a finite number.
template <Distribution P, Distribution Q>
double residual(double a, const P& p, double b, const Q& q, Token x) {
  const double difference = a * p.probability(x) - b * q.probability(x);
  if (!std::isfinite(difference))
    throw InvalidDistribution(
        detail::message("at token ", x, " target = ", p.probability(x), " and draft = ", q.probability(x)));
  return std::max(difference, 0.0);
}

/// Σ (a·p(x) − b·q(x))+ over `count` tokens from `start` on.
///
/// Numeric: differences and sums in double. NaN anywhere gives NaN.
/// Cost: one fused pass over both rows where both hand out blocks, else one lookup each per token.
template <Distribution P, Distribution Q>
double residual_mass(double a, const P& p, double b, const Q& q, Index start, Index count) {
  if constexpr (BlockRow<P> && BlockRow<Q>) {
    const auto difference =
        a * p.block(start, count).template cast<double>() - b * q.block(start, count).template cast<double>();
    return 0.5 * (difference + difference.abs()).sum();  // (d)+ = (d + |d|)/2 exactly, and keeps a NaN
  } else {
    double sum = 0;
    for (Index x = start; x < start + count; ++x) {
      const auto token = static_cast<Token>(x);
      const double difference = a * p.probability(token) - b * q.probability(token);
      sum += difference < 0 ? 0 : difference;
    }
    return sum;
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

/// The distribution ∝ (a·p − b·q)+ as a row. Its mass is summed once, on construction.
template <Distribution P, Distribution Q>
class ResidualRow {
 public:
  ResidualRow(double a, const P& p, double b, const Q& q)
      : a_(a), b_(b), p_(p), q_(q), mass_(residual_mass(a, p, b, q)) {}

  /// Σ (a·p − b·q)+; 0 where rounding or the data left nothing: then there is no distribution to draw from.
  double mass() const { return mass_; }

  Index vocab_size() const { return p_.vocab_size(); }
  double probability(Token x) const { return residual(a_, p_, b_, q_, x) / mass_; }
  double sum(Index start, Index count) const { return residual_mass(a_, p_, b_, q_, start, count) / mass_; }
  PrefixSampler<ResidualRow> sampler() const { return PrefixSampler<ResidualRow>(*this); }

 private:
  double a_, b_;
  P p_;
  Q q_;
  double mass_;
};

}  // namespace specdec

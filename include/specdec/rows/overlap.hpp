// How much two rows have in common: what is accepted of a draft at one prefix.
#pragma once

#include <algorithm>
#include <cmath>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/residual.hpp"
#include "specdec/rows/sparse.hpp"

namespace specdec {
namespace detail {

/// The smaller one; NaN where either is.
inline double least(double a, double b) { return std::isnan(a) || a < b ? a : b; }

/// Σ min(a·p, b·q) where p lists its tokens: over those alone.
template <SparseRowLike P, Distribution Q>
double sparse_overlap(double a, const P& p, double b, const Q& q) {
  double mass = 0;
  Index start = 0;
  for (Index k = 0; k < p.support_size(); ++k) {
    check_ascending(start, p.support(k));
    start = Index{p.support(k)} + 1;
    mass += least(a * p.weight(k), b * specdec::probability(q, p.support(k)));
  }
  return mass;
}

/// Both dense: one fused pass over both rows. The minimum of a number and NaN may be either: 0·NaN is NaN.
template <BlockRow P, BlockRow Q>
double dense_overlap(double a, const P& p, double b, const Q& q, Index end) {
  double mass = 0;
  for (Index start = 0; start < end; start += max_block_size) {
    const Index count = std::min(max_block_size, end - start);
    const auto& p_block = p.block(start, count);
    const auto& q_block = q.block(start, count);
    const auto scaled_p = a * p_block.template cast<double>();
    const auto scaled_q = b * q_block.template cast<double>();
    mass += (scaled_p.min(scaled_q) + 0 * (scaled_p + scaled_q)).sum();
  }
  return mass;
}

/// Σ min(a·p, b·q) over the tokens that both vocabularies hold.
template <Distribution P, Distribution Q>
double scaled_overlap(double a, const P& p, double b, const Q& q) {
  const Index common = std::min<Index>(p.vocab_size(), q.vocab_size());
  if constexpr (SparseRowLike<P>) {
    return sparse_overlap(a, p, b, q);
  } else if constexpr (SparseRowLike<Q>) {
    return sparse_overlap(b, q, a, p);
  } else if constexpr (BlockRow<P> && BlockRow<Q>) {
    return dense_overlap(a, p, b, q, common);
  } else {
    double mass = 0;
    for (Index x = 0; x < common; ++x) {
      const auto token = static_cast<Token>(x);
      mass += least(a * p.probability(token), b * q.probability(token));
    }
    return mass;
  }
}

}  // namespace detail

/// The acceptance at a prefix of token verification with lenience l, Σ min(p/l, q): the probability that a
/// token drawn from q is accepted. Its mean over prefixes is the lenient acceptance rate.
///
/// Source: Leviathan et al., arXiv:2211.17192, App. A.5; l = 1 is overlap().
/// Throws: std::invalid_argument unless 0 < lenience <= 1 and 1/lenience is finite; InvalidDistribution where
/// the sum is no finite number.
/// Cost: one fused pass over both rows where both hand out blocks; where one is sparse, a look-up in the other
/// for each token that it lists; else one look-up each per token. Numeric: minima and sums in double.
template <Distribution P, Distribution Q>
double lenient_overlap(const P& p, const Q& q, double lenience) {
  if (!(lenience > 0 && lenience <= 1 && std::isfinite(1 / lenience)))
    detail::invalid_argument("lenience = ", lenience, " is outside (0, 1]");
  const double mass = detail::scaled_overlap(1 / lenience, p, 1.0, q);
  if (!std::isfinite(mass))
    throw InvalidDistribution(detail::message("the overlap of target and draft sums to ", mass));
  return mass;
}

/// The acceptance at a prefix, β = Σ min(p, q): the probability that token verification accepts a token drawn
/// from q. Its mean over prefixes is the acceptance rate α.
///
/// Source: Leviathan et al., Definition 3.1 and Theorem 3.5. Symmetric in p and q; vocabularies of different
/// sizes overlap in what they share. Throws, cost, numeric: as lenient_overlap.
template <Distribution P, Distribution Q>
double overlap(const P& p, const Q& q) {
  return lenient_overlap(p, q, 1.0);
}

/// The distance D_LK(p, q) = Σ |p − (p + q)/2| = Σ (p − q)+ of two rows that sum to 1, their total variation:
/// 1 − β, and told exactly where it is small.
///
/// Source: Leviathan et al., Definition 3.2 and Lemma 3.3. Throws: InvalidDistribution where the sum is no
/// finite number. Cost, numeric: as residual_mass.
template <Distribution P, Distribution Q>
double total_variation(const P& p, const Q& q) {
  return residual_mass(1.0, p, 1.0, q);
}

}  // namespace specdec

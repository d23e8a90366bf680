// The overlap of two rows: the acceptance of a drafted token at one prefix.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>

#include "specdec/error.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/residual.hpp"
#include "specdec/rows/read/segments.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// min(a·p, b·q), to be summed over rows.
struct OverlapOf {
  double a, b;

  // NaN if p or q is NaN.
  SPECDEC_KERNEL double operator()(double p, double q) const {
    SPECDEC_UNFUSED
    const double scaled_p = a * p, scaled_q = b * q;
    const double least = scaled_p < scaled_q ? scaled_p : scaled_q;
    return scaled_p != scaled_p ? scaled_p : least;
  }

  double alone(const auto&, Index, Index) const { return 0; }
};

}  // namespace detail

/// The acceptance of token verification with lenience l at one prefix, Σ min(p/l, q): the probability that a token drawn
/// from q is accepted. Its mean over prefixes is the lenient acceptance rate.
/// Source: Leviathan et al., arXiv:2211.17192, App. A.5; l = 1 is overlap().
/// Throws: InvalidArgument unless 0 < lenience <= 1 and 1/lenience is finite; InvalidDistribution if the sum is not finite.
/// Cost: if one row has a list, a look-up in the other row for each token on it. If both rows have segments, one fused pass
/// over both. Else one look-up in each row per token.
/// Numeric: minima and sums in double.
template <Distribution P, Distribution Q>
double lenient_overlap(const P& p, const Q& q, double lenience) {
  if (!(lenience > 0 && lenience <= 1 && std::isfinite(1 / lenience)))
    detail::invalid_argument("lenience = ", lenience, " is outside (0, 1]");
  return detail::in_name_of(p, [&] {
    const double mass = detail::sum_over(detail::OverlapOf{1 / lenience, 1.0}, p, q, 0,
                                         std::min<Index>(p.vocab_size(), q.vocab_size()));
    if (!std::isfinite(mass)) detail::invalid_distribution("the overlap of target and draft sums to ", mass);
    return mass;
  });
}

namespace detail {

// Rules find it by the namespace of the rows of a Drafted.
using specdec::lenient_overlap;

}  // namespace detail

/// The acceptance at one prefix, β = Σ min(p, q): the probability that token verification accepts a token drawn from q. Its
/// mean over prefixes is the acceptance rate α.
///
/// Symmetric in p and q. If the vocabularies differ in size, only the tokens that both have count.
/// Source: Leviathan et al., Definition 3.1 and Theorem 3.5.
/// Throws: InvalidDistribution if the sum is not finite.
/// Cost: at most a pass over both rows.
template <Distribution P, Distribution Q>
double overlap(const P& p, const Q& q) {
  return lenient_overlap(p, q, 1.0);
}

/// The total variation of two rows that sum to 1: D_LK(p, q) = Σ |p − (p + q)/2| = Σ (p − q)+ = 1 − β.
/// Source: Leviathan et al., Definition 3.2 and Lemma 3.3.
/// Throws: InvalidDistribution if the sum is not finite.
/// Cost: at most a pass over both rows.
/// Numeric: summed directly, so a small distance is exact, too.
template <Distribution P, Distribution Q>
double total_variation(const P& p, const Q& q) {
  return residual_mass(1.0, p, 1.0, q);
}

}  // namespace specdec

// How often keyed draws from two rows give the same token.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/each_segment.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

inline double checked_probability(Token x, double value) {
  if (!is_probability(value)) invalid_distribution("the probability of token ", x, " is ", value);
  return value;
}

}  // namespace detail

/// The probability that keyed draws from p and from q, with equal random numbers (see Keyed), give the same token:
///
///   Σ_x 1/Σ_y max(p(y)/p(x), q(y)/q(x))
///
/// This is the acceptance of KeyedVerifier at a prefix. It is at least (1 − TV)/(1 + TV), with the total variation TV of p
/// and q. Token verification accepts 1 − TV = overlap(p, q). Independent draws agree with probability Σ p·q. Symmetric in p
/// and q; rows that do not sum to 1 are taken as normalised.
/// Source: Daliri, Musco and Suresh, arXiv:2408.07978.
/// Throws: InvalidDistribution if a number is no probability.
/// Cost: a pass over each row, or over its list if it has one, with a look-up in the other row for each token; O(n log n) to
/// sort the n common tokens by p/q; two allocations. After the sort, the inner sum takes p for the tokens y from x on, and q
/// for the tokens before x.
/// Numeric: in double.
template <Distribution P, Distribution Q>
double keyed_agreement(const P& p, const Q& q) {
  struct Both {
    double p, q;
  };
  using detail::checked_probability;
  std::vector<Both> common;
  double p_sum = 0, q_sum = 0, agreement = 0;  // the sums begin with the tokens that one row has alone
  detail::each_token(p, [&](Token x, double p_x) {
    const double q_x = checked_probability(x, probability(q, x));
    if (checked_probability(x, p_x) > 0 && q_x > 0) common.push_back({p_x, q_x});
    else p_sum += p_x;
  });
  detail::each_token(q, [&](Token x, double q_x) {
    if (checked_probability(x, probability(p, x)) == 0) q_sum += checked_probability(x, q_x);
  });
  std::ranges::sort(common, {}, [](const Both& x) { return x.p / x.q; });
  // Sums from both ends. A subtraction would keep the total's rounding error, which matters if the rest is small.
  std::vector<double> p_from(common.size());
  for (auto k = common.size(); k-- > 0;) p_from[k] = p_sum += common[k].p;
  for (std::size_t k = 0; k < common.size(); ++k) {
    agreement += 1 / (p_from[k] / common[k].p + q_sum / common[k].q);
    q_sum += common[k].q;
  }
  return agreement;
}

}  // namespace specdec

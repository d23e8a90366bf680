// How often a drafted token can be accepted at one place of a text, by the two rows there: with keyed draws, and at most.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
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

/// The largest probability with which a lossless rule can accept one of n tokens that were drawn independently from q: at one
/// place of a text, whatever the rule does. For one token it is Σ min(p, q), which every rule of the library reaches.
///
/// Source: Hu et al., "Towards Optimal Multi-Draft Speculative Decoding", ICLR 2025, arXiv:2502.18779: 1 + min over sets A of
/// p(A) − q(A)^n, as a token of A is accepted with probability p(A) at most, and all candidates are in A with q(A)^n. The best
/// sets are the tokens of least p/q.
/// Units: probabilities.
/// Throws: InvalidArgument if n is negative; InvalidDistribution if a number is no probability.
/// Cost: a pass over the row q, or over its list if it has one, with a look-up in p for each token; O(k log k) to sort the k
/// tokens by p/q; an allocation.
template <Distribution P, Distribution Q>
double most_accepted(const P& p, const Q& q, Index n) {
  if (n < 0) detail::invalid_argument("n = ", n, " is negative");
  struct Both {
    double p, q;
  };
  std::vector<Both> drawn;
  detail::each_token(q, [&](Token x, double q_x) {
    if (detail::checked_probability(x, q_x) > 0)
      drawn.push_back({detail::checked_probability(x, probability(p, x)), q_x});
  });
  std::ranges::sort(drawn, {}, [](const Both& x) { return x.p / x.q; });
  double accepted = n > 0 ? 1 : 0, target = 0, draft = 0;
  for (const Both& x : drawn) {
    target += x.p;
    draft += x.q;
    accepted = std::min(accepted, 1 + target - std::pow(draft, static_cast<double>(n)));
  }
  return accepted;
}

}  // namespace specdec

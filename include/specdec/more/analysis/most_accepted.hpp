// How often one of several candidates can be accepted at all.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/more/analysis/keyed_agreement.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/each_segment.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The largest probability with which a lossless rule can accept one of n tokens that were drawn independently from q: at one place
/// of a text, whatever the rule does. For one token it is Σ min(p, q), which every rule of the library reaches.
///
/// Source: Hu et al., "Towards Optimal Multi-Draft Speculative Decoding", ICLR 2025, arXiv:2502.18779: 1 + min over sets A of
/// p(A) − q(A)^n, as a token of A is accepted with probability p(A) at most, and all candidates are in A with q(A)^n. The best sets
/// are the tokens of least p/q.
/// Units: probabilities.
/// Throws: InvalidArgument if n is negative; InvalidDistribution if a number is no probability.
/// Cost: a pass over the row q, or over its list if it has one, with a look-up in p for each token; O(k log k) to sort the k tokens
/// by p/q; an allocation.
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

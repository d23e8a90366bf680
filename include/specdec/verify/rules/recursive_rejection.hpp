// Recursive rejection: tries siblings one after the other, and goes on below the first one that is accepted.
// Source: Miao et al., "SpecInfer", arXiv:2305.09781, Alg. 2; Yang et al., "Multi-Candidate Speculative Decoding", 2401.06706.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/chance/race_rounds.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/verify/rules/callable.hpp"
#include "specdec/verify/rules/sibling_residuals.hpp"

namespace specdec::inline v0_2_0 {

/// Recursive rejection. Lossless; accepts no more than traversal verification in expectation. On a line: token verification.
/// Source: SpecInfer, Alg. 2. At a node, t is first the target's row. Each child x in turn is accepted with probability
/// min(1, t(x)/q(x)); if it is rejected, t ← (t − q)+ normalised. The rule goes on at the accepted child. If all children
/// are rejected, Y ~ t. For the last child, a race of weight 1 (race.hpp) replaces the residual.
/// Shapes: see verify.
/// Throws: see verify.
/// Units: probabilities.
/// Random: a coin for each child that is judged, then a race or, at a leaf, a draw.
/// Cost: a look-up of p and q for each token that is judged, and of its elder siblings' q; one race or draw. For some
/// rejected tokens also a pass: see TraversalVerifier. No allocation (γ <= 64).
/// Numeric: where rounding leaves nothing of t, Y ~ p.
struct RecursiveRejectionVerifier : detail::Callable<RecursiveRejectionVerifier, TokenIds> {
  constexpr NodeVerdict judge(const auto& drafted, auto& chance) const {
    detail::SiblingResiduals rest(drafted);
    rest.enter(0);
    Index node = 0, k = drafted.first_child(node);
    while (k >= 0) {
      if (chance.coin(detail::bounded(rest.probability(k) / drafted.q(k)))) {
        node = k + 1;
        rest.enter(node);
        k = drafted.first_child(node);
        continue;
      }
      const Index next = drafted.next_sibling(k);
      if (next < 0) return {node, *rest.race(chance, 1.0, k)};
      if (rest.reject(k, 1.0) == 0) break;
      k = next;
    }
    return {node, drafted.draw(chance, node)};
  }
};

}  // namespace specdec

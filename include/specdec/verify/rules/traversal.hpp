// Traversal verification: judges a tree of drafted tokens from its leaves to its root.
// Source: Weng et al., "Traversal Verification for Speculative Tree Decoding", arXiv:2505.12398, Algorithm 2.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/token_ids.hpp"
#include "specdec/verify/rules/callable.hpp"
#include "specdec/verify/rules/sibling_residuals.hpp"

namespace specdec::inline v0_2_0 {

/// Traversal verification, the best known rule for trees. Lossless. On a line it gives the verdict of block verification, if
/// the random numbers are equal.
/// Source: arXiv:2505.12398. Let t be the residual of a node's target row after the rejection of children. The root has
/// weight w = 1. A child x, drawn from q given its elder siblings, has weight min(1, w·t(x)/q(x)). The rule goes depth
/// first. A leaf is accepted with probability w, with Y ~ p. When child x has lost, t ← (w·t − q)+/S and w ← S/(S + 1 − w).
/// When all children have lost, their node is accepted with probability w, with Y ~ t. For the last child, one race of
/// weight w between t and q (race.hpp) does both: the update, and the decision on the node. So a line needs no sum.
/// Shapes: see verify.
/// Throws: see verify.
/// Units: probabilities.
/// Random: one race at a time, at a leaf or at an inner node after all its children have lost, until a race is won.
/// Cost: a look-up of p and q for each token reached, and of its elder siblings' q; a draw for each race. A rejected token
/// that was drawn and has a younger sibling takes a pass over the target's row and the rows of the rejected siblings: j
/// rejected siblings take j passes, over up to j + 1 rows each. A chosen token (q = 1) takes a pass only if less than 1/64
/// of the row is left. No allocation (γ <= 64).
/// Numeric: where rounding leaves S = 0 at w = 1, Y ~ p. A q that was rounded to 1 counts as one-hot.
struct TraversalVerifier : detail::Callable<TraversalVerifier, TokenIds> {
  constexpr NodeVerdict judge(const auto& drafted, auto& chance) const {
    detail::SiblingResiduals rest(drafted);
    auto w = drafted.scratch();
    const auto enter = [&](Index k) {
      const Index above = drafted.parent(k) + 1;
      w[k + 1] = std::min(1.0, w[above] * (rest.probability(k) / drafted.q(k)));
      rest.enter(k + 1);
      return k + 1;
    };
    w[0] = 1;
    rest.enter(0);
    for (Index node = 0;;) {
      while (w[node] > 0 && drafted.first_child(node) >= 0) node = enter(drafted.first_child(node));
      if (w[node] > 0)
        if (const auto y = chance.race(w[node], drafted.target(node))) return {node, *y};  // a leaf
      for (Index next = -1; next < 0;) {  // the node has lost: go up until a sibling is left
        const Index k = node - 1, above = drafted.parent(k) + 1;
        next = drafted.next_sibling(k);
        if (next < 0) {
          if (const auto y = rest.race(chance, w[above], k)) return {above, *y};
        } else {
          const double mass = rest.reject(k, w[above]), lost = 1 - w[above];
          if (mass == 0 && lost == 0) return {above, drafted.draw(chance, above)};
          w[above] = mass / (mass + lost);
          if (w[above] == 0) next = -1;
        }
        node = next < 0 ? above : enter(next);
      }
    }
  }
};

}  // namespace specdec

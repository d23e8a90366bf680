// Traversal verification: the tree of drafted tokens is judged from its leaves to its root.
// Source: Weng et al., "Traversal Verification for Speculative Tree Decoding", arXiv:2505.12398, Algorithm 2.
#pragma once

#include <algorithm>

#include "specdec/rows/scratch.hpp"
#include "specdec/verify/sibling_residual.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// Traversal verification, the best rule for trees that is known: block verification where nothing branches. Lossless.
///
/// Source: arXiv:2505.12398. The root has the weight w = 1, and a child x of a node, drawn from q given its elder
/// siblings, has min(1, w·t(x)/q(x)), t being what the rejected siblings have left of the target's row. Depth first: a
/// leaf is won with probability w by Y ~ p; when child x has lost, t ← (w·t − q)+/S and w ← S/(S + 1 − w); when all
/// have, the node is won with probability w by Y ~ t. The last child's update and the node's own chance are one
/// race of weight w between t and q (race.hpp), so a linear draft takes no sum, and gets the very verdict of block
/// verification from the same source.
/// Shapes, Throws: see verify. Units: probabilities.
/// Random: a race at each leaf and at each inner node whose children have all lost, until one is won.
/// Cost: a look-up of p and q for each token that is come to, and of its elder siblings' q; a draw for each race; and a
/// pass over the target's row and the rows of the rejected siblings for each rejected token that was drawn and has a
/// younger sibling, so that siblings of which j are rejected take j passes, over up to j + 1 rows each. Chosen tokens
/// (q = 1) take no pass, until they leave less than 1/64 of the row. No allocation (γ <= 64).
/// Numeric: where rounding leaves S = 0 at w = 1, Y ~ p. A q that was rounded to 1 is taken for one-hot.
struct TraversalVerifier : detail::Callable<TraversalVerifier> {
  NodeVerdict judge(const auto& drafted, auto& chance) const {
    detail::SiblingResiduals rest(drafted);
    detail::Scratch w(drafted.gamma() + 1);
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
        if (const auto y = race(drafted, chance, w[node], node)) return {node, *y};
      for (Index next = -1; next < 0;) {  // the node has lost: up, to where a sibling is left
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

  friend bool operator==(const TraversalVerifier&, const TraversalVerifier&) = default;

 private:
  // Of a leaf.
  static std::optional<Token> race(const auto& drafted, auto& chance, double w, Index leaf) {
    const auto p = drafted.target(leaf);
    return p.named([&] { return chance.race(w, p); });
  }
};

}  // namespace specdec

// The residual of a node's target row after the rejection of elder siblings.
//
// A rule for trees judges the children of a node in turn. Each rejection turns the target into a residual:
// t ← (w·t − q)+/S. Since (max(a, 0) − b)+ = (a − b)+ for b >= 0, all rejections together give one row:
//
//     t = (p − Σ_k b_k·q_k)+ / M,        b_k = M/w and then M ← Σ (p − ...)+ at the rejection of child k
//
// So no row is rewritten: only a coefficient for each rejected token and a mass for each node are stored. The rejection of a
// chosen child (q = 1) removes that token only: M ← M·(1 − t(x)), without a pass. If little mass is left, M would be mostly
// rounding error, perhaps positive where no mass is left. M is then summed again.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "specdec/chance/race_rounds.hpp"
#include "specdec/rows/read/little_left.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The residual target rows of all nodes of a drafted tree, while a rule rejects its tokens.
template <class D>
class SiblingResiduals {
 public:
  constexpr explicit SiblingResiduals(const D& drafted)
      : drafted_(drafted), b_(drafted.scratch()), mass_(drafted.scratch()) {}

  /// Call before the children of the node are judged.
  constexpr void enter(Index node) { mass_[node] = 1; }

  /// t(x) of token k, the next of its siblings to be judged.
  constexpr double probability(Index k) const {
    return eldest(k) ? drafted_.p(k) : left(k) / mass_[drafted_.parent(k) + 1];
  }

  /// Rejects token k at a node of weight w: t ← (w·t − q)+/S. Returns S.
  constexpr double reject(Index k, double w) {
    const Index node = drafted_.parent(k) + 1;
    const double before = mass_[node];
    const bool chosen = drafted_.q(k) == 1;
    const double others = chosen ? before - probability(k) * before : 0;
    b_[k] = chosen ? all_of_it : bounded(before / w);
    if (others > little_left) {
      mass_[node] = others;
    } else {
      // Where this does not compile: include <specdec/verify/verifier.hpp>
      mass_[node] = residual(drafted_, node, siblings(node, k + 1)).mass();
      // A dead end, a row that sums to 0, keeps its mass: no drafted token has any of it.
      if (mass_[node] == 0 && drafted_.residual(node, 0.0, k).mass() == 0) mass_[node] = before;
    }
    return w * (mass_[node] / before);
  }

  /// The race of weight w between the residual and the row of the last child k. It rejects k and decides its node at once.
  template <class Chance>
  constexpr std::optional<Token> race(Chance& chance, double w, Index k) const {
    const Index node = drafted_.parent(k) + 1;
    if (eldest(k)) {
      const auto p = drafted_.target(node);
      return chance.race(w, p, drafted_.draft(k));
    }
    const auto t = residual(drafted_, node, siblings(node, k), mass_[node]);
    return chance.race(w, t, drafted_.draft(k));
  }

 private:
  using Numbers = decltype(std::declval<const D&>().scratch());

  constexpr bool eldest(Index k) const { return drafted_.first_child(drafted_.parent(k) + 1) == k; }

  // What the children of a node before token `end` take away from its target row. residual(drafted, node, siblings) is found by the
  // namespace of the draft: a program that calls a rule includes specdec/verify/verifier.hpp.
  constexpr auto siblings(Index node, Index end) const {
    return [this, node, end](const auto& take) {
      for (Index j = drafted_.first_child(node); j >= 0 && j < end; j = drafted_.next_sibling(j))
        take(b_[j], j);
    };
  }

  // (p − Σ b·q)+ of token k, summed over its elder siblings.
  constexpr double left(Index k) const {
    const Token x = drafted_.token(k);
    double taken = 0;
    siblings(drafted_.parent(k) + 1, k)([&](double b, Index j) {
      if (b != all_of_it) taken += b * drafted_.q(j, x);
      else if (drafted_.token(j) == x) taken = b;
    });
    return std::max(drafted_.p(k) - taken, 0.0);
  }

  const D& drafted_;
  Numbers b_;     // of rejected tokens
  Numbers mass_;  // M, of nodes
};

}  // namespace specdec::detail

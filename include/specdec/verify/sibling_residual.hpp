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

#include <optional>

#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/rows/read/remainder.hpp"
#include "specdec/rows/scratch.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"

namespace specdec::inline v0_2_0::detail {

/// The rows and coefficients of a node's rejected children, up to child `last`. Refers to its arguments.
template <class D>
class RejectedSiblings {
 public:
  RejectedSiblings(const D& drafted, const Scratch& coefficients, Index node, Index last)
      : drafted_(&drafted), b_(&coefficients), node_(node), last_(last) {}

  template <class Visit>
  void each(const Visit& visit) const {
    for (Index k = drafted_->first_child(node_); k >= 0 && k <= last_; k = drafted_->next_sibling(k)) {
      if ((*b_)[k] == all_of_it) visit(all_of_it, OneHotRow(drafted_->token(k)));
      else visit((*b_)[k], drafted_->draft(k));
    }
  }

 private:
  const D* drafted_;
  const Scratch* b_;
  Index node_, last_;
};

/// The residual target rows of all nodes of a drafted tree, while a rule rejects its tokens.
template <class D>
class SiblingResiduals {
 public:
  explicit SiblingResiduals(const D& drafted)
      : drafted_(drafted), b_(drafted.gamma()), mass_(drafted.gamma() + 1) {}

  /// Call before the children of the node are judged.
  void enter(Index node) { mass_[node] = 1; }

  /// t(x) of token k, the next of its siblings to be judged.
  double probability(Index k) const {
    const Index node = drafted_.parent(k) + 1;
    if (eldest(k)) return drafted_.p(k);
    return row(node, k - 1).left(drafted_.token(k), drafted_.p(k)) / mass_[node];
  }

  /// Rejects token k at a node of weight w: t ← (w·t − q)+/S. Returns S.
  double reject(Index k, double w) {
    const Index node = drafted_.parent(k) + 1;
    const double before = mass_[node];
    const bool chosen = drafted_.q(k) == 1;
    const double others = chosen ? before - probability(k) * before : 0;
    b_[k] = chosen ? all_of_it : bounded(before / w);
    if (others > little_left) {
      mass_[node] = others;
    } else {
      const auto p = drafted_.target(node);
      mass_[node] = row(node, k).left();
      // A dead end keeps its mass: no drafted token has any of it.
      if (mass_[node] == 0 && is_dead_end(p)) mass_[node] = before;
    }
    return w * (mass_[node] / before);
  }

  /// The race of weight w between the residual and the row of the last child k. It rejects k and decides its node at once.
  template <class Chance>
  std::optional<Token> race(Chance& chance, double w, Index k) const {
    const Index node = drafted_.parent(k) + 1;
    const auto p = drafted_.target(node);
    const auto q = drafted_.draft(k);
    return eldest(k) ? chance.race(w, p, q) : chance.race(w, row(node, k - 1), q);
  }

 private:
  bool eldest(Index k) const { return drafted_.first_child(drafted_.parent(k) + 1) == k; }
  // The row t of a node after the rejection of its children up to `last`.
  auto row(Index node, Index last) const {
    const RejectedSiblings<D> rejected(drafted_, b_, node, last);
    return RoughRemainder(drafted_.target(node), rejected, mass_[node]);
  }

  const D& drafted_;
  Scratch b_;     // of rejected tokens
  Scratch mass_;  // M, of nodes
};

}  // namespace specdec::detail

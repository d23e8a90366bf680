// The branches of a tree of tokens, one after another.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Visits the ends of a tree's branches, depth first: tokens that two branches share are walked once.
class DepthFirst {
 public:
  /// Makes room for a tree of `tokens` tokens.
  void reserve(std::size_t tokens) {
    first_.reserve(tokens + 1);
    next_.reserve(tokens);
  }

  /// Calls visit(end) for the end of each branch to one of the last `wanted` tokens. Allocates nothing within the reserve.
  template <class Visit>
  void operator()(TokenTreeView tree, Index wanted, const Visit& visit) {
    const Index unwanted = tree.size() - wanted;
    next_.resize(static_cast<std::size_t>(tree.size()));
    first_.resize(next_.size() + 1);
    link_children(tree, tree.size(), first_.data(), next_.data(), [=](Index k) { return k >= unwanted; });
    for (Index token = -1;;) {
      while (child(token) >= 0) token = child(token);
      visit(token);
      token = back_while(tree, token, [this](Index k) { return sibling(k) < 0; });
      if (token < 0) return;
      token = sibling(token);
    }
  }

 private:
  Index child(Index token) const { return first_[static_cast<std::size_t>(token + 1)]; }
  Index sibling(Index token) const { return next_[static_cast<std::size_t>(token)]; }

  std::vector<Index> first_;  // the first child of the context, and of every token
  std::vector<Index> next_;   // the next sibling
};

}  // namespace specdec::detail

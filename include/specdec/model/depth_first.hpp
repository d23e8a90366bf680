// The branches of a tree of tokens, one after another.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Visits the ends of a tree's branches, depth first: tokens that two branches share are walked once.
class DepthFirst {
 public:
  /// Makes room for a tree of `tokens` tokens.
  void reserve(std::size_t tokens) {
    first_.reserve(tokens + 1);
    next_.reserve(tokens);
  }

  /// Calls visit(end) for the end of each branch that leads to one of the last `wanted` tokens, and skips the others.
  /// Allocates nothing within the reserve.
  template <class Visit>
  void operator()(std::span<const Index> parents, Index wanted, const Visit& visit) {
    link(parents, wanted);
    for (Index token = -1;;) {
      while (child(token) >= 0) token = child(token);
      visit(token);
      while (token >= 0 && sibling(token) < 0) token = at(parents, token);
      if (token < 0) return;
      token = sibling(token);
    }
  }

 private:
  // Goes from the last token to the first. So a token's children come before it, and whether one of them is wanted is known.
  void link(std::span<const Index> parents, Index wanted) {
    const Index size = std::ssize(parents);
    first_.assign(parents.size() + 1, -1);
    next_.assign(parents.size(), -1);
    for (Index token = size - 1; token >= 0; --token) {
      if (token < size - wanted && child(token) < 0) continue;
      const Index parent = at(parents, token);
      at(next_, token) = child(parent);
      at(first_, parent + 1) = token;
    }
  }

  Index child(Index token) const { return at(first_, token + 1); }
  Index sibling(Index token) const { return at(next_, token); }

  std::vector<Index> first_;  // the first child of the context, and of every token
  std::vector<Index> next_;   // the next sibling
};

}  // namespace specdec::detail

// The parents, children and siblings of the tokens of a draft, and the rows that belong to each token.
//
// Node i belongs to target row i: node 0 is the context, node k + 1 stands after token k. A token is a child of the node
// that it follows. Siblings are judged in the order of their numbers.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/parents.hpp"
#include "specdec/rows/scratch.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

// Each class here offers
//
//   gamma()             how many tokens it has
//   judged_by(i)        the target row that judges token i
//   depth(i)            how many drafted tokens stand before row i
//   parent(k), first_child(node), next_sibling(k)

/// A linear draft: token k follows token k − 1; token 0 follows the context.
class LineLinks {
 public:
  static constexpr bool linear = true;

  explicit LineLinks(Index tokens) : tokens_(tokens) {}
  Index gamma() const { return tokens_; }
  Index judged_by(Index i) const { return i; }
  Index depth(Index i) const { return i; }
  Index parent(Index k) const { return k - 1; }
  Index first_child(Index node) const { return node < tokens_ ? node : -1; }
  Index next_sibling(Index) const { return -1; }

 private:
  Index tokens_;
};

/// A tree: token k follows token parents[k], or the context if parents[k] = −1.
/// Throws: InvalidArgument if the number of parents is wrong, or if a parent is not before its child.
/// Cost: O(tokens); no allocation for up to 64 tokens.
class TreeLinks {
 public:
  static constexpr bool linear = false;

  TreeLinks(TokenIds parents, Index tokens)
      : parents_(compared(parents, tokens)), first_child_(tokens + 1), next_sibling_(tokens) {
    for (Index k = 0; k < tokens; ++k) check_parent(k, parents_[k]);
    link_children(*this, tokens, first_child_.data(), next_sibling_.data(), [](Index) { return true; });
  }

  Index gamma() const { return parents_.size(); }
  Index judged_by(Index i) const { return parent(i) + 1; }
  Index depth(Index i) const {
    Index depth = 0;
    each_back(*this, i - 1, [&](Index) { ++depth; });
    return depth;
  }
  Index parent(Index k) const { return as_type<Index>(parents_[k]); }
  Index first_child(Index node) const { return first_child_[node]; }
  Index next_sibling(Index k) const { return next_sibling_[k]; }

 private:
  // Before there is memory for all tokens: what is wrong may be their number.
  static TokenIds compared(TokenIds parents, Index tokens) {
    check_parent_count(parents.size(), tokens);
    return parents;
  }

  TokenIds parents_;
  ScratchOf<Index> first_child_, next_sibling_;
};

}  // namespace specdec::detail

// Who follows whom in a draft.
//
// Nodes are numbered as the target's rows are: 0 is the context, k + 1 stands behind token k. A token is a child of the
// node it follows; siblings are judged in the order of their numbers.
#pragma once

#include "specdec/parents.hpp"
#include "specdec/rows/scratch.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// A linear draft: token k follows token k − 1, the first one the context.
class Line {
 public:
  explicit Line(Index tokens) : tokens_(tokens) {}
  Index parent(Index k) const { return k - 1; }
  Index first_child(Index node) const { return node < tokens_ ? node : -1; }
  Index next_sibling(Index) const { return -1; }

 private:
  Index tokens_;
};

/// A tree: token k follows token parents[k], or the context where that is −1.
///
/// Throws std::invalid_argument where there is not one parent a token, and where one is not before its child.
/// Cost: O(tokens); no allocation for up to 64 tokens.
class Branches {
 public:
  Branches(TokenIds parents, Index tokens)
      : parents_(parents), first_child_(tokens + 1), next_sibling_(tokens) {
    check(tokens);
    for (Index node = 0; node <= tokens; ++node) first_child_[node] = -1;
    for (Index k = tokens - 1; k >= 0; --k) {  // so that the eldest comes first
      next_sibling_[k] = first_child_[parent(k) + 1];
      first_child_[parent(k) + 1] = k;
    }
  }

  Index parent(Index k) const { return static_cast<Index>(parents_[k]); }
  Index first_child(Index node) const { return first_child_[node]; }
  Index next_sibling(Index k) const { return next_sibling_[k]; }

 private:
  void check(Index tokens) const {
    check_parent_count(parents_.size(), tokens);
    for (Index k = 0; k < tokens; ++k) check_parent(k, parents_[k]);
  }

  TokenIds parents_;
  ScratchOf<Index> first_child_, next_sibling_;
};

}  // namespace specdec::detail

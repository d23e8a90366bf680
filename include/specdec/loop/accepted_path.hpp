// The tokens of a draft that a verdict accepts, and their siblings.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The path from the context to the node where a rule stopped.
/// Cost: no allocation after reserve().
class AcceptedPath {
 public:
  /// Makes room for a draft of this many tokens.
  void reserve(Index tokens) {
    detail::reserve(numbers_, tokens);
    detail::reserve(tokens_, tokens);
    detail::reserve(ranks_, tokens);
    detail::reserve(offered_, tokens + 1);
    detail::reserve(children_, tokens);
  }

  /// Sets the path to `node`. Node 0 is the context, node k + 1 stands after token k.
  void set(TokenTreeView draft, Index node) {
    draft.path_to(node - 1, numbers_);
    tokens_.clear();
    for (const Index k : numbers_) tokens_.push_back(draft.token(k));
  }

  /// Finds the children of the path's nodes in the draft that the path was set in.
  void find_children(TokenTreeView draft) {
    ranks_.clear();
    offered_.clear();
    children_.clear();
    for (std::size_t i = 0; i <= numbers_.size(); ++i) add_children(draft, i);
  }

  /// The accepted tokens: their numbers in the draft, and the tokens.
  std::span<const Index> numbers() const { return view_of(numbers_); }
  std::span<const Token> tokens() const { return view_of(tokens_); }
  /// What find_children() has found. ranks(): how many elder siblings each accepted token has. offered(): how many children
  /// each node of the path has, from the context to the last node. children(): the numbers of all these children, node after
  /// node.
  std::span<const Index> ranks() const { return view_of(ranks_); }
  std::span<const Index> offered() const { return view_of(offered_); }
  std::span<const Index> children() const { return view_of(children_); }

 private:
  // Adds the children of the i-th node of the path, from the context on.
  void add_children(TokenTreeView draft, std::size_t i) {
    const Index node = i == 0 ? -1 : numbers_[i - 1];
    const std::size_t before = children_.size();
    for (Index k = draft.next_child(node, node); k >= 0; k = draft.next_child(node, k)) {
      if (i < numbers_.size() && k == numbers_[i])
        ranks_.push_back(static_cast<Index>(children_.size() - before));
      children_.push_back(k);
    }
    offered_.push_back(static_cast<Index>(children_.size() - before));
  }

  std::vector<Index> numbers_, ranks_, offered_, children_;
  std::vector<Token> tokens_;
};

}  // namespace specdec::detail

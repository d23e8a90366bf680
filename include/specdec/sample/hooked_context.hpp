// The tokens that a model was fed, kept for a hook that sees the context.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/wrapped_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The tokens of a model's context and of the open tree after it: a Text of FedTexts.
class HookedContext {
 public:
  Index length() const { return length_; }
  WrappedTree& tree() { return tree_; }

  void add(std::span<const Token> tokens) {
    resize(tokens_, length_);
    append(tokens_, tokens);
    length_ += static_cast<Index>(tokens.size());
  }

  void add(std::span<const Token> tokens, std::span<const Index> parents) {
    check_parents(tokens, parents, tree_.size());
    tree_.reserve(tokens.size());
    tokens_.reserve(static_cast<std::size_t>(length_ + tree_.size()) +
                    tokens.size());  // room for any path, and for keep()
    tree_.append(tokens, parents);
  }

  /// All tokens before the i-th of the last `rows` rows. They live until the next call.
  std::span<const Token> before(Index i, Index rows) & {
    if (tree_.empty()) return view_of(tokens_).first(static_cast<std::size_t>(length_ - rows + 1 + i));
    tokens_.resize(static_cast<std::size_t>(length_));
    each_back(tree_, tree_.size() - rows + i, [&](Index node) { tokens_.push_back(tree_.token(node)); });
    std::reverse(tokens_.begin() + length_, tokens_.end());
    return view_of(tokens_);
  }

  void keep(std::span<const Index> path) {
    resize(tokens_, length_);
    for (const Index node : path) tokens_.push_back(tree_.token(node));
    length_ += static_cast<Index>(path.size());
    tree_.clear();
  }

  void forget_from(Index node) { tree_.forget_from(node); }

  void truncate(Index length) {
    length_ = std::clamp<Index>(length, 0, length_);
    tree_.clear();
  }

 private:
  std::vector<Token> tokens_;  // the context, and sometimes a way through the tree after it
  Index length_ = 0;
  WrappedTree tree_;
};

}  // namespace specdec::detail

// What a model has been fed, kept for a hook that sees the context.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "specdec/model/trees.hpp"
#include "specdec/model/wrapped_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The tokens of a model's context, and the tree that is open behind them.
class HookedContext {
 public:
  Index length() const { return length_; }
  Index tree_size() const { return tree_.size(); }

  /// Takes a line in, where no tree is open. After a throw nothing has changed.
  void add(std::span<const Token> tokens) {
    tokens_.resize(static_cast<std::size_t>(length_));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    length_ += static_cast<Index>(tokens.size());
  }

  /// Takes in tokens of a tree. The model has them once it is said to have taken as many.
  /// Throws: std::invalid_argument on parents that make no tree. After a throw nothing has changed.
  void add(std::span<const Token> tokens, std::span<const Index> parents) {
    check_parents(tokens, parents, tree_.size());
    tree_.reserve(tokens.size());
    tokens_.reserve(static_cast<std::size_t>(length_ + tree_.size()) +
                    tokens.size());  // for any way, and for keep()
    tree_.add(tokens, parents);
  }
  void taken(Index tokens) { tree_.taken(tokens); }

  /// The numbers by which the model knows tokens of the tree. They live until the next call.
  std::span<const Index> of_model(std::span<const Index> nodes) & { return tree_.of_model(nodes); }

  /// The tokens that the i-th of the last `rows` rows follows. They live until the next call.
  std::span<const Token> before(Index i, Index rows) & {
    if (tree_.empty())
      return std::span<const Token>(tokens_).first(static_cast<std::size_t>(length_ - rows + 1 + i));
    tokens_.resize(static_cast<std::size_t>(length_));
    for (Index node = tree_.size() - rows + i; node >= 0; node = tree_.parent(node))
      tokens_.push_back(tree_.token(node));
    std::ranges::reverse(std::span(tokens_).subspan(static_cast<std::size_t>(length_)));
    return tokens_;
  }

  void check_path(std::span<const Index> path) const { detail::check_path(path, tree_.parents()); }

  /// Makes a way of the tree part of the context, and forgets the rest of the tree.
  void keep(std::span<const Index> path) {
    tokens_.resize(static_cast<std::size_t>(length_));
    for (const Index node : path) tokens_.push_back(tree_.token(node));
    length_ += static_cast<Index>(path.size());
    tree_.clear();
  }

  /// Forgets the tree's tokens from a number on.
  void forget_from(Index node) { tree_.forget_from(node); }

  /// Forgets the tree, and all but the first `length` tokens.
  void truncate(Index length) {
    length_ = std::clamp<Index>(length, 0, length_);
    tree_.clear();
  }

 private:
  std::vector<Token> tokens_;  // behind the context's, maybe a way of the tree
  Index length_ = 0;
  WrappedTree tree_;
};

}  // namespace specdec::detail

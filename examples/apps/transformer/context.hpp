// The KV cache of a text, and its hidden states.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

#include "transformer/attention.hpp"
#include "transformer/error.hpp"
#include "transformer/shape.hpp"
#include "transformer/tree.hpp"

namespace transformer {

/// The keys and values of a text's tokens in all layers, and of a tree that may be open after the text.
class Context {
 public:
  /// A context without layers: it stays empty.
  Context() = default;
  explicit Context(const Shape& shape)
      : caches_(static_cast<std::size_t>(shape.n_layers), KeyValueCache(shape)) {}

  /// The number of tokens of the text, without an open tree.
  Index length() const { return length_; }
  const Tree& tree() const { return tree_; }
  KeyValueCache& cache(Index layer) { return caches_[static_cast<std::size_t>(layer)]; }

  /// Makes room for a hidden state of `size` numbers for each token.
  void remember_states(Index size, Index context_size) {
    states_ = Eigen::MatrixXf::Zero(size, context_size);
  }
  /// The hidden states of the last `count` tokens of the tree, one column for each.
  auto last_states(Index count) { return states_.middleCols(length_ + tree_.size() - count, count); }
  /// The hidden state of a token of the text, and of its last token.
  /// Pre: the text has the token.
  auto state(Index token) const { return states_.col(token); }
  auto state() const { return state(length_ - 1); }

  /// Throws: std::logic_error while a tree is open. The message begins with `words`.
  template <class... Words>
  void check_closed(const Words&... words) const {
    if (!tree_.empty())
      fail<std::logic_error>("transformer: ", words..., "a tree is open: keep() or truncate() closes it");
  }

  /// Makes room for `tokens` more tokens, so that adding them does not throw.
  void reserve(Index tokens) { tree_.reserve(tree_.size() + tokens); }

  /// Adds tokens to the tree. Their keys and values come later. A line is a tree that does not branch.
  void add(std::span<const Index> parents) {
    for (const Index parent : parents) tree_.add(parent);
  }
  void add_line(Index count) {
    for (Index i = 0; i < count; ++i) tree_.add(i - 1);
  }
  /// Makes the line that was added part of the text.
  void take_line() {
    length_ += tree_.size();
    tree_.clear();
  }
  /// Forgets the tree.
  void close() noexcept { tree_.clear(); }

  /// Makes a path of the tree part of the text, and forgets the rest of the tree. After a throw nothing has changed.
  /// Throws: std::invalid_argument unless the numbers are a path that begins at the text.
  void keep(std::span<const Index> path) {
    tree_.check_path(path);
    for (Index i = 0; i < std::ssize(path); ++i) {
      const Index token = path[static_cast<std::size_t>(i)];
      if (token == i) continue;  // it is in its slot; i is its depth, and its keys are rotated for that place
      for (KeyValueCache& cache : caches_) cache.copy(length_ + token, length_ + i);
      if (states_.size() > 0) states_.col(length_ + i) = states_.col(length_ + token);
    }
    length_ += std::ssize(path);
    tree_.clear();
  }

  /// Forgets an open tree, and keeps the first `length` tokens of the text, or all if it has fewer.
  /// Cost: O(1). The next tokens overwrite the keys and values that are left.
  void truncate(Index length) noexcept {
    tree_.clear();
    length_ = std::clamp<Index>(length, 0, length_);
  }

 private:
  std::vector<KeyValueCache> caches_;  // one for each layer
  Eigen::MatrixXf states_;             // a column for each slot; empty if states are not remembered
  Index length_ = 0;
  Tree tree_;  // after the text; the new tokens of a line are in it during a call
};

}  // namespace transformer

// The text in one context of a model, as far as a wrapper of the model knows it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/model/wrapped_tree.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Makes room for so many elements, and for twice as many if the list has to grow.
template <class T>
void reserve_ahead(std::vector<T>& list, Index size) {
  if (size > static_cast<Index>(list.capacity())) reserve(list, 2 * size);
}

/// What the model inside a wrapper keeps of a context: the first `length` tokens, and a path of the tree after them.
struct KeptContext {
  Index length;
  std::span<const Index> path = {};
};

/// A text that a wrapper was fed: the tokens of the context, and the open tree after it. This is the whole Text (see FedTexts) of
/// a wrapper whose model has the same contexts. Others derive from it, and add what they need to know of their model.
class FedText {
 public:
  Index length() const { return length_; }
  std::span<const Token> tokens() const& { return first(tokens_, length_); }
  WrappedTree& tree() { return tree_; }
  const WrappedTree& tree() const { return tree_; }

  /// The tokens of the context and those on the way to a node of the tree; −1 is the context alone. They live until the next
  /// call.
  std::span<const Token> up_to(Index node) & {
    resize(tokens_, length_);
    each_back(tree_, node, [this](Index on_way) { tokens_.push_back(tree_.token(on_way)); });
    std::reverse(tokens_.begin() + length_, tokens_.end());
    return view_of(tokens_);
  }

  /// Adds a line, or with parents a part of the tree. After a throw nothing has changed.
  void add(std::span<const Token> tokens, std::span<const Index> parents) {
    const Index more = std::ssize(tokens);
    reserve_ahead(tokens_, length_ + tree_.size() + more);  // for up_to() and keep()
    if (parents.empty()) {
      resize(tokens_, length_);
      append(tokens_, tokens);
      length_ += more;
    } else {
      tree_.reserve(tokens.size());
      tree_.append(tokens, parents);
    }
  }

  KeptContext keep(std::span<const Index> path) {
    const Index before = length_;
    up_to(path.empty() ? -1 : path.back());
    length_ += std::ssize(path);
    const KeptContext kept{before, tree_.of_model(path)};
    tree_.clear();
    return kept;
  }

  KeptContext truncate(Index length) {
    tree_.clear();
    length_ = std::clamp<Index>(length, 0, length_);
    return {length_};
  }

  void forget_from(Index node) { tree_.forget_from(node); }

 private:
  std::vector<Token> tokens_;  // the context, and sometimes a way through the tree after it
  Index length_ = 0;
  WrappedTree tree_;
};

}  // namespace specdec::detail

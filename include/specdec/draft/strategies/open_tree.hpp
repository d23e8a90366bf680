// What a draft model has taken in of a tree, and what of that goes on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// The tokens of a tree that a model has taken in behind its context, numbered in that order. The tree stays open when the
/// draft is made: where the next context goes on with a path of it, the model keeps that, and need not take it in again.
class OpenTree {
 public:
  Index size() const { return std::ssize(tokens_); }
  bool empty() const { return tokens_.empty(); }

  /// Room for so many more tokens: adding them throws nothing then.
  void reserve(std::size_t more) {
    const std::size_t size = tokens_.size() + more;
    if (size <= tokens_.capacity()) return;
    tokens_.reserve(2 * size);
    parents_.reserve(2 * size);
    path_.reserve(2 * size);
  }
  void add(std::span<const Token> tokens, std::span<const Index> parents) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    parents_.insert(parents_.end(), parents.begin(), parents.end());
  }
  void clear() {
    tokens_.clear();
    parents_.clear();
    lasting_ = unlimited;
  }

  /// No more than so many tokens of a path survive. Whether any may.
  bool lasts(Index most) {
    if (empty()) return false;
    lasting_ = std::min(lasting_, most);
    return lasting_ > 0;
  }

  /// The numbers of the tokens that the context goes on with, of which the model holds the first `seen` tokens. The last
  /// token of the context is left to be taken in, as its row is wanted.
  std::span<const Index> path(std::span<const Token> context, Index seen) {
    path_.clear();
    const Index most = std::min(std::ssize(context) - 1 - seen, lasting_);
    Index node = -1;
    for (Index i = 0; i < most; ++i) {
      node = child(node, context[static_cast<std::size_t>(seen + i)]);
      if (node < 0) break;
      path_.push_back(node);
    }
    return path_;
  }

 private:
  // The first child of a node that is this token, −1 where none is. Of equal ones each will do.
  Index child(Index node, Token token) const {
    for (Index k = node + 1; k < size(); ++k)
      if (parents_[static_cast<std::size_t>(k)] == node && tokens_[static_cast<std::size_t>(k)] == token)
        return k;
    return -1;
  }

  std::vector<Token> tokens_;
  std::vector<Index> parents_;
  Index lasting_ = unlimited;  // how many tokens of a path survive
  std::vector<Index> path_;
};

}  // namespace specdec::detail

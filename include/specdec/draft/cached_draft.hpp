// Which tokens of a text and of its draft a draft model has cached, and which of them the next context keeps.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/draft/strategies/strategy.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

// For each draft, both classes below are called in this order:
//
//   go_on_with(model, sequence, context)   before the first model call: rolls the model back to the tokens of the context
//   feed(model, sequence, wish)            before each model call for drafted tokens: returns the sequence's feed
//   taken(feed, wish)                      after each model call
//   withdraw(model, sequence)              after a model call that threw
//   keep(model, sequence, length)          after the draft: at most `length` tokens of the text survive
//   twin()                                 what is cached of a text that begins with a copy of the model's context (fork)
//
// At least the last token of a context is fed, because the row after it is wanted.

/// For a line: its tokens enter the model's cache like tokens of the text.
class CachedLine {
 public:
  Index size() const { return cached_; }
  CachedLine twin() const { return *this; }

  template <class M>
  void go_on_with(M& model, Index sequence, std::span<const Token> context) {
    cut(model, sequence, std::min(agreed(context), std::ssize(context) - 1));
    line_.clear();
    from_ = context.size();
  }

  template <class M>
  BatchFeed feed(M& model, Index sequence, const DraftWish& wish) {
    if (wish.kept < std::ssize(line_)) {
      line_.resize(static_cast<std::size_t>(wish.kept));
      cut(model, sequence, static_cast<Index>(from_ + line_.size()));
    }
    line_.reserve(line_.size() + wish.tokens.size());  // so that taken() throws nothing
    return {{.tokens = wish.tokens, .from = cached_, .rows = std::ssize(wish.tokens)}, sequence};
  }
  void taken(const BatchFeed& feed, const DraftWish& wish) {
    cached_ += std::ssize(feed.tokens);
    append(line_, wish.tokens);
  }
  template <class M>
  void withdraw(M&, Index) {}

  template <class M>
  void keep(M& model, Index sequence, Index length) {
    cached_ = std::clamp<Index>(length, 0, cached_);
    model.keep(sequence, cached_);
  }

 private:
  // How many tokens of the context agree with the cached text and line; `unlimited` where the whole line agrees.
  Index agreed(std::span<const Token> context) const {
    for (std::size_t i = 0; i < line_.size(); ++i)
      if (from_ + i >= context.size() || context[from_ + i] != line_[i]) return static_cast<Index>(from_ + i);
    return unlimited;
  }
  template <class M>
  void cut(M& model, Index sequence, Index length) {
    if (length < cached_) keep(model, sequence, length);
  }

  Index cached_ = 0;         // tokens of the text and of the line
  std::vector<Token> line_;  // after the first from_ tokens of the text
  std::size_t from_ = 0;
};

/// For a tree: its tokens are numbered in the order in which the model took them in. The model keeps the tree after the
/// draft: if the next context contains a path of the tree, the model need not take in that path again.
class CachedTree {
 public:
  Index size() const { return cached_; }
  CachedTree twin() const {  // without the tree, which fork() does not copy
    CachedTree twin;
    twin.cached_ = cached_;
    return twin;
  }

  template <class M>
  void go_on_with(M& model, Index sequence, std::span<const Token> context) {
    if (const std::span<const Index> path = path_of(context); !path.empty()) {
      model.keep(sequence, path);
      cached_ += std::ssize(path);
      clear();
    }
    close(model, sequence, std::ssize(context) - 1);
  }

  template <class M>
  BatchFeed feed(M&, Index sequence, const DraftWish& wish) {
    reserve(wish.tokens.size());
    return {
        {.tokens = wish.tokens, .from = cached_, .rows = std::ssize(wish.tokens), .parents = wish.parents},
        sequence};
  }
  void taken(const BatchFeed& feed, const DraftWish& wish) {
    if (wish.tokens.empty()) cached_ += std::ssize(feed.tokens);
    tree_.append(wish.tokens, wish.parents);
  }
  /// The model may have dropped the tree in the call that threw.
  template <class M>
  void withdraw(M& model, Index sequence) {
    close(model, sequence, unlimited);
  }

  template <class M>
  void keep(M& model, Index sequence, Index length) {
    if (!tree_.empty()) {
      lasting_ = std::min(lasting_, length - std::min(length, cached_));
      if (lasting_ > 0) return;  // the next context shows which path
    }
    clear();
    cached_ = std::clamp<Index>(length, 0, cached_);
    model.keep(sequence, cached_);
  }

 private:
  // Drops the tree, and the text's tokens after the first `length`.
  template <class M>
  void close(M& model, Index sequence, Index length) {
    if (tree_.empty() && length >= cached_) return;
    clear();
    cached_ = std::clamp<Index>(length, 0, cached_);
    model.keep(sequence, cached_);
  }
  void clear() {
    tree_.clear();
    lasting_ = unlimited;
  }
  void reserve(std::size_t more) {
    const std::size_t size = static_cast<std::size_t>(tree_.size()) + more;
    if (size <= path_.capacity()) return;
    tree_.reserve(2 * size);
    path_.reserve(2 * size);
  }

  // The path of the tree that the context contains, without its last token, which must be fed. Of equal children any would do.
  std::span<const Index> path_of(std::span<const Token> context) {
    path_.clear();
    const Index most = std::min(std::ssize(context) - 1 - cached_, lasting_);
    Index node = -1;
    for (Index i = 0; i < most; ++i) {
      node = tree_.view().child(node, context[static_cast<std::size_t>(cached_ + i)]);
      if (node < 0) break;
      path_.push_back(node);
    }
    return view_of(path_);
  }

  Index cached_ = 0;  // tokens of the text
  TokenTree tree_;
  std::vector<Index> path_;
  Index lasting_ = unlimited;  // how many tokens of a path may survive
};

}  // namespace specdec::detail

// A tree of tokens as a value: which token follows which.
//
// A tree stands after a context. Its tokens have the numbers 0, 1, 2 and so on. Token k follows its parent: a token with a lower
// number, or the context, whose number is −1. A line is a tree without branches: token k follows token k − 1. Where a list of
// parents is empty, the tokens are a line, so a line needs no list.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/parents.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Whether any token has a parent other than the token before it.
inline bool branches(std::span<const Index> parents) {
  for (Index k = 0; k < std::ssize(parents); ++k)
    if (at(parents, k) != k - 1) return true;
  return false;
}

/// Sets `parents` to the parents of a line of so many tokens.
inline void make_line(std::vector<Index>& parents, Index tokens) {
  resize(parents, tokens);
  for (Index k = 0; k < tokens; ++k) at(parents, k) = k - 1;
}

}  // namespace detail

/// A view of a tree of tokens, or of a line. Owns nothing: the lists must outlive it.
/// Cost: no allocation, except in path_to() and depths() where their list has no room.
class TokenTreeView {
 public:
  TokenTreeView() = default;

  /// `parents` is empty for a line; otherwise it has a number for each token.
  TokenTreeView(std::span<const Token> tokens, std::span<const Index> parents)
      : tokens_(tokens), parents_(parents), size_(std::ssize(tokens)) {}

  /// A tree whose tokens are not asked for. Without parents it has no tokens.
  explicit TokenTreeView(std::span<const Index> parents) : parents_(parents), size_(std::ssize(parents)) {}

  Index size() const { return size_; }
  std::span<const Token> tokens() const { return tokens_; }
  /// Empty for a line that was given without parents.
  std::span<const Index> parents() const { return parents_; }

  Token token(Index k) const { return detail::at(tokens_, k); }
  Index parent(Index k) const { return parents_.empty() ? k - 1 : detail::at(parents_, k); }

  // In the next functions k is a token, or −1 for the context.

  /// The first child of k with a number above `after`; −1 if there is none. The eldest child: next_child(k, k).
  Index next_child(Index k, Index after) const {
    if (parents_.empty()) return after == k && k + 1 < size_ ? k + 1 : -1;
    for (Index child = after + 1; child < size_; ++child)
      if (detail::at(parents_, child) == k) return child;
    return -1;
  }
  /// The eldest child of k with this token; −1 if there is none.
  Index child(Index k, Token token) const {
    Index child = next_child(k, k);
    while (child >= 0 && this->token(child) != token) child = next_child(k, child);
    return child;
  }

  /// How many tokens the path from the context to k has, k included.
  Index depth(Index k) const {
    Index depth = 0;
    detail::each_back(*this, k, [&](Index) { ++depth; });
    return depth;
  }
  /// Sets depths[k] to the depth of each token. Returns the largest one.
  Index depths(std::vector<Index>& depths) const {
    Index deepest = 0;
    depths.clear();
    for (Index k = 0; k < size_; ++k) {
      const Index above = parent(k);
      depths.push_back(above < 0 ? 1 : detail::at(depths, above) + 1);
      deepest = std::max(deepest, depths.back());
    }
    return deepest;
  }
  /// Sets `path` to the numbers of the tokens from the context to k, k included.
  void path_to(Index k, std::vector<Index>& path) const {
    path.clear();
    detail::each_back(*this, k, [&](Index on_way) { path.push_back(on_way); });
    std::reverse(path.begin(), path.end());
  }

 private:
  std::span<const Token> tokens_;
  std::span<const Index> parents_;
  Index size_ = 0;
};

/// A tree of tokens that grows. Its list of parents is complete for a line, too.
/// Throws: what allocation throws; then the tree is as before.
/// Cost: no allocation in steady state.
class TokenTree {
 public:
  Index size() const { return std::ssize(tokens_); }
  bool empty() const { return tokens_.empty(); }
  Token token(Index k) const { return detail::at(tokens_, k); }
  Index parent(Index k) const { return detail::at(parents_, k); }

  // These live until the tree changes.
  std::span<const Token> tokens() const& { return detail::view_of(tokens_); }
  std::span<const Index> parents() const& { return detail::view_of(parents_); }
  TokenTreeView view() const& { return {tokens(), parents()}; }
  void tokens() const&& = delete;
  void parents() const&& = delete;
  void view() const&& = delete;

  /// Makes room for a tree of this many tokens.
  void reserve(std::size_t tokens) {
    tokens_.reserve(tokens);
    parents_.reserve(tokens);
  }

  /// Adds a token. Returns its number.
  Index append(Token token, Index parent) {
    parents_.push_back(parent);
    const auto add = [&] { tokens_.push_back(token); };
    detail::undo_on_error(add, [this] { parents_.pop_back(); });
    return size() - 1;
  }
  /// Adds tokens with these parents. If there are no parents, the tokens are a line after the tree's last token.
  void append(std::span<const Token> tokens, std::span<const Index> parents) {
    const Index before = size();
    const auto add = [&] {
      detail::append(parents_, parents);
      for (Index k = std::ssize(parents); k < std::ssize(tokens); ++k) parents_.push_back(before + k - 1);
      detail::append(tokens_, tokens);
    };
    detail::undo_on_error(add, [&] { forget_from(before); });
  }

  /// Forgets token k and all tokens with higher numbers.
  void forget_from(Index k) {
    detail::resize(tokens_, k);
    detail::resize(parents_, k);
  }
  void clear() { forget_from(0); }

 private:
  std::vector<Token> tokens_;
  std::vector<Index> parents_;
};

}  // namespace specdec

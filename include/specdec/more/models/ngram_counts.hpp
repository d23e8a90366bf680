// How often each token follows each context in a text: a trie of contexts.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The counts c(h, w) of every token w after every context h of up to order−1 tokens of a text, exactly.
///
/// A node is a context h that occurs in the text with a token after it. Its parent is h without its first
/// (oldest) token, so the trie reads contexts backwards. A walk from the root along the latest tokens of
/// a context ends at the longest suffix that the text contains. Nodes lie level by level. The children of a
/// node lie side by side in the order of their tokens, and so do its successors. No hashing.
/// Cost: a node takes 40 bytes, a successor 16; there are at most order·n of each for n tokens.
class NgramCounts {
 public:
  /// A token that was seen after a context, and how often.
  struct Successor {
    Token token;
    Index count;
  };

  static constexpr Index root = 0;
  static constexpr Index none = -1;

  /// Pre: all tokens of `text` are in the vocabulary.
  /// Cost: O(order·(n + V)) for any text.
  NgramCounts(std::span<const Token> text, Index order, Index vocab_size);

  Index order() const { return order_; }
  Index vocab_size() const { return vocab_size_; }

  /// The context of `node` with `token` in front of it, or none.
  Index child(Index node, Token token) const {
    const auto first = nodes_.begin() + at(node).first_child;
    const auto last = nodes_.begin() + at(node + 1).first_child;
    const auto found = std::lower_bound(first, last, token,
                                        [](const Node& left, Token right) { return left.token < right; });
    return found == last || found->token != token ? none : found - nodes_.begin();
  }

  /// The context of `node` without its first token; none for the root.
  Index parent(Index node) const { return at(node).parent; }

  /// c(h): how many tokens of the text follow the context.
  Index total(Index node) const { return at(node).total; }

  /// The T(h) distinct tokens that follow the context, ascending, each at least once.
  std::span<const Successor> successors(Index node) const {
    const Index first = at(node).first_successor, last = at(node + 1).first_successor;
    return part(successors_, first, last - first);
  }

 private:
  class Builder;

  // A node's children and successors end where the next node's begin.
  struct Node {
    Token token;
    Index parent, first_child, first_successor;
    Index total;
  };

  const Node& at(Index node) const { return detail::at(nodes_, node); }

  Index order_, vocab_size_;
  std::vector<Node> nodes_;  // and a sentinel at the end
  std::vector<Successor> successors_;
};

/// Builds the trie level by level. A position of the text stands for the token there and the context before it. Positions are
/// kept sorted by their node and, within a node, by their token. So a node is a run of positions, and its successors are runs
/// within that run. Each level adds a token of context with two stable counting sorts.
class NgramCounts::Builder {
 public:
  Builder(NgramCounts& counts, std::span<const Token> text)
      : counts_(counts), text_(text), positions_(text.size()), node_(text.size(), root) {
    std::iota(positions_.begin(), positions_.end(), Index{0});
  }

  void build() {
    sort([&](Index i) { return token(i); }, counts_.vocab_size_);
    nodes().push_back({0, none, 0, 0, 0});
    for (const Index i : positions_) count(i);
    for (Index length = 1; length < counts_.order_ && !positions_.empty(); ++length) add_level(length);
    link();
  }

 private:
  // Adds the contexts of `length` tokens, made from the contexts of `length` − 1.
  void add_level(Index length) {
    std::erase(positions_, length - 1);  // this position has only length − 1 tokens before it
    const Index first = level_, size = node_count() - first;
    sort([&](Index i) { return token(i - length); }, counts_.vocab_size_);
    sort([&](Index i) { return node_of(i) - first; }, size);
    level_ = node_count();
    for (const Index i : positions_) {
      enter(node_of(i), token(i - length));
      count(i);
    }
  }

  // Makes the child of `parent` by `token` the last node.
  void enter(Index parent, Token token) {
    if (nodes().back().parent == parent && nodes().back().token == token) return;
    nodes().push_back({token, parent, 0, static_cast<Index>(counts_.successors_.size()), 0});
  }

  // Counts the token at position i, which belongs to the last node.
  void count(Index i) {
    auto& successors = counts_.successors_;
    const bool first = nodes().back().first_successor == std::ssize(successors);
    if (first || successors.back().token != token(i)) successors.push_back({token(i), 0});
    ++successors.back().count;
    ++nodes().back().total;
    node_of(i) = node_count() - 1;
  }

  // Nodes lie in the order of their parents: a node's children begin where the children of the node before it end.
  void link() {
    const Index size = node_count();
    Index child = 1;
    for (Index node = 0; node < size; ++node) {
      detail::at(nodes(), node).first_child = child;
      while (child < size && counts_.at(child).parent == node) ++child;
    }
    nodes().push_back({0, none, size, static_cast<Index>(counts_.successors_.size()), 0});
  }

  // Sorts the positions by a key in 0..keys−1, equal ones left in their order.
  template <class Key>
  void sort(Key&& key, Index keys) {
    detail::assign(begins_, keys + 1, 0);
    for (const Index i : positions_) ++detail::at(begins_, key(i) + 1);
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    sorted_.resize(positions_.size());
    for (const Index i : positions_) detail::at(sorted_, detail::at(begins_, key(i))++) = i;
    positions_.swap(sorted_);
  }

  std::vector<Node>& nodes() { return counts_.nodes_; }
  Index node_count() const { return static_cast<Index>(counts_.nodes_.size()); }
  Token token(Index i) const { return detail::at(text_, i); }
  Index& node_of(Index i) { return detail::at(node_, i); }

  NgramCounts& counts_;
  std::span<const Token> text_;
  std::vector<Index> positions_;
  std::vector<Index> node_;             // position -> its node of the last level
  Index level_ = 0;                     // the first node of the last level
  std::vector<Index> begins_, sorted_;  // scratch
};

inline NgramCounts::NgramCounts(std::span<const Token> text, Index order, Index vocab_size)
    : order_(order), vocab_size_(vocab_size) {
  Builder(*this, text).build();
}

}  // namespace specdec::detail

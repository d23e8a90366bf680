// What a verdict accepts of a draft, and what it passes by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "specdec/types.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec::detail {

/// The way from the context to the node where a rule stopped. No allocation after reserve().
class AcceptedPath {
 public:
  /// Room for a draft of so many tokens.
  void reserve(Index tokens) {
    const auto size = static_cast<std::size_t>(tokens);
    numbers_.reserve(size);
    tokens_.reserve(size);
    ranks_.reserve(size);
    offered_.reserve(size + 1);
  }

  template <class D>
  void set(const D& drafted, Index node) {
    clear();
    each_before(drafted, node, [&](Index k) { numbers_.push_back(k); });
    std::reverse(numbers_.begin(), numbers_.end());
    Index at = 0;
    for (const Index k : numbers_) {
      tokens_.push_back(drafted.token(k));
      ranks_.push_back(children(drafted, at, k));
      offered_.push_back(children(drafted, at, -1));
      at = k + 1;
    }
    offered_.push_back(children(drafted, at, -1));
  }

  /// Of the accepted tokens: their numbers in the draft, and the tokens.
  std::span<const Index> numbers() const { return numbers_; }
  std::span<const Token> tokens() const { return tokens_; }
  /// How many elder siblings each of them has; and how many children the nodes have that were come to, the context first.
  std::span<const Index> ranks() const { return ranks_; }
  std::span<const Index> offered() const { return offered_; }

 private:
  void clear() {
    numbers_.clear();
    tokens_.clear();
    ranks_.clear();
    offered_.clear();
  }

  // How many there are before token `end`, or at all.
  template <class D>
  static Index children(const D& drafted, Index node, Index end) {
    Index count = 0;
    for (Index k = drafted.first_child(node); k >= 0 && k != end; k = drafted.next_sibling(k)) ++count;
    return count;
  }

  std::vector<Index> numbers_, ranks_, offered_;
  std::vector<Token> tokens_;
};

}  // namespace specdec::detail

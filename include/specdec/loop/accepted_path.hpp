// What a verdict accepts of a draft, and what it passes by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/types.hpp"

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

  /// To the node, which is after token node - 1; 0 is the context. `parents` says who follows whom, and nothing of a line,
  /// which has no siblings to count.
  void set(std::span<const Token> tokens, std::span<const Index> parents, Index node) {
    clear();
    for (Index k = node - 1; k >= 0; k = parents.empty() ? k - 1 : parents[static_cast<std::size_t>(k)])
      numbers_.push_back(k);
    std::reverse(numbers_.begin(), numbers_.end());
    Index at = -1;
    for (const Index k : numbers_) {
      tokens_.push_back(tokens[static_cast<std::size_t>(k)]);
      ranks_.push_back(children(parents, at, at + 1, k));
      offered_.push_back(ranks_.back() + children(parents, at, k, std::ssize(parents)));
      at = k;
    }
    offered_.push_back(children(parents, at, at + 1, std::ssize(parents)));
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

  // How many of the tokens first..end-1 follow token `at`.
  static Index children(std::span<const Index> parents, Index at, Index first, Index end) {
    Index count = 0;
    for (Index k = first; k < std::min(end, std::ssize(parents)); ++k)
      count += parents[static_cast<std::size_t>(k)] == at;
    return count;
  }

  std::vector<Index> numbers_, ranks_, offered_;
  std::vector<Token> tokens_;
};

}  // namespace specdec::detail

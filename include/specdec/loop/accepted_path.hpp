// The tokens of a draft that a verdict accepts, and their siblings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The path from the context to the node where a rule stopped.
/// Cost: no allocation after reserve().
class AcceptedPath {
 public:
  /// Makes room for a draft of this many tokens.
  void reserve(Index tokens) {
    const auto size = static_cast<std::size_t>(tokens);
    numbers_.reserve(size);
    tokens_.reserve(size);
    ranks_.reserve(size);
    offered_.reserve(size + 1);
  }

  /// Sets the path to `node`. Node 0 is the context, node k + 1 stands after token k. `parents` is empty for a line, which
  /// has no siblings.
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

  /// The accepted tokens: their numbers in the draft, and the tokens.
  std::span<const Index> numbers() const { return view_of(numbers_); }
  std::span<const Token> tokens() const { return view_of(tokens_); }
  /// ranks(): how many elder siblings each accepted token has. offered(): how many children each node of the path has, from
  /// the context to the last node.
  std::span<const Index> ranks() const { return view_of(ranks_); }
  std::span<const Index> offered() const { return view_of(offered_); }

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

// The tree that is open in a model, kept by a wrapper of the model.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The tokens of a model's open tree, for a wrapper that may fail after the model has taken the tokens of a call. The
/// model's tree cannot forget these tokens alone. They stay there, and have no number here.
class WrappedTree {
 public:
  Index size() const { return std::ssize(tokens_); }
  bool empty() const { return tokens_.empty(); }
  Token token(Index node) const { return at(tokens_, node); }
  Index parent(Index node) const { return at(parents_, node); }
  std::span<const Index> parents() const& { return view_of(parents_); }

  /// Makes room for `more` tokens and for any path. No other function allocates.
  void reserve(std::size_t more) {
    const std::size_t size = tokens_.size() + more;
    tokens_.reserve(size);
    parents_.reserve(size);
    numbers_.reserve(size);
    numbered_.reserve(size);
  }

  /// Adds tokens. Call taken() when the model has cached them.
  void add(std::span<const Token> tokens, std::span<const Index> parents) {
    append(tokens_, tokens);
    append(parents_, parents);
    for (Index k = 0; k < std::ssize(tokens); ++k) numbers_.push_back(cached_ + k);
  }
  void taken(Index tokens) { cached_ += tokens; }

  void forget_from(Index node) {
    resize(tokens_, node);
    resize(parents_, node);
    resize(numbers_, node);
  }
  void clear() {
    forget_from(0);
    cached_ = 0;
  }

  /// The numbers that these tokens have in the model's tree; −1, the context, stays −1. They live until the next call.
  std::span<const Index> of_model(std::span<const Index> nodes) & {
    numbered_.clear();
    for (const Index node : nodes) numbered_.push_back(node < 0 ? node : at(numbers_, node));
    return view_of(numbered_);
  }

 private:
  std::vector<Token> tokens_;
  std::vector<Index> parents_, numbers_, numbered_;
  Index cached_ = 0;  // how many tokens the model's tree has
};

}  // namespace specdec::detail

// The tree that is open in a model, kept by a wrapper of the model.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The tokens of a model's open tree, for a wrapper that may fail after the model has taken the tokens of a call. The
/// model's tree cannot forget these tokens alone. They stay there, and have no number here.
class WrappedTree : public TokenTree {
 public:
  /// Makes room for `more` tokens and for any path. No other function allocates.
  void reserve(std::size_t more) {
    const std::size_t size = numbers_.size() + more;
    TokenTree::reserve(size);
    numbers_.reserve(size);
    numbered_.reserve(size);
  }

  /// Adds tokens. Call taken() when the model has cached them.
  void append(std::span<const Token> tokens, std::span<const Index> parents) {
    TokenTree::append(tokens, parents);
    for (Index k = 0; k < std::ssize(tokens); ++k) numbers_.push_back(cached_ + k);
  }
  void taken(Index tokens) { cached_ += tokens; }

  void forget_from(Index node) {
    TokenTree::forget_from(node);
    numbers_.resize(static_cast<std::size_t>(node));
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
  std::vector<Index> numbers_, numbered_;
  Index cached_ = 0;  // how many tokens the model's tree has
};

}  // namespace specdec::detail

// A model over any vocabulary. Its rows depend on the context: the last tokens choose a row of a pool.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "acceptance/pool.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"

namespace acceptance {

/// The pool's context for these tokens: a hash of the last `order` tokens.
inline Index slot_of(std::span<const Token> context, Index order, Index slots) {
  const auto used = std::min(context.size(), static_cast<std::size_t>(order));
  std::uint64_t hash = used;
  for (const Token x : context.last(used)) hash = mixed(hash, static_cast<std::uint64_t>(x));
  SplitMix64 generator(hash);
  return below(generator, slots);
}

/// One side of a pool as a language model. Satisfies specdec::Model.
///
/// The row after a context is a function of its last `order` tokens. So the model is a Markov source of this order, with as
/// many states as the pool has contexts. The same tokens lead the models of both sides to the same context. The pool must
/// outlive the model.
class HashedModel {
 public:
  /// Rows lie in the pool.
  static constexpr bool stable_rows = true;

  HashedModel(const Pool& pool, Side side, Index order) : pool_(&pool), side_(side), order_(order) {
    if (order < 0) specdec::detail::invalid_argument("order = ", order, " is negative");
  }

  Index vocab_size() const { return pool_->vocab_size(); }

  specdec::RowPointers<float> forward(std::span<const Token> tokens, Index rows) {
    const Index fed = std::ssize(tokens);
    if (rows < 1 || rows > fed)
      specdec::detail::invalid_argument("rows = ", rows, " is outside 1..", fed, ", the number of tokens");
    specdec::detail::check_tokens("tokens", tokens, vocab_size());
    context_.insert(context_.end(), tokens.begin(), tokens.end());
    rows_.clear();
    for (Index i = std::ssize(context_) - rows + 1; i <= std::ssize(context_); ++i)
      rows_.push_back(row(std::span(context_).first(static_cast<std::size_t>(i))));
    return {rows_, vocab_size()};
  }

  void truncate(Index length) {
    if (length < std::ssize(context_)) context_.resize(static_cast<std::size_t>(length));
  }

  /// The distribution after `context`. Does not depend on what the model has been fed. For exact laws.
  specdec::DenseRow<float> distribution(std::span<const Token> context) const {
    return specdec::DenseRow<float>(row(context), vocab_size());
  }

 private:
  const float* row(std::span<const Token> context) const {
    return pool_->row(side_, slot_of(context, order_, pool_->contexts()));
  }

  const Pool* pool_;
  Side side_;
  Index order_;
  std::vector<Token> context_;
  std::vector<const float*> rows_;
};

}  // namespace acceptance

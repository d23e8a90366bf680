// One-hot rows: the q of a drafter that proposes tokens without probabilities.
#pragma once

#include <cstddef>
#include <span>

#include "specdec/core/distribution.hpp"

namespace specdec {

/// The distribution that gives one token probability 1, over the least vocabulary that holds it.
class OneHotRow {
 public:
  explicit OneHotRow(Token token) : token_(token) {}

  Index vocab_size() const { return Index{token_} + 1; }
  double probability(Token x) const { return x == token_ ? 1.0 : 0.0; }
  Token argmax() const { return token_; }

  auto sampler() const {
    return [token = token_](double) { return token; };
  }

 private:
  Token token_;
};

/// Row i is one-hot at tokens[i]. The tokens must outlive the view.
///
/// This is the honest q of a deterministic proposal: it did draw tokens[i] with probability 1. (A q of 1 for
/// every token is not a distribution, and rules that are fed one are biased.)
class OneHotRows {
 public:
  explicit OneHotRows(std::span<const Token> tokens) : tokens_(tokens) {}

  Index rows() const { return static_cast<Index>(tokens_.size()); }
  OneHotRow row(Index i) const { return OneHotRow(tokens_[static_cast<std::size_t>(i)]); }

 private:
  std::span<const Token> tokens_;
};

}  // namespace specdec

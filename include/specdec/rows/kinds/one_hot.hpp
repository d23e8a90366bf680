// One-hot rows: the draft rows of a drafter that proposes tokens without probabilities.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/token_ids.hpp"

namespace specdec::inline v0_2_0 {

/// The distribution that gives one token probability 1. Its vocabulary is the smallest one that holds the token.
class OneHotRow {
 public:
  explicit OneHotRow(Token token) : token_(token) {}

  static constexpr bool constant_time_probability = true;

  Index vocab_size() const { return Index{token_} + 1; }
  double probability(Token x) const { return x == token_ ? 1.0 : 0.0; }
  Token argmax() const { return token_; }

  Index support_size() const { return 1; }
  Token support(Index) const { return token_; }
  double listed(Index) const { return 1.0; }
  double sum(Index start, Index count) const { return start <= token_ && token_ < start + count ? 1.0 : 0.0; }

  auto sampler() const {
    return [token = token_](double) { return token; };
  }

 private:
  Token token_;
};

/// Row i is one-hot at tokens[i]. The tokens must outlive the view; a temporary container of them is refused.
///
/// These are the correct draft rows of a deterministic drafter: it does propose tokens[i] with probability 1. (Rows with 1
/// for every token are no distributions: they bias the rules.)
class OneHotRows {
 public:
  explicit OneHotRows(TokenIds tokens) : tokens_(tokens) {}
  template <detail::OwningTemporary Temporary>
  explicit OneHotRows(Temporary&& tokens) = delete;

  Index rows() const { return tokens_.size(); }
  /// An id that does not fit into a Token is taken as the largest Token, which no vocabulary has.
  OneHotRow row(Index i) const { return OneHotRow(detail::as_token(tokens_[i])); }

 private:
  TokenIds tokens_;
};

}  // namespace specdec

// A text that does not end too early.
// SPDX-License-Identifier: MIT
#pragma once

#include <initializer_list>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Forbids the tokens that end a text until it has n tokens, the prompt included:
///
///   AfterPrompt{prompt_length, MinLength{20, {end}}}    // 20 new tokens, then the text may end
///
/// An end token without a logit in the row is ignored.
/// Source: Hugging Face transformers: min_length counts the prompt of a decoder, min_new_tokens leaves it out. vLLM's
/// min_tokens leaves it out. llama.cpp has only ignore_eos, which is LogitBias{{end, −inf}}.
/// Throws: InvalidArgument if n is negative, or if an end is no Token.
/// Cost: O(ends) for each row, as long as the text has fewer than n tokens.
class MinLength {
 public:
  MinLength(Index n, std::initializer_list<Token> ends)
      : MinLength(n, TokenIds(std::span<const Token>(ends.begin(), ends.size()))) {}
  MinLength(Index n, TokenIds ends) : n_(n) {
    if (n < 0) detail::invalid_argument("MinLength: n = ", n, " is negative");
    detail::check_tokens("ends", ends, detail::most_tokens);
    for (Index i = 0; i < ends.size(); ++i) ends_.push_back(static_cast<Token>(ends[i]));
  }

  template <class Logits>
  void apply(Logits&& logits) const {
    if (length_ >= n_) return;
    const auto row = detail::partial(logits);
    for (const Token end : ends_) detail::forbid(row, end);
  }
  void push(Token) { ++length_; }
  void pop(Index n) { length_ -= n; }

 private:
  Index n_;
  Index length_ = 0;
  std::vector<Token> ends_;
};

}  // namespace specdec

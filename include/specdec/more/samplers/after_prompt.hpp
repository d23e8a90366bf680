// A processor that sees only the generated tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Hides the first tokens of the text, the prompt, from a processor. Rows inside the prompt are not changed:
///
///   Processors{RepetitionPenalty{1.1}, AfterPrompt{prompt_length, PresencePenalty{0.5}}}
///
/// For processors of the new text: a grammar, a minimum length, or penalties that count only generated tokens.
/// The prompt's length may be any integer, such as prompt.size().
/// Throws: InvalidArgument if the length is negative, or larger than any Index.
template <class P>
class AfterPrompt {
  static_assert(detail::FollowsText<P>, "the processor is no specdec::TextProcessor");

 public:
  template <std::integral N>
  AfterPrompt(N prompt_length, P processor)
      : prompt_(checked(prompt_length)), processor_(std::move(processor)) {}

  template <class Logits>
    requires TextProcessor<P, Logits>
  void apply(Logits&& logits) {
    if (length_ >= prompt_) processor_.apply(logits);
  }

  bool push(Token x) {
    if (length_ >= prompt_ && !push_token(processor_, x)) return false;
    ++length_;
    return true;
  }

  void pop(Index n) {
    processor_.pop(std::min(n, std::max<Index>(length_ - prompt_, 0)));
    length_ -= n;
  }

 private:
  template <class N>
  static Index checked(N length) {
    if (length < N{0}) detail::invalid_argument("prompt_length = ", length, " is negative");
    constexpr auto most = static_cast<std::uintmax_t>(std::numeric_limits<Index>::max());
    if (static_cast<std::uintmax_t>(length) > most)
      detail::invalid_argument("prompt_length = ", length, " is more than ", most);
    return static_cast<Index>(length);
  }

  Index prompt_;
  Index length_ = 0;  // of the text
  P processor_;
};

}  // namespace specdec

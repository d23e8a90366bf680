// Bad words: sequences of tokens that a text must not contain.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Forbids the last token of each listed sequence wherever the text ends with the tokens before it. A sequence of one token
/// is forbidden everywhere. So no sequence is ever completed.
///
///   BadWords{{{17, 4}, {99}}}    // 4 never follows 17, and 99 never comes
///
/// The first tokens of a sequence may be in the prompt; AfterPrompt leaves the prompt out. A word that is spelled by other tokens
/// is not found: list each way to spell it, with and without the space before it. (examples/write/banned_strings.cpp bans a
/// string, however tokens spell it.) A token without a logit in the row is ignored.
/// Source: bad_words_ids of Hugging Face transformers, which counts the prompt, too; bad_words of vLLM, which leaves it out.
/// llama.cpp has none for sequences; a single token is a LogitBias of −inf there.
/// Throws: InvalidArgument if a sequence has no tokens or a negative one. If every token is forbidden, a draw from the
/// row throws InvalidDistribution.
/// Cost: for each row O(sequences), and the tokens of those that have begun. No allocation in steady state.
/// Memory: 4 bytes for each token of the text.
class BadWords {
 public:
  explicit BadWords(std::vector<std::vector<Token>> words) : words_(std::move(words)) {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (words_[i].empty()) detail::invalid_argument("words[", i, "] has no tokens");
      for (std::size_t k = 0; k < words_[i].size(); ++k)
        if (words_[i][k] < 0)
          detail::invalid_argument("words[", i, "][", k, "] = ", words_[i][k], " is negative");
    }
  }

  template <class Logits>
  void apply(Logits&& logits) const {
    const auto row = detail::partial(logits);
    for (const auto& word : words_)
      if (begun(word)) detail::forbid(row, word.back());
  }
  void push(Token x) { text_.push_back(x); }
  void pop(Index n) { detail::resize(text_, std::ssize(text_) - n); }

 private:
  // Whether the text ends with all tokens of the word but the last.
  bool begun(const std::vector<Token>& word) const {
    const Index before = std::ssize(word) - 1;
    return before <= std::ssize(text_) && std::equal(word.begin(), word.end() - 1, text_.end() - before);
  }

  std::vector<std::vector<Token>> words_;
  std::vector<Token> text_;
};

}  // namespace specdec

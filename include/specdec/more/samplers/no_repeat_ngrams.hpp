// No n-gram occurs twice in a text.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Forbids every token that would repeat an n-gram of the text, including the prompt (AfterPrompt leaves the prompt out).
/// With n = 1 no token occurs twice.
/// Source: no_repeat_ngram_size of Hugging Face transformers. llama.cpp has none, but DRY: see Dry. It lowers the logits of
/// tokens that continue a repetition; the longer the repetition, the more.
/// Throws: InvalidArgument if n is below 1. If every token is forbidden, a draw from the row throws InvalidDistribution.
/// Cost: O(n) for each token. For each row, O(n) for every earlier occurrence of the last n − 1 tokens. No allocation if the
/// text was as long before.
/// Memory: 16 bytes for each token, and a table as long as the text.
class NoRepeatNgrams {
 public:
  explicit NoRepeatNgrams(Index n) : n_(n) {
    if (n < 1) detail::invalid_argument("NoRepeatNgrams{", n, "}: an n-gram has a token at least");
  }

  template <class Logits>
  void apply(Logits&& logits) const {
    if (size() < n_ - 1 || latest_.empty()) return;
    const auto row = detail::partial(logits);
    const std::span<const Token> begun = ngram_before(size());
    for (Index end = latest_[slot(begun)]; end >= 0; end = detail::at(previous_, end))
      if (std::equal(begun.begin(), begun.end(), ngram_before(end).begin()))
        detail::forbid(row, detail::at(text_, end));
  }

  void push(Token x) {
    make_room();
    text_.push_back(x);
    enter(size() - 1);
  }

  void pop(Index n) {
    for (; n > 0; --n) {
      const Index last = size() - 1;
      if (last >= n_ - 1) latest_[slot(ngram_before(last))] = detail::at(previous_, last);
      text_.pop_back();
      previous_.pop_back();
    }
  }

 private:
  Index size() const { return std::ssize(text_); }

  // The n − 1 tokens before place `end`.
  std::span<const Token> ngram_before(Index end) const { return detail::part(text_, end - n_ + 1, n_ - 1); }

  std::size_t slot(std::span<const Token> tokens) const {
    std::uint64_t h = 0;
    for (const Token x : tokens) h = SplitMix64(h ^ static_cast<std::uint32_t>(x))();
    return detail::as_type<std::size_t>(h) & (latest_.size() - 1);
  }

  // Links the place into the list of places after tokens with the same hash. There is room.
  void enter(Index end) {
    previous_.push_back(-1);
    if (end < n_ - 1) return;
    Index& latest = latest_[slot(ngram_before(end))];
    previous_.back() = std::exchange(latest, end);
  }

  // Makes room for one token more.
  void make_room() {
    const std::size_t tokens = text_.size() + 1;
    if (tokens <= latest_.size() && tokens <= text_.capacity() && tokens <= previous_.capacity()) return;
    const std::size_t room = std::bit_ceil(2 * tokens + 14);
    text_.reserve(room);
    previous_.reserve(room);
    latest_ = std::vector<Index>(room, -1);
    previous_.clear();
    for (Index end = 0; end < size(); ++end) enter(end);
  }

  Index n_;
  std::vector<Token> text_;
  std::vector<Index> previous_;  // for each place the place before it in its list; −1 if none
  std::vector<Index> latest_;    // the latest place of each list, by the hash of n − 1 tokens
};

}  // namespace specdec

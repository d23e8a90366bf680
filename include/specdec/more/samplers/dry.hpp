// DRY (don't repeat yourself): the longer a repetition that a token would continue, the less likely the token.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// What Dry needs to know. The defaults are those of llama.cpp, but for the multiplier, which is 0 (off) there.
struct DrySettings {
  double multiplier = 0.8;
  double base = 1.75;
  Index allowed_length = 2;                       ///< repetitions of fewer tokens are free
  Index last_n = unlimited;                       ///< how many tokens of the text are looked at
  std::vector<std::vector<Token>> breakers = {};  ///< a repetition does not reach back over such tokens
};

/// If the end of the text, n tokens long, occurs earlier in the text, and is followed there by token x, then x would continue
/// the repetition. For the largest such n, subtracts multiplier · base^(n − allowed_length) from the logit of x, if
/// n >= allowed_length. A repetition contains no breaker: n is at most the number of tokens after the last breaker. A token
/// that is a breaker by itself has no penalty.
///
///   Processors{Dry{{.multiplier = 0.8, .breakers = {{newline}, {quote}}}}, TopK{40}}
///
/// The prompt counts; AfterPrompt leaves it out. A finite logit stays finite.
/// Source: dry of llama.cpp and text-generation-webui. They take breakers as strings: give the tokens that contain one. Of
/// two breakers that begin at one place llama.cpp takes the longer; this class does so, too.
/// Throws: InvalidArgument if the multiplier is negative or not finite, the base below 1 or not finite, allowed_length
/// below 1, last_n negative, or a breaker empty.
/// Cost: for each row O(tokens that are looked at). No allocation in steady state.
/// Memory: 12 bytes for each token of the text.
class Dry {
 public:
  explicit Dry(DrySettings settings) : set_(std::move(settings)) {
    if (!(set_.multiplier >= 0) || !std::isfinite(set_.multiplier))
      detail::invalid_argument("Dry: multiplier = ", set_.multiplier, " is not a finite number >= 0");
    if (!(set_.base >= 1) || !std::isfinite(set_.base))
      detail::invalid_argument("Dry: base = ", set_.base, " is not a finite number >= 1");
    if (set_.allowed_length < 1)
      detail::invalid_argument("Dry: allowed_length = ", set_.allowed_length, " is below 1");
    if (set_.last_n < 0) detail::invalid_argument("Dry: last_n = ", set_.last_n, " is negative");
    for (const auto& breaker : set_.breakers)
      if (breaker.empty()) detail::invalid_argument("Dry: a breaker has no tokens");
  }

  template <class Logits>
  void apply(Logits&& logits) {
    if (set_.multiplier == 0) return;
    const Index size = std::min(std::ssize(text_), set_.last_n), limit = after_breaker(size);
    if (limit < set_.allowed_length) return;
    find_repetitions(size);
    find_longest(size, limit);
    const auto row = detail::partial(logits);
    for (const auto& [token, length] : longest_)
      if (auto* const logit = row.find(token)) lower(*logit, length);
  }
  void push(Token x) { text_.push_back(x); }
  void pop(Index n) { detail::resize(text_, std::ssize(text_) - n); }

 private:
  // The token `back` tokens before the end of the text.
  Token at(Index back) const { return detail::at(text_, std::ssize(text_) - 1 - back); }

  // How many of the last `size` tokens come after the last breaker.
  Index after_breaker(Index size) const {
    for (Index back = 0; back < size; ++back) {
      Index longest = 0;
      for (const auto& breaker : set_.breakers)
        if (begins_at(breaker, back)) longest = std::max(longest, std::ssize(breaker));
      if (longest > 0) return back + 1 - longest;
    }
    return size;
  }

  bool begins_at(const std::vector<Token>& breaker, Index back) const {
    if (std::ssize(breaker) > back + 1) return false;
    return std::equal(breaker.begin(), breaker.end(), text_.end() - 1 - back);
  }

  bool is_breaker(Token x) const {
    return std::any_of(set_.breakers.begin(), set_.breakers.end(),
                       [x](const auto& breaker) { return breaker.size() == 1 && breaker[0] == x; });
  }

  // Sets repeats_[k] to how many tokens before place k from the end agree with the end of the text. This is the Z function of
  // the reversed text: what is known of one repetition is used for those inside it, so that each token is compared once.
  void find_repetitions(Index size) {
    // assign() would leave no room for the next token.
    if (std::ssize(repeats_) < size) detail::resize(repeats_, size);
    Index from = 0, to = 0;  // the places that the repetition reaching furthest back covers
    for (Index k = 1; k < size; ++k) {
      Index n = k < to ? std::min(to - k, detail::at(repeats_, k - from)) : 0;
      while (k + n < size && at(n) == at(k + n)) ++n;
      detail::at(repeats_, k) = n;
      if (k + n > to) {
        from = k;
        to = k + n;
      }
    }
  }

  // The longest repetition that each token would continue.
  void find_longest(Index size, Index limit) {
    longest_.clear();
    for (Index k = 1; k < size; ++k) {
      const Index n = std::min(detail::at(repeats_, k), limit);
      if (n >= set_.allowed_length && !is_breaker(at(k - 1))) longest_.emplace_back(at(k - 1), n);
    }
    std::sort(longest_.begin(), longest_.end(), [](const Longest& a, const Longest& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    const auto same = [](const Longest& a, const Longest& b) { return a.first == b.first; };
    longest_.erase(std::unique(longest_.begin(), longest_.end(), same), longest_.end());
  }

  template <class Scalar>
  void lower(Scalar& logit, Index length) const {
    const double price =
        set_.multiplier * std::pow(set_.base, static_cast<double>(length - set_.allowed_length));
    detail::change_finite<Scalar>(logit, logit - detail::nearest_finite<Scalar>(price));
  }

  using Longest = std::pair<Token, Index>;

  DrySettings set_;
  std::vector<Token> text_;
  std::vector<Index> repeats_;
  std::vector<Longest> longest_;
};

}  // namespace specdec

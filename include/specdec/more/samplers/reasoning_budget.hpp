// A reasoning budget: a text may think for so many tokens, then it has to come to an end.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Looks for a sequence of tokens in a text, one token after another. A state says how many of the last tokens begin the
/// sequence.
/// Source: Knuth, Morris, Pratt, "Fast pattern matching in strings", SIAM J. Comput. 6(2), 1977.
/// Throws: InvalidArgument if the sequence has no tokens or a negative one.
/// Cost: O(1) for each token on average over a text.
class SequenceMatcher {
 public:
  SequenceMatcher(const char* name, std::vector<Token> sequence) : sequence_(std::move(sequence)) {
    if (sequence_.empty()) invalid_argument(name, " has no tokens");
    for (std::size_t i = 0; i < sequence_.size(); ++i)
      if (sequence_[i] < 0) invalid_argument(name, "[", i, "] = ", sequence_[i], " is negative");
    shorter_.assign(sequence_.size(), 0);
    for (Index i = 1; i < size(); ++i)
      detail::at(shorter_, i) = next(detail::at(shorter_, i - 1), detail::at(sequence_, i));
  }

  Index size() const { return std::ssize(sequence_); }
  Token operator[](Index i) const { return detail::at(sequence_, i); }

  /// The state after one more token. Pre: state < size().
  Index next(Index state, Token x) const {
    while (state > 0 && detail::at(sequence_, state) != x) state = detail::at(shorter_, state - 1);
    return detail::at(sequence_, state) == x ? state + 1 : 0;
  }

 private:
  std::vector<Token> sequence_;
  std::vector<Index>
      shorter_;  // of the first i + 1 tokens: how many of the last ones begin the sequence, but not all
};

}  // namespace detail

/// What ReasoningBudget needs to know.
struct ReasoningBudgetSettings {
  std::vector<Token> start;         ///< the tokens after which reasoning begins, such as <think>
  std::vector<Token> end;           ///< the tokens that end it, such as </think>
  Index tokens = unlimited;         ///< how many tokens reasoning may take, those of the end not counted
  std::vector<Token> message = {};  ///< what is written before the end if the budget is used up
};

/// Limits reasoning: after the start sequence at most so many tokens come before the end sequence. When they are used up, the
/// message and the end sequence are forced: at each place only their next token is allowed.
///
///   ReasoningBudget{{.start = {think}, .end = {end_think}, .tokens = 512}}
///
/// If the text has just begun the message or the end sequence by itself, this beginning counts as tokens of the budget, and
/// the rest is forced. Each later start sequence has a budget of its own. A start sequence at the end of the prompt counts. If
/// earlier turns in the prompt have reasoning without an end, use AfterPrompt, with a prompt_length before the last start.
/// In a Processors, put it after what could forbid the forced tokens: it does not allow them again.
/// ForcedTokens drafts the forced tokens: FallbackDrafter{ForcedTokens{budget, vocab_size}, drafter}.
/// Source: --reasoning-budget and --reasoning-budget-message of llama.cpp. There the whole end sequence is forced, even if the
/// text has begun it; and forcing waits for the end of a character that takes several tokens.
/// Throws: InvalidArgument if start or end has no tokens, a token is negative, or `tokens` is. If a forced token has no
/// finite logit in the row, a draw from the row throws InvalidDistribution.
/// Cost: O(1) for each token. A pass over the row where a token is forced. No allocation in steady state.
/// Memory: 24 bytes for each token of the text.
class ReasoningBudget {
 public:
  explicit ReasoningBudget(ReasoningBudgetSettings settings)
      : start_("start", std::move(settings.start)),
        end_("end", settings.end),
        forced_("message", message_and_end(settings)),
        tokens_(settings.tokens) {
    if (tokens_ < 0) detail::invalid_argument("ReasoningBudget: tokens = ", tokens_, " is negative");
    states_.push_back({});
  }

  template <class Logits>
  void apply(Logits&& logits) const {
    using Scalar = typename std::remove_cvref_t<Logits>::Scalar;
    constexpr Scalar none = -std::numeric_limits<Scalar>::infinity();
    const State& state = states_.back();
    if (state.used < tokens_) return;
    const auto row = detail::partial(logits);
    Scalar* const forced = row.find(forced_[state.forced]);
    const Scalar logit = forced != nullptr ? *forced : none;
    row.columns().setConstant(none);
    if (forced != nullptr) *forced = logit;
  }
  void push(Token x) { states_.push_back(after(states_.back(), x)); }
  void pop(Index n) { detail::resize(states_, std::ssize(states_) - n); }

 private:
  static constexpr Index outside = -1;

  struct State {
    Index used = outside;  // tokens of the budget
    Index matched = 0;     // of the start sequence, or inside of the end sequence
    Index forced = 0;      // of the message and the end sequence
  };

  State after(State state, Token x) const {
    if (state.used == outside) {
      state.matched = start_.next(state.matched, x);
      return state.matched == start_.size() ? State{.used = 0} : state;
    }
    state.matched = end_.next(state.matched, x);
    if (state.matched == end_.size()) return {};
    state.forced = forced_.next(state.forced, x);
    state.used = std::min(state.used + 1, tokens_);
    return state;
  }

  static std::vector<Token> message_and_end(const ReasoningBudgetSettings& settings) {
    std::vector<Token> forced = settings.message;
    detail::append(forced, settings.end);
    return forced;
  }

  detail::SequenceMatcher start_, end_, forced_;
  Index tokens_;
  std::vector<State> states_;  // after each number of tokens
};

}  // namespace specdec

// The text of a sequence, and when it ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/text/stop_strings.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::detail {

/// What a model of this vocabulary, whose context holds `most` tokens, can go on from.
inline void check_prompt(const char* name, TokenIds prompt, const Options& options, Index vocab_size,
                         Index most) {
  if (vocab_size < 1) invalid_argument("the target has a vocabulary of ", vocab_size, " tokens");
  if (prompt.empty()) invalid_argument(name, " is empty: there is nothing to continue");
  check_tokens(name, prompt, vocab_size);
  check_tokens("stop_tokens", options.stop_tokens.ids(), vocab_size);
  if (prompt.size() > most)
    invalid_argument(name, " has ", prompt.size(), " tokens, but the target's context holds ", most);
  if (options.max_new_tokens < 0)
    invalid_argument("max_new_tokens = ", options.max_new_tokens, " is negative");
  check_gamma_option(options.gamma);
  check_log_probabilities(options.log_probabilities);
}

/// How much of what a step brings enters a text, and whether the text ends there.
struct Cut {
  Index tokens = 0;
  std::optional<StopReason> stop = {};  // none where there are no more tokens, or the budget is spent
  std::optional<StopMatch> match = {};
  StopSearch search = {};  // how far stop strings have been looked for
};

/// A prompt and the tokens that have followed it: up to a stop token, a stop string, the end of the budget or the caller's
/// word.
class Text {
 public:
  Text(TokenIds prompt, Options options) : options_(std::move(options)) {
    context_.reserve(static_cast<std::size_t>(prompt.size()));
    extend(prompt);
  }

  const Options& options() const { return options_; }
  std::span<const Token> context() const { return context_; }
  /// None of a text that was moved away.
  std::span<const Token> tokens() const {
    return std::span(context_).subspan(std::min(prompt_size_, context_.size()));
  }
  Index size() const { return static_cast<Index>(context_.size()); }
  Index remaining() const { return options_.max_new_tokens - static_cast<Index>(tokens().size()); }

  /// A text that was moved away is done, too.
  bool done() const { return context_.empty() || stopped_ || remaining() <= 0; }
  StopReason stop_reason() const { return stop_reason_; }
  /// None of a text that was moved away.
  std::optional<StopMatch> stop_match() const { return context_.empty() ? std::nullopt : stop_match_; }
  /// Whether it came to its end by itself: at a place that depends on nothing but the text.
  bool ended_by_itself() const { return done() && stop_reason_ != StopReason::callback; }

  /// Of a text that is not done.
  void stop() {
    stop_reason_ = StopReason::callback;
    stopped_ = true;
  }

  /// Room for that many more, so that append() allocates nothing. The context moves here alone: drafters may hold
  /// views of it in between.
  void reserve(Index more) {
    const auto needed = context_.size() + static_cast<std::size_t>(more);
    if (context_.capacity() < needed) context_.reserve(2 * needed);
  }

  /// Where the tokens, and then `last`, have to be cut: behind a stop token or the token that completes a stop string, both
  /// of which count before the end of the budget does. Changes nothing. Throws what the tokenizer of the stop strings throws.
  Cut cut(std::span<const Token> tokens, Token last) const {
    Cut cut{.search = search_};
    for (const Token x : tokens) look_at(x, cut);
    look_at(last, cut);
    return cut;
  }

  /// Enters the tokens and then `last`, as far as the cut goes; what lies behind never happened. Returns what was entered.
  std::span<const Token> append(std::span<const Token> tokens, Token last, const Cut& cut) {
    const std::size_t before = context_.size();
    const auto entered = static_cast<std::size_t>(cut.tokens);
    for (std::size_t i = 0; i < entered; ++i) context_.push_back(i < tokens.size() ? tokens[i] : last);
    search_ = cut.search;
    if (cut.stop) {
      stop_reason_ = *cut.stop;
      stop_match_ = cut.match;
      stopped_ = true;
    }
    return std::span<const Token>(context_).subspan(before);
  }

  /// How many tokens another context and this one begin with in common.
  Index common_length(TokenIds other) const {
    const Index most = std::min(other.size(), size());
    Index length = 0;
    while (length < most && other[length] == context_[static_cast<std::size_t>(length)]) ++length;
    return length;
  }

  /// Goes on with other options from the first `kept` tokens and `more`, all of which are the prompt from here on.
  void go_on(Index kept, std::span<const Token> more, Options options) {
    context_.reserve(static_cast<std::size_t>(kept) + more.size());
    options_ = std::move(options);  // nothing throws from here on
    stopped_ = false;
    stop_reason_ = StopReason::length;
    stop_match_.reset();
    search_ = {};
    context_.resize(static_cast<std::size_t>(kept));
    extend(TokenIds(more));
  }

 private:
  void look_at(Token x, Cut& cut) const {
    if (cut.stop || cut.tokens >= remaining()) return;
    ++cut.tokens;
    if (options_.stop_tokens.contains(x)) {
      cut.stop = StopReason::stop_token;
    } else if ((cut.match = options_.stop_strings.find(cut.search, x))) {
      cut.stop = StopReason::stop_string;
    }
  }

  // There has to be room.
  void extend(TokenIds prompt) {
    for (Index i = 0; i < prompt.size(); ++i) context_.push_back(static_cast<Token>(prompt[i]));
    prompt_size_ = context_.size();
  }

  Options options_;
  std::vector<Token> context_;
  std::size_t prompt_size_ = 0;
  StopReason stop_reason_ = StopReason::length;
  std::optional<StopMatch> stop_match_;
  StopSearch search_;
  bool stopped_ = false;
};

}  // namespace specdec::detail

// The text of a sequence, where it ends, and how large its next draft may be.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/text/stop_search.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0::detail {

/// Throws InvalidArgument if a model with this vocabulary and a context of `most` tokens cannot continue the prompt so.
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
  if (options.min_new_tokens < 0)
    invalid_argument("min_new_tokens = ", options.min_new_tokens, " is negative");
  for (std::size_t i = 0; i < options.keys.size(); ++i)
    if (const Index at = options.keys[i].position, least = i == 0 ? 0 : options.keys[i - 1].position + 1;
        at < least || at >= prompt.size())
      invalid_argument("keys[", i, "].position = ", at, " is outside ", least, "..", prompt.size() - 1);
  check_gamma_option(options.gamma);
  check_log_probabilities(options.log_probabilities, vocab_size);
}

/// What enters a text of some tokens that may come next, and whether the text ends there.
struct Cut {
  Index tokens = 0;                      // how many of them enter it
  StopReason stop = StopReason::length;  // else a stop token, stop string or the condition, never the budget
  std::optional<StopMatch> match = {};
  StopSearch search = {};              // how far stop strings have been looked for
  std::exception_ptr error = nullptr;  // what the stop strings' tokenizer, or the condition, has thrown
};

/// A prompt and the new tokens after it, up to a stop token, a stop string, the end of the budget, or where the caller stops.
class Text {
 public:
  Text(TokenIds prompt, Options options) : options_(std::move(options)) {
    context_.reserve(static_cast<std::size_t>(prompt.size()));
    extend(prompt);
  }

  const Options& options() const { return options_; }
  std::span<const Token> context() const { return view_of(context_); }
  /// Empty for a moved-from text.
  std::span<const Token> tokens() const {
    return view_of(context_).subspan(std::min(prompt_size_, context_.size()));
  }
  Index size() const { return static_cast<Index>(context_.size()); }
  Index remaining() const { return options_.max_new_tokens - static_cast<Index>(tokens().size()); }

  /// A moved-from text is done, too.
  bool done() const { return context_.empty() || stopped_ || remaining() <= 0; }
  bool is_stopped() const { return stopped_; }
  StopReason stop_reason() const { return stop_reason_; }
  /// Empty for a moved-from text.
  std::optional<StopMatch> stop_match() const { return context_.empty() ? std::nullopt : stop_match_; }
  /// Whether the text ended by a stop token, a stop string or the budget, not by the caller.
  bool ended_by_itself() const { return done() && stop_reason_ != StopReason::callback; }

  /// Pre: not done().
  void stop() {
    stop_reason_ = StopReason::callback;
    stopped_ = true;
  }

  /// Makes room for `more` tokens. append() then allocates nothing and does not move the context, of which drafters hold views.
  void reserve(Index more) {
    const auto needed = context_.size() + static_cast<std::size_t>(more);
    if (context_.capacity() < needed) context_.reserve(2 * needed);
  }

  /// Nothing comes next.
  Cut cut() {
    if (search_.state < 0) search_ = begun(options_.stop_strings);
    return {.search = search_};
  }
  /// Whether the text ends with the tokens of the cut: at a stop token, at the token that completes a stop string, at the token
  /// with which the condition ends it, at the end of the budget, or in an error.
  bool ends(const Cut& cut) const {
    return cut.stop != StopReason::length || cut.error || cut.tokens >= remaining();
  }
  /// Adds token x to a cut that does not end the text. `before()` gives the tokens of the cut before x. If the last token of the
  /// budget is also a stop, the stop is the reason. Changes nothing else.
  /// Pre: there is room for the tokens.
  template <class Before>
  void add(Token x, Cut& cut, const Before& before) {
    ++cut.tokens;
    cut.error = error_of([&] { look_for_stop(x, cut); });
    if (!options_.ends || cut.error || cut.stop != StopReason::length) return;
    const std::size_t size = context_.size();
    cut.error = error_of([&] {
      detail::append(context_, before());
      context_.push_back(x);
      if (options_.ends(tokens())) cut.stop = StopReason::condition;
    });
    context_.resize(size);
  }

  /// Appends the tokens that a cut has let in. Returns them, as part of the context.
  std::span<const Token> append(std::span<const Token> tokens, const Cut& cut) {
    const std::size_t before = context_.size();
    for (const Token x : tokens) context_.push_back(x);
    search_ = cut.search;
    if (cut.stop != StopReason::length) {
      stop_reason_ = cut.stop;
      stop_match_ = cut.match;
      stopped_ = true;
    }
    return view_of(context_).subspan(before);
  }

  /// The length of the common prefix with another context that has these keys.
  Index common_length(TokenIds other, const std::vector<ContextKey>& keys) const {
    const Index most = std::min({other.size(), size(), first_difference(options_.keys, keys)});
    Index length = 0;
    while (length < most && other[length] == context_[static_cast<std::size_t>(length)]) ++length;
    return length;
  }

  /// Whether another text has the same prompt, and records the same.
  bool begins_like(const Text& other) const {
    return prompt_size_ == other.prompt_size_ &&
           options_.log_probabilities == other.options_.log_probabilities &&
           common_length(view_of(other.context_), other.options_.keys) >= static_cast<Index>(prompt_size_);
  }

  /// How far stop strings have begun in the new tokens. Throws: what their tokenizer throws.
  StopSearch begun(const StopStrings& strings) const {
    StopSearch search;
    for (const Token x : tokens()) strings.find(search, x, false);
    return search;
  }
  /// Other options from here on. Throws nothing.
  void change(Options&& options) {
    options_ = std::move(options);
    search_.state = -1;
  }

  /// Goes on with new options. The new prompt is the first `kept` tokens and `more`.
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
  // Whether x, the last token of the cut, is a stop token or completes a stop string.
  void look_for_stop(Token x, Cut& cut) const {
    const bool counts = std::ssize(tokens()) + cut.tokens >= options_.min_new_tokens;
    if (counts && options_.stop_tokens.contains(x)) cut.stop = StopReason::stop_token;
    else if ((cut.match = options_.stop_strings.find(cut.search, x, counts)))
      cut.stop = StopReason::stop_string;
  }

  // Pre: there is room for the prompt.
  void extend(TokenIds prompt) {
    for (Index i = 0; i < prompt.size(); ++i) context_.push_back(static_cast<Token>(prompt[i]));
    prompt_size_ = context_.size();
  }

  Options options_;
  std::vector<Token> context_;
  std::size_t prompt_size_ = 0;
  StopReason stop_reason_ = StopReason::length;
  std::optional<StopMatch> stop_match_;
  StopSearch search_;  // state −1: other options came
  bool stopped_ = false;
};

/// The limits of a draft for which the draft length asks for `wanted` tokens, and of which the rule needs `least`. The target can
/// take in, and drop again, `most` tokens: all tokens of a tree must fit there. Only a path must fit in the budget.
/// Throws: InvalidArgument if `wanted` is outside 0..gamma, or if nothing keeps a line to longest_draft tokens.
inline DraftLimits limits_of_draft(const Text& text, bool branches, Index wanted, Index least, Index most) {
  const Options& options = text.options();
  if (wanted < 0 || wanted > options.gamma)
    invalid_argument("the draft-length policy asks for ", wanted,
                     " tokens, outside 0..gamma = ", options.gamma);
  const Index nodes = std::min(std::max(wanted, least), most);
  const Index depth = std::min(std::max(text.remaining() - 1, least), most);
  if (branches) return {.nodes = std::min(nodes, longest_draft), .depth = std::min(depth, longest_draft)};
  const Index length = std::min(nodes, depth);
  if (length > longest_draft)
    invalid_argument("gamma = ", options.gamma, " and nothing else keeps drafts to ", longest_draft,
                     " tokens, neither the draft length nor max_new_tokens = ", options.max_new_tokens,
                     " nor the target's context");
  return {.nodes = length, .depth = length};
}

/// The limits, and for paths that may end early the stop tokens: a view of the text's options.
inline DraftLimits with_stops(DraftLimits limits, const Text& text) {
  if (limits.fixed) return limits;
  limits.stop_tokens = text.options().stop_tokens.ids();
  limits.stops_from = text.options().min_new_tokens - std::ssize(text.tokens()) - 1;
  return limits;
}

}  // namespace specdec::detail

// Options and result of a generation.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/log_probabilities.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/text/stop_search.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The tokens that end a text: a list of ids of 32 or 64 bits.
class StopTokens {
 public:
  StopTokens() = default;
  StopTokens(std::initializer_list<std::int64_t> ids) : ids_(ids) {}
  template <class Ids>
    requires std::convertible_to<const Ids&, TokenIds>
  StopTokens(const Ids& ids) {
    const TokenIds list(ids);
    for (Index i = 0; i < list.size(); ++i) ids_.push_back(list[i]);
  }

  void push_back(std::int64_t id) { ids_.push_back(id); }
  bool contains(Token x) const { return std::find(ids_.begin(), ids_.end(), x) != ids_.end(); }
  bool empty() const { return ids_.empty(); }
  TokenIds ids() const& { return detail::view_of(ids_); }
  TokenIds ids() const&& = delete;  // the view would outlive its list

 private:
  std::vector<std::int64_t> ids_;
};

/// What a position of a context holds that its token does not tell: a hash of the image or embedding there, say.
struct ContextKey {
  Index position = 0;  ///< from the first token of the prompt on
  std::uint64_t key = 0;

  friend bool operator==(const ContextKey&, const ContextKey&) = default;
};

/// How much to generate, and how.
struct Options {
  /// The token budget; 0 generates nothing, and only tells the log-probabilities of the prompt, if asked for. `unlimited`:
  /// until a stop token, a stop string, a full context, or until the caller stops.
  Index max_new_tokens = 128;
  /// The most tokens drafted per target call; 0 is ordinary decoding. If it is `unlimited`, only the draft-length policy,
  /// the budget and the target's context limit a draft. A linear draft of more than longest_draft tokens is then an error.
  Index gamma = 4;
  StopTokens stop_tokens = {};    ///< the first of these ends the output; it is part of the output
  StopStrings stop_strings = {};  ///< the token that completes one of these ends the output
  /// Before so many new tokens, stop tokens and stop strings end nothing, and are text like any other. (MinLength, a processor,
  /// keeps the target from writing them.)
  Index min_new_tokens = 0;
  /// Given all new tokens so far: true ends the output with the last of them, in the middle of a step, too. Its answer must depend
  /// on these tokens alone, since it is asked ahead of the verdict: no row after the end of a text is asked for. In each step it
  /// is asked once about each drafted token, up to one that ends the text, with the tokens before it in the draft, and once about
  /// the token that the target adds, unless a stop token or a stop string ends the text there. An error about a drafted token ends
  /// the step only if the target accepts the token. On the threads that propose and that verify.
  std::function<bool(std::span<const Token>)> ends = nullptr;
  LogProbabilityOptions log_probabilities = {};  ///< which log-probabilities to record; by default none
  /// For a prompt that is more than its tokens, in ascending order: a key at the first placeholder of each image or embedding, and
  /// one at 0 for an adapter. What is cached of a text serves another (resume(), twins) up to the first key in which they differ.
  /// A next turn adds keys to the keys of its text; change() and a fork leave them as they are.
  std::vector<ContextKey> keys = {};
};

/// Why a generation ended.
enum class StopReason {
  length,       ///< the token budget is spent
  context,      ///< the target's context is full: it holds all tokens but the last
  stop_token,   ///< the last token is a stop token
  stop_string,  ///< the last token completes a stop string
  callback,     ///< the caller stopped it
  condition,    ///< Options::ends said so
};

/// Prints the name of the reason.
inline std::ostream& operator<<(std::ostream& out, StopReason reason) {
  constexpr const char* names[] = {"length", "context", "stop_token", "stop_string", "callback", "condition"};
  return out << names[static_cast<std::size_t>(reason)];
}

/// What was generated: the new tokens only.
struct Result {
  std::vector<Token> tokens;
  Stats stats = {};
  StopReason stop_reason = StopReason::length;
  std::optional<StopMatch> stop_match = {};  ///< the place of the stop string that ended the text, if one did
  /// One value for each token, for the rows that Options::log_probabilities asks for.
  LogProbabilities log_probabilities = {}, raw_log_probabilities = {};
  /// If LogProbabilityOptions::prompt is set: one value for each token of the prompt but the first, given all tokens before it.
  /// Where a part of the prompt was cached, at the start or after a pause, not for this part and the token after it.
  LogProbabilities prompt_log_probabilities = {}, raw_prompt_log_probabilities = {};
  /// How many tokens of the prompt the target was not fed, because its context held them when the text was first proposed: a prefix
  /// that was filled, a copy for a fork, the turns before.
  Index cached = 0;
  std::vector<bool> drafted = {};  ///< whether each token was drafted; empty without a StatsObserver

  /// The text of the tokens, cut before a stop string.
  /// Throws: what `bytes` throws.
  template <class Bytes>
  std::string text(const Bytes& bytes) const {
    static_assert(TokenBytes<Bytes>, "the tokenizer is no specdec::TokenBytes");
    std::string out;
    for (const Token x : tokens) out += bytes(x);
    if (stop_match) out.resize(static_cast<std::size_t>(stop_match->begin));
    return out;
  }
};

namespace detail {

/// The first position at which contexts with these keys may differ.
inline Index first_difference(const std::vector<ContextKey>& a, const std::vector<ContextKey>& b) {
  const Index k = common_length(a, b);
  const auto position = [k](const auto& keys) {
    return k < std::ssize(keys) ? at(keys, k).position : unlimited;
  };
  return std::min(position(a), position(b));
}

/// Whether the argument is a list of token ids. If not, a compile error that says what it is, or names the order of arguments.
template <class Prompt>
consteval bool fits_prompt() {
  fits_ids<Prompt>();
  static_assert(MeantAsIds<Prompt>,
                "the prompt is no list of token ids: the order of the arguments is (prompt, options, rng)");
  return std::convertible_to<const Prompt&, TokenIds>;
}

/// Does not compile: the options are not where they belong.
template <class First, class Second>
consteval bool fits_order() {
  static_assert(!std::same_as<First, First> || !std::same_as<Second, Second>,
                "the options are the second argument: the order of the arguments is (prompt, options, rng)");
  return true;
}

struct NoCallback {
  void operator()(std::span<const Token>) const {}
};

/// Whether F can be called with the tokens of a step. A compile error that says so, if it cannot.
template <class F>
consteval bool fits_callback() {
  static_assert(std::invocable<F, std::span<const Token>>,
                "the callback is not called with (std::span<const specdec::Token> emitted): see "
                "specdec::SpecDec::generate");
  return std::invocable<F, std::span<const Token>>;
}

}  // namespace detail
}  // namespace specdec

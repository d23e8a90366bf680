// What a batch is asked for, what a text brings into it, and how it leaves.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// How a batch uses its target calls.
struct BatchOptions {
  /// The most tokens in one target call. A sequence that finds no room waits, and goes first in the next call. A prompt that
  /// is too long for one call is fed in parts. A ModelDrafter over a BatchModel feeds no more in a call of its model, and reads
  /// long texts by several calls within one draft. Models for one text, and the model of a CascadeDrafter, have no such limit.
  Index tokens_per_call = unlimited;
};

/// Called with the new tokens of a text's step. A callable that returns bool ends the text by false.
class OnStep {
 public:
  OnStep() = default;
  template <std::invocable<std::span<const Token>> F>
    requires(!std::same_as<std::remove_cvref_t<F>, OnStep>)
  OnStep(F&& f) {
    if constexpr (std::same_as<std::invoke_result_t<F&, std::span<const Token>>, bool>)
      call_ = std::forward<F>(f);
    else
      call_ = [call = std::forward<F>(f)](std::span<const Token> emitted) mutable {
        call(emitted);
        return true;
      };
  }

  explicit operator bool() const { return static_cast<bool>(call_); }
  bool operator()(std::span<const Token> emitted) const { return call_(emitted); }

 private:
  std::function<bool(std::span<const Token>)> call_;
};

/// A text to generate, with all that it may bring.
template <class Source>
struct Request {
  TokenIds prompt = {};
  Options options = {};
  /// The text's random numbers: a generator of its own, or std::ref(rng); for KeyedVerifier a Keyed.
  Source source;
  /// How many tokens of the prompt the target's context of this number holds already: a shared prefix, say. They are not
  /// checked. The drafter reads them anyway.
  Index cached = 0;
  OnStep on_step = {};  ///< called on the thread that steps
  /// What target, drafter, chains and processors know the text by for life, 0 or more. −1: the next that this batch never used.
  Index number = -1;
  /// Whether the text stays when it has ended, with its contexts, until add_turn() or cancel().
  bool stays = false;
};

/// Another sample of a text: what differs from the text. The twin of a text that stays (Request::stays) stays, too.
template <class Source>
struct Twin {
  /// The twin's random numbers: a generator of its own, or std::ref(rng); for KeyedVerifier a Keyed.
  Source source;
  /// If not empty, the twin's options. max_new_tokens and min_new_tokens count the new tokens before the fork, too. Stops are
  /// looked for after the fork. log_probabilities must be those of the text.
  std::optional<Options> options = {};
  /// With an ExternalTarget: how many tokens of the text the engine will have copied for the twin's number.
  Index cached = 0;
  OnStep on_step = {};  ///< called on the thread that steps, with the twin's tokens
  /// What target, drafter, chains and processors know the twin by. −1: the next number that was never used in this batch.
  Index number = -1;
};

/// A sequence that was taken out of a batch, with all that belongs to it: its text, its rule with what that remembers, its random
/// numbers, its own draft length if it has one, its callback, where stop strings have been looked for, its log-probabilities and
/// statistics. It has no context in a model: the target reads the text again, unless add() says more.
template <class Entry, class Sequence, class State>
class PausedRequest {
 public:
  Index number() const { return entry().number(); }
  const Sequence& sequence() const& { return entry().seat(); }
  const Sequence& sequence() const&& = delete;
  /// Other options: see specdec::Sequence::change.
  void change(Options options) { entry().seat().change(std::move(options)); }

 private:
  template <class, class, class, class, class>
  friend class Batch;
  PausedRequest(std::unique_ptr<Entry> entry, State state)
      : entry_(std::move(entry)), state_(std::move(state)) {}

  Entry& entry() const {
    if (!entry_) detail::invalid_call("a paused sequence was added before: it is in a batch");
    return *entry_;
  }

  std::unique_ptr<Entry> entry_;
  State state_;  // of the drafter
};

/// A text that has ended.
struct Finished {
  Index sequence = 0;                  ///< its number
  Result result = {};                  ///< what was generated, up to the error if there was one
  std::exception_ptr error = nullptr;  ///< the error that ended it, if one did
};

}  // namespace specdec

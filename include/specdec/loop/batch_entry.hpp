// A sequence of a batch, with its own source of chance and callback.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/chance/any_generator.hpp"
#include "specdec/chance/chance.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/chance/rewindable_generator.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec::detail {

/// A Keyed needs no rewinding: its numbers depend on the place in the text only.
class RewindableKeyed : public Keyed {
 public:
  explicit RewindableKeyed(const Keyed& keyed) : Keyed(keyed) {}
  void rewind() {}
  void mark() {}
};

/// Given: the source of chance that the caller passes for a sequence with rule V. Kept: the type that the sequence stores it
/// in.
template <class V>
struct EntrySource {
  using Given = std::conditional_t<draws_keyed<V>, Keyed, AnyGenerator>;
  using Kept = std::conditional_t<draws_keyed<V>, RewindableKeyed, RewindableGenerator>;
};

/// Called with the new tokens of a sequence; returning false ends the sequence.
using OnStep = std::function<bool(std::span<const Token>)>;

template <class F>
OnStep on_step_of(F&& f) {
  if constexpr (std::same_as<std::invoke_result_t<F&, std::span<const Token>>, bool>) {
    return std::forward<F>(f);
  } else {
    return [f = std::forward<F>(f)](std::span<const Token> emitted) mutable { return f(emitted), true; };
  }
}

/// The sequence's own draft length; empty if all sequences share one.
template <class Policy, bool shared>
struct OwnPolicy {
  Policy policy;
  Index wanted(Index /*of_all*/, Index most) { return policy.next(most); }
};
template <class Policy>
struct OwnPolicy<Policy, true> {
  Index wanted(Index of_all, Index most) const { return std::min(of_all, most); }
};

/// A sequence of a batch: its text, its source of chance, its callback, and its own draft length if it has one. In a step it
/// touches no other sequence.
template <class TextSeat, class Policy, bool shares_policy, class V>
class BatchEntry {
 public:
  using Seat = TextSeat;
  using Source = typename EntrySource<V>::Kept;

  /// The first `prefill` tokens of the prompt are fed separately, before the first step.
  BatchEntry(Index number, const ExternalTarget& target, const V& verifier,
             OwnPolicy<Policy, shares_policy> policy, TokenIds prompt, const Options& options, Index prefill,
             typename EntrySource<V>::Given source, OnStep on_step)
      : most_(options.gamma),
        source_(std::move(source)),
        on_step_(std::move(on_step)),
        policy_(std::move(policy)),
        seat_(target, verifier, prompt, options, Filled{prefill}),
        prefill_(prefill) {
    seat_.number = number;
  }
  BatchEntry(const BatchEntry&) = delete;
  BatchEntry& operator=(const BatchEntry&) = delete;

  Index number() const { return seat_.number; }
  /// The most tokens of a draft (Options::gamma).
  Index most() const { return most_; }
  Source& source() { return source_; }
  Policy& policy() { return policy_.policy; }
  Seat& seat() { return seat_; }
  const Seat& seat() const { return seat_; }
  bool over() const { return seat_.error || seat_.done(); }

  /// How many tokens of the prompt are still to be fed before the first step.
  Index uncached() const { return prefill_ - cached_; }
  void feed_prompt(Index count) {
    const auto tokens =
        seat_.context().subspan(static_cast<std::size_t>(cached_), static_cast<std::size_t>(count));
    seat_.next_feed = {.tokens = tokens, .from = cached_, .rows = 0};
  }
  /// The target has taken in what feed_prompt() said.
  void prompt_is_fed() { cached_ += std::ssize(seat_.next_feed.tokens); }

  /// The most tokens that the next step may feed. `wanted_of_all`: what a shared draft length asks for.
  Index most_fed(Index wanted_of_all) {
    seat_.error = error_of(
        [&] { seat_.asked = seat_.limits([&](Index most) { return policy_.wanted(wanted_of_all, most); }); });
    return std::ssize(seat_.context()) - seat_.kept() + seat_.asked.nodes;
  }

  /// Calls the callback with the tokens of the last step. The step is final from here on.
  void tell() {
    source_.mark();
    if (seat_.last_emitted.empty() || !on_step_) return;
    seat_.error = error_of([&] {
      if (!on_step_(seat_.last_emitted)) seat_.stop();
    });
  }

  bool judged = false;  ///< whether the last feed's rows have come

 private:
  Index most_;
  Source source_;
  OnStep on_step_;
  OwnPolicy<Policy, shares_policy> policy_;
  Seat seat_;
  Index prefill_, cached_ = 0;  // prompt tokens to feed separately, and how many of these are cached
};

}  // namespace specdec::detail

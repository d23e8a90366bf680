// A sequence of a batch, with its own drafter, source of chance and callback.
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
#include "specdec/draft/batch_drafter.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/keep_drafting.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/measure/clock.hpp"
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

/// Whether drafts of D may be trees. D drafts for all sequences or for one.
template <class D>
inline constexpr bool any_drafts_trees = [] {
  if constexpr (BatchDrafter<D>) return batch_drafts_trees<D>;
  else return drafts_trees<D>;
}();

/// The type of a draft for one sequence of a batch.
template <class D, class Source, class KeepDrafting>
struct DraftOfEntry {
  using Type = std::remove_cvref_t<decltype(ask_drafter(
      std::declval<D&>(), std::span<const Token>{}, DraftLimits{},
      std::declval<std::remove_reference_t<decltype(as_chance(std::declval<Source&>()))>&>(),
      std::declval<const KeepDrafting&>()))>;
};
template <BatchDrafter D, class Source, class KeepDrafting>
struct DraftOfEntry<D, Source, KeepDrafting> {
  using Type = std::remove_cvref_t<decltype(std::declval<D&>().drafted(Index{}))>;
};

/// The sequence's own drafter; empty if one drafter serves all sequences.
template <class D>
struct OwnDrafter {
  D drafter;
};
template <BatchDrafter D>
struct OwnDrafter<D> {};

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

/// A sequence of a batch: its step, its source of chance, its callback, and its own drafter if it has one. In a step it
/// touches no other sequence. Exceptions are caught and kept in error().
template <class D, class V, class Policy, bool shares_policy>
class BatchEntry {
  using KeepDrafting = detail::KeepDrafting<Policy, remembers_sequence<V>>;
  using Draft = typename DraftOfEntry<D, typename EntrySource<V>::Kept, KeepDrafting>::Type;
  static_assert(suits<D, Draft, V>());

 public:
  using Step = specdec::Step<V, Draft, any_drafts_trees<D>>;
  using Source = typename EntrySource<V>::Kept;

  /// The first `prefill` tokens of the prompt are fed separately, before the first step.
  BatchEntry(Index number, const ExternalTarget& target, OwnDrafter<D> drafter, const V& verifier,
             OwnPolicy<Policy, shares_policy> policy, TokenIds prompt, const Options& options, Index prefill,
             typename EntrySource<V>::Given source, OnStep on_step)
      : number_(number),
        most_(options.gamma),
        source_(std::move(source)),
        on_step_(std::move(on_step)),
        own_(std::move(drafter)),
        policy_(std::move(policy)),
        step_(target, verifier, prompt, options, Filled{prefill}),
        prefill_(prefill) {
    if constexpr (!BatchDrafter<D>) own_.drafter.truncate(0);
  }
  BatchEntry(const BatchEntry&) = delete;
  BatchEntry& operator=(const BatchEntry&) = delete;

  Index number() const { return number_; }
  /// The most tokens of a draft (Options::gamma).
  Index most() const { return most_; }
  Source& source() { return source_; }
  /// The error that ended the sequence, if one did.
  const std::exception_ptr& error() const { return error_; }
  Step& step() { return step_; }
  const Step& step() const { return step_; }
  bool over() const { return error_ || step_.done(); }

  /// How many tokens of the prompt are still to be fed before the first step.
  Index uncached() const { return prefill_ - cached_; }
  void feed_prompt(Index count) {
    const auto tokens =
        step_.context().subspan(static_cast<std::size_t>(cached_), static_cast<std::size_t>(count));
    is_fed({.tokens = tokens, .from = cached_, .rows = 0});
  }

  Policy& policy() { return policy_.policy; }

  /// The most tokens that the next step may feed. `wanted_of_all`: what a shared draft length asks for.
  Index most_fed(Index wanted_of_all) {
    source_.rewind();  // the last step may have failed
    withdraw();
    error_ = error_of(
        [&] { limits_ = step_.limits([&](Index most) { return policy_.wanted(wanted_of_all, most); }); });
    return std::ssize(step_.context()) - step_.kept() + limits_.nodes;
  }
  const DraftLimits& limits() const { return limits_; }

  /// Drafts with the sequence's own drafter, and sets feed().
  void draft(const KeepDrafting& keep_drafting) {
    auto&& chance = as_chance(source_);
    stand_at(chance, std::ssize(step_.context()));
    error_ = error_of([&] {
      const auto start = Clock::now();
      Draft draft = ask_drafter(own_.drafter, step_.context(), limits_, chance, keep_drafting);
      const auto draft_time = Clock::now() - start;
      is_fed(step_.offer(std::move(draft), draft_time));
    });
  }
  /// Takes a draft from a drafter for all sequences, and sets feed(). If drafting failed, call fail() instead.
  void offer(const Draft& draft) {
    error_ = error_of([&] { is_fed(step_.offer(draft)); });
  }
  void fail(std::exception_ptr error) { error_ = std::move(error); }

  const BatchFeed& feed() const { return feed_; }

  /// Judges the draft by the sequence's rows of the target call.
  template <class Rows>
  void accept(const Rows& rows) {
    judged_ = true;
    if (feed_.rows == 0) {
      cached_ += std::ssize(feed_.tokens);
      emitted_ = {};
    } else {
      error_ = error_of([&] { judge(rows); });
      if (error_) withdraw();
    }
  }

  /// Whether accept() has been called with the rows of the last feed.
  bool judged() const { return judged_; }

  /// Tells the target which of the fed tokens to keep.
  template <class M>
  void keep_in(M& target) const {
    if constexpr (takes_trees<M>)
      if (!feed_.parents.empty()) return target.keep(number_, step_.kept_path());
    if (feed_.rows > 0) target.keep(number_, step_.kept());
  }

  /// Reports the step to the draft length, if the sequence took one.
  void tell(Policy& policy) {
    if (feed_.rows > 0 && !error_) policy.observe(step_.last());
  }
  /// Calls the callback with the tokens of the last step. The step is final from here on.
  void tell() {
    source_.mark();
    if (emitted_.empty() || !on_step_) return;
    error_ = error_of([&] {
      if (!on_step_(emitted_)) step_.stop();
    });
  }

 private:
  void is_fed(const Feed& feed) {
    feed_ = {feed, number_};
    judged_ = false;
  }

  template <class Rows>
  void judge(const Rows& rows) {
    auto&& chance = as_chance(source_);
    step_.weigh(rows, chance);
    if constexpr (!BatchDrafter<D>) tell_drafter(own_.drafter, step_.judged(rows));
    emitted_ = step_.commit();
    if constexpr (!BatchDrafter<D>) own_.drafter.truncate(step_.kept());
  }

  // Takes back the offer of a failed step.
  void withdraw() {
    if (!step_.offers()) return;
    step_.withdraw();
    if constexpr (!BatchDrafter<D>) own_.drafter.truncate(std::ssize(step_.context()));
  }

  Index number_, most_;
  Source source_;
  OnStep on_step_;
  std::exception_ptr error_;
  OwnDrafter<D> own_;
  OwnPolicy<Policy, shares_policy> policy_;
  Step step_;
  Index prefill_, cached_ = 0;  // prompt tokens to feed separately, and how many of these are cached
  DraftLimits limits_ = {.nodes = 0, .depth = 0};
  BatchFeed feed_;
  bool judged_ = false;
  std::span<const Token> emitted_;
};

}  // namespace specdec::detail

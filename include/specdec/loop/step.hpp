// One text in generation, one step at a time. A Step calls neither model nor drafter.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/loop/log_probability_observer.hpp"
#include "specdec/loop/observers.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/step_base.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/uncopied.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/verdict.hpp"
#include "specdec/verify/verify_line.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// A compile error if the rule cannot judge this drafter's drafts. Where all draft rows are one-hot, a rule remembers nothing.
template <class Drafter, class Draft, class V>
consteval bool suits() {
  using Row = RowOf<decltype(distributions(std::declval<const Draft&>().rows))>;
  static_assert(
      is_steady<Drafter> || std::same_as<Row, OneHotRow> || !remembers_sequence<V>,
      "a rule that remembers its sequence needs drafts whose length is settled and whose rows depend on the "
      "tokens before them alone: the drafter says that it is not steady (see specdec::Drafter)");
  return true;
}

/// A compile error with a message if target, rule and draft length do not fit the drafter. `trees`: its drafts may branch.
template <class Target, bool trees, class V, class Policy>
consteval bool fit_together() {
  static_assert(fits_verifier<V>());
  static_assert(
      judges_trees<V> || !trees,
      "the drafter drafts trees (a drafter of lines says drafts_trees = false), which this verifier does not "
      "judge: try specdec::TraversalVerifier, or specdec::TrunkAndSpares of a rule for lines");
  static_assert(!remembers_sequence<V> || !trees,
                "a rule that remembers its sequence judges lines: the drafter drafts trees");
  static_assert(takes_trees<Target> || !trees || is_external<Target>,
                "the drafter drafts trees, which the target does not take: see specdec::takes_trees, and "
                "specdec::PathByPath, with which any model takes them");
  static_assert(DraftLength<Policy>,
                "the draft length is no specdec::DraftLength, nor is each(length), which is for many texts");
  static_assert(counts_nodes<Policy> || !trees,
                "the drafter drafts trees, and the draft length counts the positions of a line: see "
                "specdec::DraftLength");
  return true;
}

/// The vocabulary size of the rows, or 0 if they do not tell one.
Index vocabulary_of(const auto& rows) {
  if constexpr (has_vocab_size<decltype(rows)>) return rows.vocab_size();
  else return 0;
}

}  // namespace detail

/// What is observed unless others are asked for: all that a Result shows.
using DefaultObservers = Observers<StatsObserver, LogProbabilityObserver>;

/// A text, the rule that judges its drafts, and its observers. The caller does the drafting and calls the target:
///
///   const DraftLimits limits = step.limits(wanted);   // wanted(most): how many tokens the draft length asks for
///   // a drafter drafts tokens after step.context(), within the limits
///   const Feed feed = step.offer(draft);
///   // the target: cut its context to feed.from tokens, feed it feed.tokens, take the rows of the last feed.rows
///   step.accept(rows, chance);   // the tokens emitted; the target keeps kept() tokens, or kept_path()
///
/// If anything throws, call withdraw(): this undoes the step, and it can be tried again. Sequence drives one text, Batch many.
///
/// V is the rule. D is the type of the drafts: a specdec::Draft is held by value; `const Draft&` is referred to. `branches`
/// says whether drafts may be trees. O are the Observers.
template <class V, class D, bool branches, class O = DefaultObservers>
class Step : public detail::StepBase<O> {
  using Base = detail::StepBase<O>;
  static constexpr bool refers = std::is_lvalue_reference_v<D>;
  using Held = std::conditional_t<refers, const std::remove_reference_t<D>*, D>;

 public:
  using Base::context, Base::done, Base::tokens;
  /// A verdict on a draft: a Verdict; a TreeVerdict if drafts may be trees.
  using Answer = std::conditional_t<branches, TreeVerdict, Verdict>;

  /// `target` tells the size of the vocabulary and of the target's context.
  /// Throws: InvalidArgument where SpecDec::start does.
  Step(const ExternalTarget& target, V verifier, TokenIds prompt, Options options, FilledContext filled = {},
       O observers = {})
      : Base(target, prompt, std::move(options), filled, std::move(observers)),
        fresh_(verifier),
        verifier_(std::move(verifier)) {
    if (!is_fresh(verifier_))
      detail::invalid_argument(
          "the verifier remembers a text: each text of a loop begins with one that remembers nothing");
  }

  /// The text's own copy of the verifier, with what it remembers.
  const V& verifier() const& { return verifier_; }
  const V& verifier() const&& = delete;  // the reference would dangle
  /// Whether a twin would go on with what the rule remembers of this text: their tokens would not be independent. A text that has
  /// ended goes on only by a next turn, which begins with a fresh rule, or by other options.
  bool shares_memory(bool other_options) const {
    return remembers_sequence<V> && (other_options || Base::continues_in(context(), Base::options())) &&
           (!tokens().empty() || !is_fresh(verifier_));
  }

  /// How large the next draft may be; no tokens when done(). For a tree, nodes counts all tokens, and depth limits each
  /// path. For a line both are the length. wanted(most) returns what the draft length asks for; `most` is Options::gamma.
  /// wanted() is called once for a step: its answer holds until a step succeeds.
  /// Throws: what wanted() throws.
  template <class Wanted>
  DraftLimits limits(const Wanted& wanted) {
    if (done()) return {.nodes = 0, .depth = 0};
    if (!Base::has_limits())
      Base::set_limits(branches, wanted(Base::options().gamma), min_draft_length(verifier_),
                       remembers_sequence<V>);
    return Base::reserved_limits();
  }

  /// Takes a draft and returns what the target must be fed to judge it. `draft_time` is the time that drafting took. The
  /// Feed's views live until the next offer(). The draft's views must live until commit() or withdraw().
  /// Pre: limits() was called.
  /// Throws: InvalidArgument if the draft exceeds its limits, is no valid tree, or has a token outside both the
  /// target's and the draft's vocabulary. Nothing is offered then.
  Feed offer(D draft, std::chrono::nanoseconds draft_time = {}) {
    const Feed feed = Base::make_offer({draft.tokens, detail::parents_of(draft)}, branches,
                                       detail::vocabulary_of(distributions(draft.rows)), draft_time);
    if constexpr (refers) draft_.value = &draft;
    else draft_.value.emplace(std::move(draft));
    return feed;
  }

  /// The draft on offer: its tokens, the rows that they were drawn from, and its parents. If a line was not fed whole (Feed),
  /// row i of the target is row min(i, feed.rows − 1) of those wanted.
  /// Throws: InvalidCall if nothing is on offer.
  const std::remove_reference_t<D>& draft() const {
    Base::offered().check_there();
    if constexpr (refers) return **draft_.value;
    else return *draft_.value;
  }

  /// Judges the offered draft by the target's rows. The text is as before until commit().
  /// Shapes: as many rows as the Feed asked for. Rows may be padded: to emit a token beyond the target's vocabulary is an error.
  /// Throws: what the rows and the rule throw; InvalidCall if nothing was offered.
  template <class Rows, class C>
  void weigh(const Rows& rows, C& chance) {
    withdraw_verdict();
    Base::begin_verdict();
    detail::stand_at(chance, std::ssize(context()));
    judge(rows, chance);
  }

  /// Where a verdict on the draft stops that was made elsewhere. Errors call it verdicts[number], or verdict.
  /// Throws: as settle().
  NodeVerdict stop_of(const Answer& verdict, Index number = -1) const {
    static_assert(!remembers_sequence<V> && !detail::has_commit<V>,
                  "the rule remembers drafts by their rows (it has min_draft_length() or commit()), and a "
                  "verdict that was made elsewhere has none: settle() is for rules that remember nothing, "
                  "such as specdec::BlockVerifier");
    if (Base::options().log_probabilities.any())
      detail::invalid_call(
          "log_probabilities are asked for, and a verdict that was made elsewhere has no rows to read them "
          "in: accept(rows, chance) in place of settle(verdict)");
    const std::string of = number < 0 ? "verdict." : detail::message("verdicts[", number, "].");
    return Base::offered().stop_of(verdict, Base::vocabulary(), repeats_rejected<V>, !needs_draft<V>, of);
  }
  /// In place of weigh(): takes the verdict of stop_of().
  void take(const NodeVerdict& stop) {
    withdraw_verdict();
    Base::begin_verdict();
    Base::template take_verdict<branches>(stop, verifier_, NoRows{});
  }

  /// After weigh(): the verdict on these rows, for a drafter that observes. The views live until commit() or withdraw().
  template <class Rows>
  Judged<Rows> judged(const Rows& rows) const {
    const TokenTreeView fed = Base::offered().fed_draft();
    return {rows, fed.tokens(), fed.parents(), Base::offered().verdict_on_fed()};
  }

  /// Appends what weigh() has accepted, x_1..x_τ, Y, to the text. Returns the emitted tokens: a view until the next limits().
  /// Throws: InvalidCall unless a draft was weighed since the last commit(); nothing else.
  std::span<const Token> commit() {
    const std::span<const Token> emitted = Base::enter();
    detail::commit(verifier_);
    before_.reset();
    draft_.value.reset();
    return emitted;
  }

  /// weigh() and commit().
  template <class Rows, class C>
  std::span<const Token> accept(const Rows& rows, C& chance) {
    weigh(rows, chance);
    return commit();
  }

  /// In place of accept(): a verdict on draft() by this rule, made elsewhere, on a device or in an engine's kernel. A rule that
  /// needs no draft rows (needs_draft) may have judged only what was fed.
  /// Throws: InvalidArgument if the rule cannot give it; InvalidCall if nothing was offered, or log_probabilities are asked for.
  /// The draft is still on offer then.
  std::span<const Token> settle(const Answer& verdict) {
    take(stop_of(verdict));
    return commit();
  }

  /// Takes back the offer, and the verdict on it.
  void withdraw() {
    Base::withdraw_offer();
    withdraw_verdict();
    draft_.value.reset();
  }

  /// Goes on from another context with new options: see Sequence::resume.
  void resume(TokenIds text, Options options) {
    std::optional<V> fresh;
    if (!Base::continues_in(text, options)) fresh = fresh_;
    Base::go_on(text, std::move(options));
    withdraw();  // nothing throws from here on
    if (fresh) verifier_ = std::move(*fresh);
  }

  /// Other options: see Sequence::change. What a rule remembers may reach as far as the budget, which must not shrink then.
  void change(Options options) {
    if (remembers_sequence<V> && options.max_new_tokens < Base::options().max_new_tokens)
      detail::invalid_argument("max_new_tokens = ", options.max_new_tokens,
                               " is less than before, up to where the rule remembers drafts: use cancel()");
    Base::change(std::move(options));
  }

  /// Starts the verifier afresh.
  void forget() {
    withdraw();
    verifier_ = fresh_;
  }
  /// Ends the text here.
  void stop() {
    withdraw();
    Base::stop_text();
  }

 private:
  void withdraw_verdict() {
    if (before_) verifier_ = *std::exchange(before_, std::nullopt);
    Base::withdraw_record();
  }

  template <class Rows, class C>
  void judge(const Rows& rows, C& chance) {
    constexpr auto needed = detail::draft_rows_for<V>;
    const TokenTreeView drafted = Base::offered().draft();
    const std::span<const Index> of_nodes = Base::offered().rows_of_nodes();
    if constexpr (branches)  // include <specdec/verify/verifier.hpp>
      judge_drafted(Drafted(rows, draft().rows, drafted.tokens(), drafted.parents(), needed, of_nodes),
                    chance);
    else judge_drafted(Drafted(rows, draft().rows, drafted.tokens(), needed, of_nodes), chance);
  }

  // A verifier changes its memory in commit(), if it has that. Else, with members, it is copied now, and withdraw() restores it.
  template <class Drafted, class C>
  void judge_drafted(const Drafted& drafted, C& chance) {
    static_assert(detail::fits_judge<V, Drafted, C>());
    Base::check_width(drafted.vocab_size());
    if constexpr (!detail::has_commit<V> && !std::is_empty_v<V>) before_ = verifier_;
    const NodeVerdict verdict = detail::judge_at_node(verifier_, drafted, chance, Base::vocabulary());
    Base::template take_verdict<branches>(verdict, verifier_, drafted);
  }

  detail::Uncopied<std::optional<Held>> draft_;  // on offer
  V fresh_, verifier_;
  std::optional<V> before_;  // the verifier before a verdict that may be taken back
};

}  // namespace specdec

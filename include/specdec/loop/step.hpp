// One text in the making, a step at a time, calling neither model nor drafter.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/step_base.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/verdict.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

namespace detail {

/// Says what is wrong where a rule cannot judge what a drafter makes. A one-hot row leaves a rule nothing to remember.
template <class Drafter, class Draft, class V>
consteval bool suits() {
  using Row = RowOf<decltype(distributions(std::declval<const Draft&>().rows))>;
  static_assert(
      is_steady<Drafter> || std::same_as<Row, OneHotRow> || !remembers_sequence<V>,
      "a rule that remembers its sequence needs drafts whose length is settled and whose rows depend on "
      "the tokens before them alone: the drafter says that it is not steady (see specdec::Drafter)");
  return true;
}

/// Says what is wrong where target, rule and draft length do not fit the drafts of a drafter, which are lines, or `trees`.
template <class Target, class Drafter, bool trees, class V, class Policy>
consteval bool fit_together() {
  static_assert(Verifier<V>,
                "the verifier is no specdec::Verifier: it is copied, and judge(drafted, chance) returns a "
                "specdec::Verdict, or of trees a specdec::NodeVerdict");
  static_assert(judges_trees<V> || !trees,
                "the drafter drafts trees (a drafter of lines says drafts_trees = false), which this "
                "verifier does not judge: try specdec::TraversalVerifier, or specdec::TrunkAndSpares of a "
                "rule for lines");
  static_assert(takes_trees<Target> || !trees || std::same_as<std::remove_const_t<Target>, ExternalTarget>,
                "the drafter drafts trees, which the target does not take: see specdec::takes_trees, and "
                "specdec::PathByPath, with which any model takes them");
  static_assert(DraftLength<Policy>, "the draft length is no specdec::DraftLength");
  static_assert(counts_nodes<Policy> || !trees,
                "the drafter drafts trees, and the draft length counts the positions of a line: see "
                "specdec::DraftLength");
  return true;
}

/// What is known of a target without calling it.
template <class M>
ExternalTarget described(const M& target) {
  return {target.vocab_size(), context_size(target)};
}

/// Of how many tokens the rows tell, or 0 where they do not say.
Index vocabulary_of(const auto& rows) {
  if constexpr (has_vocab_size<decltype(rows)>) return rows.vocab_size();
  else return 0;
}

}  // namespace detail

/// A text, the rule that judges its drafts and its statistics. It is asked how large a draft may be, is offered one, says
/// what the target has to be fed, and is told the rows:
///
///   const DraftLimits limits = step.limits(wanted);   // wanted(most): how many tokens the draft length asks for
///   // a drafter drafts to follow step.context() within the limits
///   const Feed feed = step.offer(draft);
///   // the target: the first feed.from tokens of its context stay, it is fed feed.tokens, with rows for the last feed.rows
///   step.accept(rows, draft, chance);   // the tokens emitted; the target keeps kept() tokens, or kept_path()
///
/// What fails has changed nothing, once withdraw() is called: the step can be tried again. Sequence drives one text with a
/// model and a drafter, Batch many.
///
/// V is the rule; `branches` says whether drafts may branch: then a draft's size is its number of tokens, and no path is
/// longer than the budget can take.
template <class V, bool branches>
class Step : public detail::StepBase {
 public:
  /// Of a target the step knows how many tokens there are, and how many its context holds.
  /// Throws std::invalid_argument: what SpecDec::start throws.
  Step(const ExternalTarget& target, V verifier, TokenIds prompt, Options options, Filled filled = {})
      : StepBase(branches, target, prompt, std::move(options), filled),
        fresh_(verifier),
        verifier_(std::move(verifier)) {}

  /// The text's own copy of the verifier, with what it remembers.
  const V& verifier() const& { return verifier_; }
  const V& verifier() const&& = delete;  // it would be gone

  /// How large the next draft may be; no tokens when done(). wanted(most) is what a draft length asks for, where most is
  /// Options::gamma. It is asked once for a step: the answer stays until a step has succeeded. The depth of a linear draft
  /// is its length. Throws what wanted() throws.
  template <class Wanted>
  DraftLimits limits(const Wanted& wanted) {
    if (done()) return {.nodes = 0, .depth = 0};
    if (!has_limits()) set_limits(wanted(options().gamma), min_draft_length(verifier_));
    return reserved_limits();
  }

  /// What the target has to be fed to judge this draft, which was made within the limits, and was `draft_time` in the
  /// making. Its views live until the next offer(); the draft's have to live until accept() or withdraw().
  /// Throws std::invalid_argument where the draft is larger than its limits, or is no tree, or has a token that nobody
  /// knows: nothing is offered then.
  template <class D>
  Feed offer(const D& draft, std::chrono::nanoseconds draft_time = {}) {
    return make_offer(draft.tokens, detail::parents_of(draft),
                      detail::vocabulary_of(distributions(draft.rows)), draft_time);
  }

  /// c += x_1..x_τ, Y: judges the draft that was offered by the target's rows, as many as the Feed asked for, and makes what
  /// comes out part of the text. Returns the tokens emitted, a view that lives until the next limits(). In between the
  /// drafter is told of the verdict, if there is one that wants to know. Rows may be padded: a token beyond the target's
  /// vocabulary that comes out is an error.
  /// Throws what the rows, the rule and the drafter throw, and std::logic_error where nothing was offered.
  template <class Rows, class D, class C, class... Drafter>
  std::span<const Token> accept(const Rows& rows, const D& draft, C& chance, Drafter&... drafter) {
    withdraw_verdict();
    begin_verdict();
    detail::stand_at(chance, std::ssize(context()));
    [[maybe_unused]] const NodeVerdict verdict = judge(rows, draft, chance);
    (detail::tell_drafter(drafter, rows, offered().tokens, offered().parents, verdict), ...);
    detail::commit(verifier_);  // nothing throws from here on
    before_.reset();
    return enter();
  }

  /// Takes back what was offered, and what was judged of it.
  void withdraw() {
    withdraw_offer();
    withdraw_verdict();
  }

  /// Goes on from another context with options of its own: see Sequence::resume.
  void resume(TokenIds context, Options options) {
    std::optional<V> fresh;
    if (!continues_in(context)) fresh = fresh_;
    go_on(context, std::move(options));
    withdraw_verdict();  // nothing throws from here on
    if (fresh) verifier_ = std::move(*fresh);
  }

  /// Starts the verifier afresh.
  void forget() {
    withdraw();
    verifier_ = fresh_;
  }
  /// Ends the text here.
  void stop() {
    withdraw();
    stop_text();
  }

 private:
  void withdraw_verdict() {
    if (before_) verifier_ = *std::exchange(before_, std::nullopt);
    withdraw_record();
  }

  template <class Rows, class D, class C>
  NodeVerdict judge(const Rows& rows, const D& draft, C& chance) {
    constexpr auto needed = detail::draft_rows_for<V>;
    if constexpr (branches)
      return judge(Drafted(rows, draft.rows, offered().tokens, offered().parents, needed), chance);
    else return judge(Drafted(rows, draft.rows, offered().tokens, needed), chance);
  }

  // What the verifier remembers is committed later; one that has members and no commit() is given back by withdraw().
  template <class D, class C>
  NodeVerdict judge(const D& drafted, C& chance) {
    static_assert(Verifier<V, D, C>, "the verifier is no specdec::Verifier for these rows");
    check_width(drafted.vocab_size());
    if constexpr (!detail::has_commit<V> && !std::is_empty_v<V>) before_ = verifier_;
    const NodeVerdict verdict = detail::judge_at_node(verifier_, drafted, chance, vocabulary());
    set_verdict(verdict);
    measure(drafted);
    record(drafted);
    return verdict;
  }

  // P(τ > i | x_1..x_{i+1}) under the rule in use if it says how, else what happened. Tokens after one that the
  // target rules out do not survive, whatever they are.
  template <class D>
  void measure(const D& drafted) {
    survivals.assign(static_cast<std::size_t>(drafted.gamma()), 0.0);
    told = !branches && tell(drafted);
    if constexpr (tells_survival<V> && !branches) {
      double survival = 1;
      for (std::size_t i = 0; i < ps.size(); ++i)
        survivals[i] = survival = verifier_.survival(survival, ps[i], qs[i]);
      if (!ps.empty()) return;
    }
    std::fill_n(survivals.begin(), accepted(), 1.0);
  }

  V fresh_, verifier_;
  std::optional<V> before_;  // the verifier before a verdict that may be taken back
};

}  // namespace specdec

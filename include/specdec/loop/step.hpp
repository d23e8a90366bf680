// One text in the making, a step at a time, calling neither model nor drafter.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/accepted_path.hpp"
#include "specdec/loop/feed_buffer.hpp"
#include "specdec/loop/log_probabilities.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/text.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/uncopied.hpp"
#include "specdec/parents.hpp"
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

/// A context that the caller has filled.
struct Filled {
  Index seen = 0;  ///< the target holds the first `seen` tokens of the prompt
};

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

/// What is known of a target without calling it.
template <class M>
ExternalTarget described(const M& target) {
  return {target.vocab_size(), context_size(target)};
}

}  // namespace detail

/// A text, the rule that judges its drafts and its statistics. It is asked how large a draft may be, is offered one, says
/// what the target has to be fed, and is told the rows:
///
///   const DraftLimits limits = step.limits(wanted);   // wanted(most): how many tokens the draft length asks for
///   // a drafter drafts to follow step.context() within the limits
///   const Feed feed = step.offer(draft);
///   // the target: the first feed.from tokens of its context stay, it is fed feed.tokens, with rows for the last feed.rows
///   step.judge(rows, draft, chance);
///   step.commit();                                    // the tokens emitted; the target keeps kept() tokens, or kept_path()
///
/// What fails before commit() has changed nothing, once withdraw() is called: the step can be tried again. Sequence drives
/// one text with a model and a drafter, Batch many.
///
/// V is the rule; `branches` says whether drafts may branch: then a draft's size is its number of tokens, and no path is
/// longer than the budget can take.
template <class V, bool branches>
class Step {
  using Clock = std::chrono::steady_clock;

  // What was offered. Its views are the drafter's.
  struct Offer {
    std::span<const Token> tokens;
    std::span<const Index> parents;  // none of a line
    std::chrono::nanoseconds draft_time;
    Clock::time_point made;

    Index size() const { return std::ssize(tokens); }
  };

 public:
  /// Of a target the step knows how many tokens there are, and how many its context holds.
  /// Throws std::invalid_argument: what SpecDec::start throws.
  Step(const ExternalTarget& target, V verifier, TokenIds prompt, Options options, Filled filled = {})
      : target_(target), fresh_(verifier), verifier_(std::move(verifier)), text_(prompt, std::move(options)) {
    check("prompt", prompt, text_.options());
    if (filled.seen < 0 || filled.seen > prompt.size())
      detail::invalid_argument("seen = ", filled.seen, " is outside 0..", prompt.size(),
                               ", the length of the prompt");
    filled_ = filled.seen;
    cached_ = std::min(filled.seen, prompt.size() - 1);  // the row after the last token is wanted
  }

  /// Whether the text is complete: there is nothing left to do.
  /// A text that was moved away is done.
  bool done() const { return text_.done() || room() < 0; }

  /// The new tokens so far. The view lives until the next step.
  std::span<const Token> tokens() const& { return text_.tokens(); }
  /// The prompt and the new tokens.
  std::span<const Token> context() const& { return text_.context(); }
  /// Counts and times so far.
  const Stats& stats() const& { return stats_; }
  /// The text's own copy of the verifier, with what it remembers.
  const V& verifier() const& { return verifier_; }
  /// Of the new tokens so far, as Options::log_probabilities asks: in the rows that are sampled, and before they were
  /// processed.
  const LogProbabilities& log_probabilities() const& { return record_.processed; }
  const LogProbabilities& raw_log_probabilities() const& { return record_.raw; }
  /// What a temporary shows would be gone with it: keep the sequence, or its result().
  std::span<const Token> tokens() const&& = delete;
  std::span<const Token> context() const&& = delete;
  const Stats& stats() const&& = delete;
  const V& verifier() const&& = delete;
  const LogProbabilities& log_probabilities() const&& = delete;
  const LogProbabilities& raw_log_probabilities() const&& = delete;
  /// What has been generated so far, with the reason why it ended if it has.
  Result result() const {
    return {.tokens = {tokens().begin(), tokens().end()},
            .stats = stats_,
            .stop_reason = stop_reason(),
            .stop_match = text_.stop_match(),
            .log_probabilities = record_.processed,
            .raw_log_probabilities = record_.raw};
  }
  /// How many tokens of the text the target's context holds, between steps.
  Index kept() const { return cached_; }
  /// Which tokens of the last Feed the target keeps, by their numbers, after commit(): the ones on the path that was
  /// accepted, and what the target had not seen before the draft.
  std::span<const Index> kept_path() const& { return feed_.kept(); }
  std::span<const Index> kept_path() const&& = delete;
  /// How many tokens of the prompt the caller had the target take in.
  Index filled() const { return filled_; }

  /// How large the next draft may be; no tokens when done(). wanted(most) is what a draft length asks for, where most is
  /// Options::gamma. It is asked once for a step: the answer stays until a step has succeeded. The depth of a linear draft
  /// is its length. Throws what wanted() throws.
  template <class Wanted>
  DraftLimits limits(const Wanted& wanted) {
    if (done()) return {.nodes = 0, .depth = 0};
    if (!limits_) {
      const Index length = checked(wanted(text_.options().gamma));
      limits_ = branches ? tree_limits(length) : line_limits(length);
    }
    text_.reserve(limits_->length() + 1);  // drafters may hold views of the context from here on
    return *limits_;
  }
  /// The draft length may change its mind before the next draft.
  void forget_limits() { limits_.reset(); }

  /// What the target has to be fed to judge this draft, which was made within the limits, and was `draft_time` in the
  /// making. Its views live until the next offer(); the draft's have to live until commit().
  /// Throws std::invalid_argument where the draft is larger than its limits, or is no tree, or has a token that nobody
  /// knows: nothing is offered then.
  template <class D>
  Feed offer(const D& draft, std::chrono::nanoseconds draft_time = {}) {
    if (!limits_) throw std::logic_error("specdec: a draft is offered that no limits() were asked for");
    offer_.value.reset();
    Offer offer{draft.tokens, parents_of(draft), draft_time, {}};
    check(offer, draft);
    reserve(branches ? offer.size() : limits_->nodes);  // a tree may be much smaller than it might be
    feed_.fill(text_.context().subspan(static_cast<std::size_t>(cached_)), offer.tokens, offer.parents,
               target_.vocabulary);
    offer.made = Clock::now();
    offer_.value = offer;
    return {feed_.tokens(), cached_, offer.size() + 1, feed_.parents()};
  }
  /// What was offered, until commit() or withdraw(): its tokens, and, where drafts may branch, who follows whom.
  std::span<const Token> drafted() const { return offer_.value->tokens; }
  std::span<const Index> parents() const { return offer_.value->parents; }

  /// Judges the draft that was offered by the target's rows, as many as the Feed asked for. Rows may be padded: a token
  /// beyond the target's vocabulary that comes out is an error.
  /// Throws std::logic_error where nothing was offered.
  template <class Rows, class D, class C>
  NodeVerdict judge(const Rows& rows, const D& draft, C& chance) {
    if (!offer_.value) throw std::logic_error("specdec: judge() has no draft to judge: offer() one first");
    withdraw_verdict();
    judged_at_ = Clock::now();
    detail::stand_at(chance, text_.size());
    if constexpr (branches)
      judge(Drafted(rows, draft.rows, offer_.value->tokens, offer_.value->parents, detail::draft_rows_for<V>),
            chance);
    else judge(Drafted(rows, draft.rows, offer_.value->tokens, detail::draft_rows_for<V>), chance);
    return verdict_;
  }

  /// c += x_1..x_τ, Y: what judge() has judged becomes part of the text. Returns the tokens emitted, a view that lives until the
  /// next limits(). Throws nothing.
  std::span<const Token> commit() {
    const Offer& offer = *offer_.value;
    detail::commit(verifier_);
    before_.reset();
    const Index before = text_.size();
    const std::span<const Token> emitted = text_.append(path_.tokens(), verdict_.token, cut_);
    stats_.verify_time += Clock::now() - judged_at_;
    last_ = {.asked = limits_->nodes,
             .drafted = offer.size(),
             .accepted = accepted(),
             .fed = std::ssize(feed_.tokens()),
             .survival = survival_,
             .draft_time = offer.draft_time,
             .target_time = judged_at_ - offer.made,
             .tree = branches ? TreeRecord{depth_, path_.ranks(), path_.offered()} : TreeRecord{}};
    stats_.add(last_, std::ssize(emitted));
    if (told_) stats_.acceptance.add(probabilities_, last_.drafted, last_.asked);
    const Index kept = std::min(accepted(), static_cast<Index>(emitted.size()));
    feed_.keep(path_.numbers().first(static_cast<std::size_t>(kept)));
    cached_ = before + kept;
    offer_.value.reset();
    limits_.reset();
    return emitted;
  }
  /// The step that was committed last. Its views live until the next offer(), and are this object's, not a copy's.
  const StepRecord& last() const { return last_; }

  /// Whether something is offered that is not committed.
  bool offers() const { return offer_.value.has_value(); }
  /// Takes back what was offered, and what was judged of it.
  void withdraw() {
    offer_.value.reset();
    withdraw_verdict();
  }

  /// Goes on from another context with options of its own: see Sequence::resume. Nothing is offered then. Returns how many
  /// tokens the two contexts begin with in common.
  Index resume(TokenIds context, Options options) {
    check("context", context, options);
    const Index common = text_.common_length(context);
    const bool same = common == context.size() && common == text_.size() && !text_.ended_by_itself();
    std::vector<Token> more;  // a copy of what is new, for `context` may be a view of ours
    for (Index i = common; i < context.size(); ++i) more.push_back(static_cast<Token>(context[i]));
    std::optional<V> verifier;
    if (!same) verifier = fresh_;
    text_.go_on(common, more, std::move(options));

    withdraw();
    if (verifier) verifier_ = std::move(*verifier);  // nothing throws from here on
    limits_.reset();
    record_.truncate(0);
    cached_ = std::min({cached_, common, text_.size() - 1});
    filled_ = std::min(filled_, common);
    return common;
  }

  /// Starts the verifier afresh.
  void forget() {
    withdraw();
    verifier_ = fresh_;
  }
  /// Ends the text here.
  void stop() {
    withdraw();
    if (!done()) text_.stop();
  }
  /// The target's context is empty now.
  void target_is_empty() { cached_ = 0; }

 private:
  void withdraw_verdict() {
    if (before_) verifier_ = *std::exchange(before_, std::nullopt);
    record_.truncate(std::ssize(text_.tokens()));
  }

  void check(const char* name, TokenIds prompt, const Options& options) const {
    detail::check_prompt(name, prompt, options, target_.vocabulary, target_.context);
  }

  // How many tokens may be drafted before the target's context is full; negative: it cannot even take in Y.
  Index room() const { return target_.context - text_.size(); }

  StopReason stop_reason() const {
    return !text_.done() && room() < 0 ? StopReason::context : text_.stop_reason();
  }

  Index checked(Index wanted) const {
    const Index most = text_.options().gamma;
    if (wanted < 0 || wanted > most)
      detail::invalid_argument("the draft-length policy asks for ", wanted,
                               " tokens, outside 0..gamma = ", most);
    return wanted;
  }

  DraftLimits line_limits(Index wanted) {
    const Index asked =
        std::min(std::max(std::min(wanted, text_.remaining() - 1), min_draft_length(verifier_)), room());
    if (asked > longest_draft)
      detail::invalid_argument("gamma = ", text_.options().gamma, " and nothing else keeps drafts to ",
                               longest_draft, " tokens, neither the draft length nor max_new_tokens = ",
                               text_.options().max_new_tokens, " nor the target's context");
    return {.nodes = asked, .depth = asked};
  }

  // All tokens of a tree have to find room in the target's context, and a path in the budget.
  DraftLimits tree_limits(Index wanted) {
    const Index least = min_draft_length(verifier_);
    return {.nodes = std::min({std::max(wanted, least), room(), longest_draft}),
            .depth = std::min({std::max(text_.remaining() - 1, least), room(), longest_draft}),
            .trunk = least};
  }

  // A drafter of trees may propose a line without saying so; a drafter of lines no tree.
  template <class D>
  std::span<const Index> parents_of(const D& draft) {
    const std::span<const Token> tokens = draft.tokens;
    const std::span<const Index> parents = detail::parents_of(draft);
    if constexpr (!branches) {
      if (detail::branches(parents))
        detail::invalid_argument("the drafter proposed a tree, and says that it drafts none (drafts_trees)");
      return {};
    } else {
      if (!parents.empty() || tokens.empty()) return parents;
      line_.resize(tokens.size());
      std::iota(line_.begin(), line_.end(), Index{-1});
      return line_;
    }
  }

  // What drafters of others return is checked before it is used. Only rows over a vocabulary of their own can
  // honestly propose a token that the target does not know.
  template <class D>
  void check(const Offer& offer, const D& draft) {
    const DraftLimits& limits = *limits_;
    if (offer.size() > limits.nodes)
      detail::invalid_argument("the drafter proposed ", offer.size(), " tokens when asked for at most ",
                               limits.nodes);
    if constexpr (branches) {
      detail::check_parents(offer.tokens, offer.parents);
      depth_ = detail::depth(offer.parents, depths_);
      if (depth_ > limits.depth)
        detail::invalid_argument("the drafter proposed a path of ", depth_, " tokens when asked for at most ",
                                 limits.depth);
    }
    Index known = target_.vocabulary;
    const auto rows = distributions(draft.rows);
    if constexpr (has_vocab_size<decltype(rows)>) known = std::max<Index>(known, rows.vocab_size());
    detail::check_tokens("draft", offer.tokens, known);
  }

  // All allocation of a step that could fail after the verdict happens here, but for the text's.
  void reserve(Index gamma) {
    stats_.reserve(gamma);
    probabilities_.reserve(static_cast<std::size_t>(gamma));
    survival_.reserve(static_cast<std::size_t>(gamma));
    path_.reserve(gamma);
  }

  // What the verifier remembers is committed later; one that has members and no commit() is given back by withdraw().
  template <class D, class C>
  void judge(const D& drafted, C& chance) {
    static_assert(Verifier<V, D, C>, "the verifier is no specdec::Verifier for these rows");
    // Rows over more tokens than the target has are no licence to write these; rows over fewer are another model's.
    const Index known = target_.vocabulary;
    if (drafted.vocab_size() < known)
      detail::invalid_argument("the target's rows are over ", drafted.vocab_size(),
                               " tokens, fewer than its vocabulary of ", known);
    if constexpr (!detail::has_commit<V> && !std::is_empty_v<V>) before_ = verifier_;
    verdict_ = detail::judge_at_node(verifier_, drafted, chance, known);
    path_.set(drafted, verdict_.node);
    cut_ = text_.cut(path_.tokens(), verdict_.token);
    measure(drafted);
    record(drafted);
  }

  Index accepted() const { return std::ssize(path_.numbers()); }

  // P(τ > i | x_1..x_{i+1}) under the rule in use if it says how, else what happened. Tokens after one that the
  // target rules out do not survive, whatever they are.
  template <class D>
  void measure(const D& drafted) {
    survival_.assign(static_cast<std::size_t>(drafted.gamma()), 0.0);
    told_ = !branches && tell(drafted);
    if constexpr (tells_survival<V> && !branches) {
      double survival = 1;
      for (std::size_t i = 0; i < probabilities_.size(); ++i)
        survival_[i] = survival =
            verifier_.survival(survival, probabilities_[i].first, probabilities_[i].second);
      if (!probabilities_.empty()) return;
    }
    std::fill_n(survival_.begin(), accepted(), 1.0);
  }

  // p and q of the tokens, up to one that the target rules out; whether they are known. A token without an honest
  // q, which rules that need none let pass, leaves nothing to tell.
  template <class D>
  bool tell(const D& drafted) {
    probabilities_.clear();
    if (!drafted.all_looked_up()) return false;
    for (Index i = 0; i < drafted.gamma(); ++i) {
      const auto known = drafted.looked_up(i);
      if (!known) return probabilities_.clear(), false;
      probabilities_.push_back(*known);
      if (known->first == 0) return true;
    }
    return true;
  }

  // The log-probabilities of what is about to be emitted.
  template <class D>
  void record(const D& drafted) {
    const LogProbabilityOptions& wanted = text_.options().log_probabilities;
    if (!wanted.any()) return;
    Index node = 0;
    for (Index i = 0; i < cut_.tokens; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const bool drawn_here = i == accepted();
      record_.add(drafted.target(node), drawn_here ? verdict_.token : path_.tokens()[k], wanted);
      if (!drawn_here) node = path_.numbers()[k] + 1;
    }
  }

  ExternalTarget target_;
  V fresh_, verifier_;
  std::optional<V> before_;  // the verifier before a verdict that may be taken back
  detail::Text text_;
  Index cached_ = 0;  // how many tokens of the text the target's context holds
  Index filled_ = 0;  // how many of them the caller had it take in
  detail::FeedBuffer feed_;
  std::optional<DraftLimits> limits_;  // of the step's draft, once they have been asked for
  detail::Uncopied<Offer> offer_;      // its views are of a drafter that a copy does not have
  std::vector<Index> line_;            // who follows whom in a line
  Index depth_ = 0;                    // of the tree that is offered
  std::vector<Index> depths_;          // and of its tokens
  Clock::time_point judged_at_;
  NodeVerdict verdict_;        // the last one
  detail::AcceptedPath path_;  // and what it accepted
  detail::Cut cut_;            // and how much of that is emitted
  StepRecord last_;
  detail::LogProbabilityRecord record_;
  std::vector<std::pair<double, double>> probabilities_;  // of the step's drafted tokens: p and q
  bool told_ = false;                                     // whether they are known
  std::vector<double> survival_;                          // see StepRecord
  Stats stats_;
};

}  // namespace specdec

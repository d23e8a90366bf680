// One sequence in the making: the outer loop, a step at a time, or half a step.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/goes_on.hpp"
#include "specdec/draft/tree_draft.hpp"
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
#include "specdec/model/turn.hpp"
#include "specdec/model/uncopied.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/tree_verifier.hpp"
#include "specdec/verify/verdict.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// A context that the caller has filled.
struct Filled {
  Index seen = 0;  ///< the target holds the first `seen` tokens of the prompt
};

namespace detail {

/// What the sequences of a decoder share. They refer to it, so it stays where it is.
template <class TargetModel, class DraftSource, class Length>
struct Shared {
  using Target = std::remove_reference_t<TargetModel>;
  using Drafter = std::remove_reference_t<DraftSource>;
  using Policy = std::remove_reference_t<Length>;

  Shared(TargetModel&& t, DraftSource&& d, Length&& l)
      : target(std::forward<TargetModel>(t)),
        drafter(std::forward<DraftSource>(d)),
        length(std::forward<Length>(l)),
        target_turns(Turns::of<TargetModel>(target)),
        drafter_turns(Turns::of_drafter<DraftSource>(drafter)) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  TargetModel target;
  DraftSource drafter;
  Length length;
  Turns target_turns, drafter_turns;
};

/// Gives a rule back what it was, unless that is dropped; nothing, where that is not needed.
template <class V, bool needed>
class Backup {
 public:
  explicit Backup(const V&) {}
  void drop() {}
};
template <class V>
class Backup<V, true> {
 public:
  explicit Backup(V& rule) : rule_(&rule), before_(rule) {}
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;
  ~Backup() {
    if (rule_ != nullptr) *rule_ = std::move(before_);
  }
  void drop() { rule_ = nullptr; }

 private:
  V* rule_;
  V before_;
};

}  // namespace detail

/// One text in the making, on what a SpecDec holds, which must outlive it.
///
///   while (!sequence.done()) sequence.step(rng);
///
/// drafts x_1..x_γ with their rows q, calls the target over what it has not seen and the draft (the first call takes
/// the prompt along), verifies, and appends x_1..x_τ, Y; both models keep exactly the tokens that survived. An
/// engine that owns its forward, or has many sequences in one call, does the middle itself:
///
///   const specdec::Feed feed = sequence.propose(rng);
///   // cut the target's context to feed.from tokens, feed it feed.tokens, take the rows of the last feed.rows
///   sequence.accept(rows, rng);
///   // cut the target's context to sequence.kept() tokens
///
/// A draft may be a tree (TreeDrafter, TreeVerifier): then γ is its number of tokens, no path is longer than the budget
/// can take, and a target that takes trees gets it in one call. feed.parents says who follows whom, and
/// sequence.kept_path() which of the tokens that were fed the target keeps.
///
/// The target of the decoder is then asked for its vocab_size() and context_size() alone (ExternalTarget is one that
/// has nothing else), and what the engine's contexts hold is the engine's business. A proposal that is never accepted,
/// because a call failed or was abandoned, is forgotten by the next propose().
///
/// γ is what the draft-length policy asks for (Options::gamma at most), cut to what the target's context (see
/// context_size) and the budget can still take, the latter except where the verifier needs more (min_draft_length).
///
/// Sequences of one decoder may take turns, a step each, and so may decoders that refer to one model, and copies of
/// a sequence: whoever takes over feeds the context anew. That costs; for sequences that run side by side give each
/// a decoder, with a drafter of its own. Between propose() and accept() nobody else may use the drafter: accept()
/// then throws std::logic_error.
///
/// Throws: what models, drafter and verifier throw. After a throw the sequence, the statistics and both contexts are
/// as before the step, which can be tried again (between propose() and accept() it begins again with propose());
/// only the generator has moved on.
template <class Shared, class V>
class Sequence {
  using Target = typename Shared::Target;
  using Drafter = typename Shared::Drafter;
  using Clock = std::chrono::steady_clock;

  using GoesOn = detail::GoesOn<typename Shared::Policy, V>;

  template <class C>
  static constexpr bool may_be_ended =
      requires(Drafter& drafter, std::span<const Token> context, C& chance, const GoesOn& goes_on) {
        drafter.draft(context, Index{}, chance, goes_on);
      };
  template <class C>
    requires may_be_ended<C>
  static auto ask(Drafter& drafter, std::span<const Token> context, Index gamma, C& chance,
                  const GoesOn& goes_on) -> decltype(drafter.draft(context, gamma, chance, goes_on)) {
    return drafter.draft(context, gamma, chance, goes_on);
  }
  template <class C>
    requires(!may_be_ended<C>)
  static auto ask(Drafter& drafter, std::span<const Token> context, Index gamma, C& chance, const GoesOn&)
      -> decltype(drafter.draft(context, gamma, chance)) {
    return drafter.draft(context, gamma, chance);
  }
  template <class C>
  struct ByLength {
    using Draft = std::remove_cvref_t<decltype(ask(std::declval<Drafter&>(), {}, Index{}, std::declval<C&>(),
                                                   std::declval<const GoesOn&>()))>;
  };
  template <class C>
  struct ByLimits {
    using Draft = std::remove_cvref_t<decltype(std::declval<Drafter&>().draft(
        std::span<const Token>{}, TreeLimits{}, std::declval<C&>()))>;
  };
  static constexpr bool drafts_trees = TreeDrafter<Drafter>;
  template <class C>
  using DraftBy = typename std::conditional_t<drafts_trees, ByLimits<C>, ByLength<C>>::Draft;
  using DraftOf = DraftBy<RandomChance<SplitMix64>>;

  // A one-hot row leaves a rule nothing to remember.
  using DraftRow = RowOf<decltype(distributions(std::declval<const DraftOf&>().rows))>;
  static_assert(
      is_steady<Drafter> || std::same_as<DraftRow, OneHotRow> || !remembers_sequence<V>,
      "a rule that remembers its sequence needs drafts whose length is settled and whose rows depend on "
      "the tokens before them alone: the drafter says that it is not steady (see specdec::Drafter)");

  struct Proposal {
    DraftOf draft;
    Index asked;
    std::chrono::nanoseconds draft_time;
    Clock::time_point made;

    std::span<const Token> tokens() const { return draft.tokens; }
    std::span<const Index> parents() const {
      if constexpr (drafts_trees) return draft.parents;
      else return {};
    }
    Index size() const { return std::ssize(tokens()); }
  };

 public:
  /// What SpecDec::start calls.
  Sequence(Shared& shared, V verifier, TokenIds prompt, Options options, Filled filled)
      : shared_(&shared),
        fresh_(verifier),
        verifier_(std::move(verifier)),
        text_(prompt, std::move(options)) {
    check("prompt", prompt, text_.options());
    if (filled.seen < 0 || filled.seen > prompt.size())
      detail::invalid_argument("seen = ", filled.seen, " is outside 0..", prompt.size(),
                               ", the length of the prompt");
    if (filled.seen == 0) return;
    if (knows_its_context<Target>)
      detail::invalid_argument("seen = ", filled.seen,
                               ", but the target keeps a context of its own (a hook's), which is not filled");
    filled_ = filled.seen;
    seen_ = std::min(filled.seen, prompt.size() - 1);  // the row behind the last token is wanted
    turn_.take(shared.target_turns);
    if constexpr (Model<Target>) shared.target.truncate(seen_);
  }

  /// Whether the text is complete: there is nothing left to do.
  /// A sequence that was moved away is done.
  bool done() const { return text_.done() || room() < 0; }

  /// The new tokens so far. The view lives until the next step.
  std::span<const Token> tokens() const& { return text_.tokens(); }
  /// The prompt and the new tokens.
  std::span<const Token> context() const& { return text_.context(); }
  /// Counts and times so far.
  const Stats& stats() const& { return stats_; }
  /// The sequence's own copy of the verifier, with what it remembers.
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
  /// How many tokens of the sequence the target's context holds, between steps.
  Index kept() const { return seen_; }
  /// Asks the draft-length policy how long the next draft may be, for who drafts many sequences together: propose() goes by
  /// this answer until a step has succeeded, and does not ask again. The depth of a linear draft is its length. No tokens
  /// when done(). Throws what the draft-length policy throws.
  TreeLimits draft_limits() {
    limits_.reset();
    if (done()) return {.nodes = 0, .depth = 0};
    return limits_.emplace(drafts_trees ? tree_limits() : line_limits());
  }
  /// Which tokens of the last Feed are among these, by their numbers, after accept(): the ones on the path that was
  /// accepted, and what the target had not seen before the draft.
  std::span<const Index> kept_path() const& { return feed_.kept(); }
  std::span<const Index> kept_path() const&& = delete;

  /// Generates the tokens of one target call and returns those emitted; none when done(). The view lives until the
  /// next step.
  template <RandomSource Source>
  std::span<const Token> step(Source& source) & {
    static_assert(Model<Target>, "an ExternalTarget is called by the caller: propose() and accept()");
    if constexpr (Model<Target>) return whole_step(source);
    else return {};
  }
  template <RandomSource Source>
  void step(Source& source) && = delete;  // the view would be gone

  /// Steps until done(), and returns the result().
  template <RandomSource Source>
  Result generate(Source& source) {
    return generate(source, [](std::span<const Token>) {});
  }

  /// Steps until done(), and calls on_step(tokens) with what each step emitted: for streaming text. A callback that
  /// returns bool ends the text with false, as stop() does.
  ///
  /// Throws what step() and on_step throw. A step that fails is undone; one that on_step throws for has been taken,
  /// and told: its tokens are in tokens(). So another call goes on, and nothing is lost or told twice.
  template <RandomSource Source, std::invocable<std::span<const Token>> OnStep>
  Result generate(Source& source, OnStep&& on_step) {
    while (!done()) {
      const std::span<const Token> emitted = step(source);
      if constexpr (std::same_as<std::invoke_result_t<OnStep&, std::span<const Token>>, bool>) {
        if (!on_step(emitted)) stop();
      } else {
        on_step(emitted);
      }
    }
    return result();
  }

  /// Drafts, and says what the target has to be fed for the verdict; nothing (0 rows) when done(). Views live until
  /// accept(). A proposal that was made before and not accepted is forgotten.
  template <RandomSource Source>
  Feed propose(Source& source) & {
    // Whoever steps on this target, this sequence included, is to feed it anew.
    if constexpr (Model<Target>) shared_->target_turns.next();
    return propose_half(source);
  }
  template <RandomSource Source>
  void propose(Source& source) && = delete;  // the views would be gone

  /// Judges the last proposal by the target's rows, as many as the Feed asked for, and returns the tokens emitted;
  /// none when done(). The view lives until the next step. Rows may be padded: a token beyond the target's vocabulary
  /// that comes out is an error.
  ///
  /// Throws std::logic_error without a proposal, and where somebody else has used the drafter since.
  template <class Rows, RandomSource Source>
  std::span<const Token> accept(const Rows& rows, Source& source) & {
    static_assert(Probabilities<Rows>,
                  "the target's rows are no matrix of probabilities: pass an Eigen matrix, RowVectors, "
                  "RowPointers or another specdec::DistributionMatrix, with as many rows as the Feed "
                  "asks for");
    if (done()) return {};
    const auto start = Clock::now();
    if (!proposal_.value)
      throw std::logic_error("specdec: accept() has no proposal to judge: propose() first");
    if (!drafter_turn_.lasts(shared_->drafter_turns)) {
      proposal_.value.reset();
      throw std::logic_error(
          "specdec: the drafter, or a model that it refers to, was used elsewhere between propose() and "
          "accept(): sequences that run side by side need a decoder each, with a drafter of its own");
    }
    auto&& chance = as_chance(source);
    detail::stand_at(chance, text_.size());
    try {
      judge(rows, chance);
      stats_.verify_time += Clock::now() - start;
      return commit(start - proposal_.value->made);
    } catch (...) {
      withdraw();
      record_.truncate(std::ssize(text_.tokens()));
      throw;
    }
  }

  /// Goes on from another context (the next turn of a conversation, say, or a part of the present one) with options
  /// of its own. The models do not take in again what the two contexts begin with in common. The statistics go on.
  ///
  /// What the verifier remembers is kept where the context is the very text of the sequence, which had not come to
  /// its end: so it is after stop(), and between steps. Else it starts afresh. (Under greedy block verification the
  /// text between two steps is none of the target's law by itself, only with what follows, for where a step ends
  /// depends on what it drew; a text that a stop token or the budget has ended is.)
  /// Throws std::invalid_argument where SpecDec::start does, and leaves the sequence as it was.
  void resume(TokenIds context, Options options) {
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
    seen_ = std::min({seen_, common, text_.size() - 1});
    filled_ = std::min(filled_, common);
    if constexpr (Model<Target>)
      if (turn_.lasts(shared_->target_turns)) shared_->target.truncate(seen_);
    if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->drafter.truncate(seen_);
  }

  /// Starts the verifier afresh: before resume() with a text that reads as this one, but whose end somebody else wrote.
  void forget() {
    withdraw();
    verifier_ = fresh_;
  }

  /// Ends the sequence here.
  void stop() {
    withdraw();
    if (!done()) text_.stop();
  }

  /// Clears the contexts of both models; the next step takes the whole sequence in again. For memory that is wanted
  /// elsewhere, and for models that were used elsewhere in between. Throws std::logic_error where the caller had filled
  /// the target's context, which nobody else can make up again.
  void release() {
    if (filled_ > 0)
      throw std::logic_error("specdec: a context that the caller had filled cannot be released");
    withdraw();
    if constexpr (Model<Target>)
      if (turn_.lasts(shared_->target_turns)) shared_->target.truncate(0);
    if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->drafter.truncate(0);
    turn_ = drafter_turn_ = detail::Turn();
    seen_ = 0;
  }

 private:
  template <RandomSource Source>
  std::span<const Token> whole_step(Source& source) {
    if (done()) return {};
    take_target();
    auto&& chance = as_chance(source);
    try {
      const Feed feed = propose_half(chance);
      if (!turn_.lasts(shared_->target_turns))
        throw std::logic_error(
            "specdec: the drafter has used the target itself: give each a model of its own");
      if constexpr (drafts_trees)
        if (!feed.parents.empty()) {
          const auto& rows = shared_->target.forward(feed.tokens, feed.parents, feed.rows);
          const std::span<const Token> emitted = accept(rows, chance);
          shared_->target.keep(feed_.kept());
          return emitted;
        }
      const auto& rows = shared_->target.forward(feed.tokens, feed.rows);
      const std::span<const Token> emitted = accept(rows, chance);
      shared_->target.truncate(seen_);
      return emitted;
    } catch (...) {
      withdraw();
      shared_->target.truncate(seen_);
      throw;
    }
  }

  template <RandomSource Source>
  Feed propose_half(Source& source) {
    withdraw();
    if (done()) return {{}, seen_, 0};
    auto&& chance = as_chance(source);
    detail::stand_at(chance, text_.size());
    take_drafter();
    if (!limits_) draft_limits();
    const TreeLimits limits = *limits_;
    text_.reserve(std::min(limits.nodes, limits.depth) + 1);
    try {
      draft(limits, chance);
      drafter_turn_.go_on(shared_->drafter_turns);
      const Proposal& proposal = *proposal_.value;
      reserve(drafts_trees ? proposal.size() : limits.nodes);  // a tree may be much smaller than it might be
      feed_.fill(text_.context().subspan(static_cast<std::size_t>(seen_)), proposal.tokens(),
                 proposal.parents(), shared_->target.vocab_size());
    } catch (...) {
      proposal_.value.reset();
      shared_->drafter.truncate(text_.size());
      throw;
    }
    return {feed_.tokens(), seen_, proposal_.value->size() + 1, feed_.parents()};
  }

  void check(const char* name, TokenIds prompt, const Options& options) const {
    detail::check_prompt(name, prompt, options, shared_->target.vocab_size(), context_size(shared_->target));
  }

  // How many tokens may be drafted before the target's context is full; negative: it cannot even take in Y.
  Index room() const { return context_size(shared_->target) - text_.size(); }

  StopReason stop_reason() const {
    return !text_.done() && room() < 0 ? StopReason::context : text_.stop_reason();
  }

  void take_target() {
    if (turn_.lasts(shared_->target_turns)) return;
    if (filled_ > 0)
      throw std::logic_error(
          "specdec: the target's context, which the caller had filled, was used in between, by another "
          "sequence or by propose()");
    turn_.take(shared_->target_turns);
    shared_->target.truncate(0);
    seen_ = 0;
  }

  void take_drafter() {
    if (drafter_turn_.lasts(shared_->drafter_turns)) return;
    drafter_turn_.take(shared_->drafter_turns);
    shared_->drafter.truncate(0);
  }

  // Takes back what was proposed.
  void withdraw() {
    if (!proposal_.value) return;
    proposal_.value.reset();
    if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->drafter.truncate(text_.size());
  }

  // What the policy asks for.
  Index wanted_length() {
    const Index most = text_.options().gamma, wanted = shared_->length.next(most);
    if (wanted < 0 || wanted > most)
      detail::invalid_argument("the draft-length policy asks for ", wanted,
                               " tokens, outside 0..gamma = ", most);
    return wanted;
  }

  TreeLimits line_limits() {
    const Index wanted = wanted_length();
    const Index asked =
        std::min(std::max(std::min(wanted, text_.remaining() - 1), min_draft_length(verifier_)), room());
    if (asked > longest_draft)
      detail::invalid_argument("gamma = ", text_.options().gamma, " and nothing else keeps drafts to ",
                               longest_draft, " tokens, neither the draft length nor max_new_tokens = ",
                               text_.options().max_new_tokens, " nor the target's context");
    return {.nodes = asked, .depth = asked};
  }

  // All tokens of a tree have to find room in the target's context, and a path in the budget.
  TreeLimits tree_limits() {
    const Index least = min_draft_length(verifier_);
    return {.nodes = std::min({std::max(wanted_length(), least), room(), longest_draft}),
            .depth = std::min({std::max(text_.remaining() - 1, least), room(), longest_draft}),
            .trunk = least};
  }

  // All allocation of a step that could fail after the verdict happens here, but for the text's: that has its room before
  // a draft is made, as drafters may hold views of it.
  void reserve(Index gamma) {
    stats_.reserve(gamma);
    probabilities_.reserve(static_cast<std::size_t>(gamma));
    survival_.reserve(static_cast<std::size_t>(gamma));
    path_.reserve(gamma);
  }

  template <class C>
  void draft(const TreeLimits& limits, C& chance) {
    static_assert(std::same_as<DraftOf, DraftBy<C>>,
                  "the drafter's proposal is of another type for another source of chance");
    const auto start = Clock::now();
    if constexpr (drafts_trees)
      proposal_.value.emplace(
          Proposal{shared_->drafter.draft(text_.context(), limits, chance), limits.nodes, {}, {}});
    else
      proposal_.value.emplace(
          Proposal{ask(shared_->drafter, text_.context(), limits.nodes, chance, GoesOn{&shared_->length}),
                   limits.nodes,
                   {},
                   {}});
    check_draft(limits);
    proposal_.value->made = Clock::now();
    proposal_.value->draft_time = proposal_.value->made - start;
  }

  // What drafters of others return is checked before it is used. Only rows over a vocabulary of their own can
  // honestly propose a token that the target does not know.
  void check_draft(const TreeLimits& limits) {
    const Proposal& proposal = *proposal_.value;
    if (proposal.size() > limits.nodes)
      detail::invalid_argument("the drafter proposed ", proposal.size(), " tokens when asked for at most ",
                               limits.nodes);
    if constexpr (drafts_trees) {
      detail::check_parents(proposal.tokens(), proposal.parents());
      depth_ = detail::depth(proposal.parents(), depths_);
      if (depth_ > limits.depth)
        detail::invalid_argument("the drafter proposed a path of ", depth_, " tokens when asked for at most ",
                                 limits.depth);
    }
    Index known = shared_->target.vocab_size();
    const auto rows = distributions(proposal.draft.rows);
    if constexpr (SizedDistributionMatrix<decltype(rows)>) known = std::max<Index>(known, rows.vocab_size());
    detail::check_tokens("draft", proposal.tokens(), known);
  }

  // The verdict; what the verifier remembers is committed only when nothing can fail any more.
  template <class Rows, class C>
  void judge(const Rows& rows, C& chance) {
    const Proposal& proposal = *proposal_.value;
    const auto& draft = proposal.draft;
    const std::span<const Token> tokens = proposal.tokens();
    if constexpr (drafts_trees) {
      const std::span<const Index> parents = proposal.parents();
      judge(rows, Drafted(rows, draft.rows, tokens, parents, detail::draft_rows_for<V>), chance);
    } else {
      judge(rows, Drafted(rows, draft.rows, tokens, detail::draft_rows_for<V>), chance);
    }
  }

  template <class Rows, class D, class C>
  void judge(const Rows& rows, const D& drafted, C& chance) {
    static_assert(
        TreeVerifier<V, D, C> || (Verifier<V, D, C> && !drafts_trees),
        "the verifier is no specdec::Verifier for these rows (or, where the drafter drafts trees, no "
        "specdec::TreeVerifier)");
    detail::Backup<V, !detail::Remembers<V> && !std::is_empty_v<V>> backup(verifier_);
    // Rows over more tokens than the target has are no licence to write these; rows over fewer are another model's.
    const Index known = shared_->target.vocab_size();
    if (drafted.vocab_size() < known)
      detail::invalid_argument("the target's rows are over ", drafted.vocab_size(),
                               " tokens, fewer than its vocabulary of ", known);
    stop_ = ask_verifier(drafted, chance, known);
    path_.set(drafted, stop_.node);
    cut_ = text_.cut(path_.tokens(), stop_.token);
    measure(drafted);
    record(drafted);
    observe(rows);
    detail::commit(verifier_);
    backup.drop();
  }

  template <class D, class C>
  Stop ask_verifier(const D& drafted, C& chance, Index vocab_size) {
    if constexpr (TreeVerifier<V, D, C>) {
      return detail::judge_tree(verifier_, drafted, chance, vocab_size);
    } else {
      const Verdict verdict = detail::judge(verifier_, drafted, chance, vocab_size);
      return {verdict.accepted, verdict.token};
    }
  }

  // Tells a drafter that learns from the target's calls.
  template <class Rows>
  void observe([[maybe_unused]] const Rows& rows) {
    [[maybe_unused]] const std::span<const Token> tokens = proposal_.value->tokens();
    if constexpr (drafts_trees) {
      [[maybe_unused]] const std::span<const Index> parents = proposal_.value->parents();
      if constexpr (requires { shared_->drafter.observe(rows, tokens, parents, stop_); })
        shared_->drafter.observe(rows, tokens, parents, stop_);
    } else if constexpr (requires { shared_->drafter.observe(rows, tokens, Verdict{}); }) {
      shared_->drafter.observe(rows, tokens, Verdict{stop_.node, stop_.token});
    }
  }

  Index accepted() const { return std::ssize(path_.numbers()); }

  // P(τ > i | x_1..x_{i+1}) under the rule in use if it says how, else what happened. Tokens behind one that the
  // target rules out do not survive, whatever they are.
  template <class D>
  void measure(const D& drafted) {
    survival_.assign(static_cast<std::size_t>(drafted.gamma()), 0.0);
    told_ = !drafts_trees && tell(drafted);
    if constexpr (TellsSurvival<V> && !drafts_trees) {
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
      record_.add(drafted.target(node), drawn_here ? stop_.token : path_.tokens()[k], wanted);
      if (!drawn_here) node = path_.numbers()[k] + 1;
    }
  }

  // c += x_1..x_τ, Y. Nothing here throws.
  std::span<const Token> commit(std::chrono::nanoseconds target_time) {
    const Proposal& proposal = *proposal_.value;
    const Index before = text_.size();
    const std::span<const Token> emitted = text_.append(path_.tokens(), stop_.token, cut_);
    const StepRecord step{
        .asked = proposal.asked,
        .drafted = proposal.size(),
        .accepted = accepted(),
        .fed = std::ssize(feed_.tokens()),
        .survival = survival_,
        .draft_time = proposal.draft_time,
        .target_time = target_time,
        .tree = drafts_trees ? TreeRecord{depth_, path_.ranks(), path_.offered()} : TreeRecord{}};
    stats_.add(step, std::ssize(emitted));
    if (told_) stats_.acceptance.add(probabilities_, step.drafted, step.asked);
    shared_->length.observe(step);
    const Index kept = std::min(accepted(), static_cast<Index>(emitted.size()));
    feed_.keep(path_.numbers().first(static_cast<std::size_t>(kept)));
    seen_ = before + kept;
    proposal_.value.reset();
    limits_.reset();
    shared_->drafter.truncate(seen_);
    return emitted;
  }

  Shared* shared_;
  detail::Turn turn_, drafter_turn_;
  V fresh_, verifier_;
  detail::Text text_;
  Index seen_ = 0;    // how many tokens of the text the target's context holds
  Index filled_ = 0;  // how many of them the caller had it take in
  detail::FeedBuffer feed_;
  std::optional<TreeLimits> limits_;  // of the step's draft, once the policy has been asked
  detail::Uncopied<Proposal> proposal_;
  Index depth_ = 0;            // of the tree that is proposed
  std::vector<Index> depths_;  // and of its tokens
  Stop stop_;                  // the last verdict
  detail::AcceptedPath path_;  // and what it accepted
  detail::Cut cut_;            // and how much of that is emitted
  detail::LogProbabilityRecord record_;
  std::vector<std::pair<double, double>> probabilities_;  // of the step's drafted tokens: p and q
  bool told_ = false;                                     // whether they are known
  std::vector<double> survival_;                          // see StepRecord
  Stats stats_;
};

}  // namespace specdec

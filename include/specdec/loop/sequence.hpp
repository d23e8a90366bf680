// One text in the making, on the models of a SpecDec: the outer loop, a step at a time, or half a step.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
#pragma once

#include <concepts>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/keep_drafting.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/model/uncopied.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {
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
        drafter_turns(Turns::of<DraftSource>(drafter)) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  TargetModel target;
  DraftSource drafter;
  Length length;
  Turns target_turns, drafter_turns;
};

}  // namespace detail

/// One text in the making, on what a SpecDec holds, which must outlive it.
///
///   while (!sequence.done()) sequence.step(rng);
///
/// drafts x_1..x_γ with their rows q, calls the target over what is not cached and the draft (the first call takes
/// the prompt along), verifies, and appends x_1..x_τ, Y; both models keep exactly the tokens that survived. An
/// engine that owns its forward, or has many sequences in one call, does the middle itself:
///
///   const specdec::Feed feed = sequence.propose(rng);
///   // cut the target's context to feed.from tokens, feed it feed.tokens, take the rows of the last feed.rows
///   sequence.accept(rows, rng);
///   // cut the target's context to sequence.kept() tokens
///
/// A draft may be a tree (drafts_trees, judges_trees): then γ is its number of tokens, no path is longer than the budget
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
class Sequence : private Step<V, drafts_trees<typename Shared::Drafter>> {
  using Target = typename Shared::Target;
  using Drafter = typename Shared::Drafter;
  using Base = Step<V, drafts_trees<Drafter>>;
  using KeepDrafting = detail::KeepDrafting<typename Shared::Policy, remembers_sequence<V>>;

  template <class C>
  using DraftBy = std::remove_cvref_t<decltype(ask_drafter(std::declval<Drafter&>(), std::span<const Token>{},
                                                           DraftLimits{}, std::declval<C&>(),
                                                           std::declval<const KeepDrafting&>()))>;
  using DraftOf = DraftBy<RandomChance<SplitMix64>>;

  static_assert(detail::suits<Drafter, DraftOf, V>());

 public:
  /// What SpecDec::start calls.
  Sequence(Shared& shared, V rule, TokenIds prompt, Options options, Filled filled)
      : Base(detail::described(shared.target), std::move(rule), prompt, std::move(options), filled),
        shared_(&shared) {
    if (filled.cached == 0) return;
    if (knows_its_context<Target>)
      detail::invalid_argument("cached = ", filled.cached,
                               ", but the target keeps a context of its own (a hook's), which is not filled");
    turn_.take(shared.target_turns);
    if constexpr (Model<Target>) shared.target.truncate(kept());
  }

  /// What is known of the text: see Step.
  using Base::context;
  using Base::done;
  using Base::kept;
  using Base::kept_path;
  using Base::log_probabilities;
  using Base::raw_log_probabilities;
  using Base::result;
  using Base::stats;
  using Base::tokens;
  using Base::verifier;

  /// How large the next draft may be. The draft-length policy is asked once for a step; its answer stays until a step has
  /// succeeded. The depth of a linear draft is its length. No tokens when done(). Throws what the policy throws.
  DraftLimits draft_limits() {
    return Base::limits([this](Index most) { return shared_->length.next(most); });
  }

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
    if (!draft_.value) throw std::logic_error("specdec: accept() has no proposal to judge: propose() first");
    if (!drafter_turn_.lasts(shared_->drafter_turns)) {
      withdraw();
      throw std::logic_error(
          "specdec: the drafter, or a model that it refers to, was used elsewhere between propose() and "
          "accept(): sequences that run side by side need a decoder each, with a drafter of its own");
    }
    std::span<const Token> emitted;
    try {
      auto&& chance = as_chance(source);
      emitted = Base::accept(rows, *draft_.value, chance, shared_->drafter);
    } catch (...) {
      withdraw();
      throw;
    }
    draft_.value.reset();
    shared_->length.observe(Base::last());
    shared_->drafter.truncate(kept());
    return emitted;
  }

  /// Goes on from another context (the next turn of a conversation, say, or a part of the present one) with options
  /// of its own. The models do not take in again what the two contexts begin with in common. The statistics go on.
  ///
  /// What the verifier remembers is kept where the context is the very text of the sequence, which had not come to
  /// its end: so it is after stop(), and between steps. Else it starts afresh. (Under greedy block verification the
  /// text between two steps is none of the target's law by itself, only with what follows, for where a step ends
  /// depends on what it drew; a text that a stop token or the budget has ended is.)
  /// Throws std::invalid_argument where SpecDec::start does, and leaves the sequence as it was.
  void resume(TokenIds text, Options options) {
    Base::resume(text, std::move(options));
    draft_.value.reset();  // nothing throws from here on
    if constexpr (Model<Target>)
      if (turn_.lasts(shared_->target_turns)) shared_->target.truncate(kept());
    if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->drafter.truncate(kept());
  }

  /// Starts the verifier afresh: before resume() with a text that reads as this one, but whose end somebody else wrote.
  void forget() {
    withdraw();
    Base::forget();
  }

  /// Ends the sequence here.
  void stop() {
    withdraw();
    Base::stop();
  }

  /// Clears the contexts of both models; the next step takes the whole sequence in again. For memory that is wanted
  /// elsewhere, and for models that were used elsewhere in between. Throws std::logic_error where the caller had filled
  /// the target's context, which nobody else can make up again.
  void release() {
    if (Base::filled() > 0)
      throw std::logic_error("specdec: a context that the caller had filled cannot be released");
    withdraw();
    if constexpr (Model<Target>)
      if (turn_.lasts(shared_->target_turns)) shared_->target.truncate(0);
    if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->drafter.truncate(0);
    turn_ = drafter_turn_ = detail::Turn();
    Base::target_is_empty();
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
      if constexpr (drafts_trees<Drafter>)
        if (!feed.parents.empty()) {
          const auto& rows = shared_->target.forward(feed.tokens, feed.parents, feed.rows);
          const std::span<const Token> emitted = accept(rows, chance);
          shared_->target.keep(kept_path());
          return emitted;
        }
      const auto& rows = shared_->target.forward(feed.tokens, feed.rows);
      const std::span<const Token> emitted = accept(rows, chance);
      shared_->target.truncate(kept());
      return emitted;
    } catch (...) {
      withdraw();
      shared_->target.truncate(kept());
      throw;
    }
  }

  template <RandomSource Source>
  Feed propose_half(Source& source) {
    withdraw();
    if (done()) return {{}, kept(), 0};
    auto&& chance = as_chance(source);
    detail::stand_at(chance, std::ssize(context()));
    take_drafter();
    const DraftLimits limits = draft_limits();
    try {
      const auto draft_time = draft(limits, chance);
      drafter_turn_.go_on(shared_->drafter_turns);
      return Base::offer(*draft_.value, draft_time);
    } catch (...) {
      draft_.value.reset();
      shared_->drafter.truncate(std::ssize(context()));
      throw;
    }
  }

  template <class C>
  std::chrono::nanoseconds draft(const DraftLimits& limits, C& chance) {
    static_assert(std::same_as<DraftOf, DraftBy<C>>,
                  "the drafter's proposal is of another type for another source of chance");
    const auto start = detail::Clock::now();
    const KeepDrafting keep_drafting{&shared_->length};
    draft_.value.emplace(ask_drafter(shared_->drafter, context(), limits, chance, keep_drafting));
    return detail::Clock::now() - start;
  }

  void take_target() {
    if (turn_.lasts(shared_->target_turns)) return;
    if (Base::filled() > 0)
      throw std::logic_error(
          "specdec: the target's context, which the caller had filled, was used in between, by another "
          "sequence or by propose()");
    turn_.take(shared_->target_turns);
    shared_->target.truncate(0);
    Base::target_is_empty();
  }

  void take_drafter() {
    if (drafter_turn_.lasts(shared_->drafter_turns)) return;
    drafter_turn_.take(shared_->drafter_turns);
    shared_->drafter.truncate(0);
  }

  // Takes back what was proposed.
  void withdraw() {
    Base::withdraw();
    if (!draft_.value) return;
    draft_.value.reset();
    if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->drafter.truncate(std::ssize(context()));
  }

  Shared* shared_;
  detail::Turn turn_, drafter_turn_;
  detail::Uncopied<DraftOf> draft_;  // what is proposed
};

}  // namespace specdec

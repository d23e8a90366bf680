// The outer loop for one text, one step or half a step at a time.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444 (after Leviathan et al., arXiv:2211.17192).
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/round.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verify_line.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// What the sequences of a decoder share: the target, the round with its drafter, and the draft length. The sequences refer to
/// it, so it stays where it is, also when the decoder moves.
template <class TargetModel, class DraftSource, class V, class Length, class O>
struct Shared {
  using Target = std::remove_reference_t<TargetModel>;
  using Rule = V;
  using Observers = O;
  using Policy = std::remove_reference_t<Length>;
  using Round = detail::Round<DraftSource, V, Policy, O>;

  Shared(TargetModel&& t, DraftSource&& d, Length&& l)
      : target(std::forward<TargetModel>(t)),
        round(std::forward<DraftSource>(d)),
        length(std::forward<Length>(l)),
        target_turns(Turns::of<TargetModel>(target.model())),
        drafter_turns(Turns::of<typename Round::Lifted>(round.drafter())) {
    serve_one(round.drafter());
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  /// Releases the sequence in a target for many texts, which others may use next.
  ~Shared() {
    if constexpr (!has_one_context<Target>) target.release(0);
  }

  OverFeeds<TargetModel> target;
  Round round;
  Length length;
  Turns target_turns, drafter_turns;
};

}  // namespace detail

/// One text in generation, on the models of a SpecDec. The SpecDec, or what it was moved into, must outlive it.
///
///   while (!sequence.done()) sequence.step(rng);
///
/// A step drafts x_1..x_γ with their rows q. It feeds the target the tokens that are not cached (at first the prompt) and
/// the draft. The verifier judges the draft. The step appends x_1..x_τ, Y. Both models drop the rejected tokens.
///
/// An engine that runs its model itself, or puts many sequences into one call, splits the step in two:
///
///   const specdec::Feed feed = sequence.propose(rng);
///   // cut the target's context to feed.from tokens, feed it feed.tokens, take the rows of the last feed.rows
///   sequence.accept(rows, rng);
///   // cut the target's context to sequence.kept() tokens
///
/// An engine that judges the drafts itself, too, hands in its verdicts: settle(verdict) in place of accept().
///
/// The decoder then asks its target for vocab_size() and context_size() only: see ExternalTarget, also for rows that need not be computed.
/// The engine manages its own contexts. After a failed call nothing has to be undone: the next propose() forgets the proposal.
///
/// A draft may be a tree (drafts_trees, judges_trees). Then γ counts all tokens of the tree, and no path is longer than the
/// budget allows. A target that takes trees gets the tree in one call. feed.parents gives the parent of each token;
/// sequence.kept_path() says which of the fed tokens the target keeps.
///
/// γ is the length that the draft-length policy asks for, at most Options::gamma. γ is cut to the free room in the target's
/// context (context_size) and to the remaining budget. If the verifier needs a longer draft (min_draft_length), the draft is
/// that long, even beyond the budget; the context still limits it.
///
/// Sequences may take turns on one model, a step each: those of one decoder, or of decoders that refer to one model, and copies.
/// At each change of turn the next one feeds its whole context again, which is slow. For sequences that run side by side, give
/// each a decoder with its own drafter. If another one uses the drafter after propose(), accept() throws InvalidCall.
/// Throws: what models, drafter and verifier throw. The sequence, the statistics and both contexts are then as before the
/// step, and the step can be tried again, from propose() on. Only the generator has moved on.
template <class Shared>
class Sequence : private Shared::Round::Seat {
  using Target = typename Shared::Target;
  using Round = typename Shared::Round;
  using Base = typename Round::Seat;
  // Of a target that is no model SpecDec has said what is missing.
  static constexpr bool calls_target = detail::TakesCalls<Target>;

 public:
  using Answer = typename Base::Answer;

  /// What SpecDec::start calls.
  Sequence(Shared& shared, typename Shared::Rule rule, TokenIds prompt, Options options, FilledContext filled,
           typename Shared::Observers observers)
      : Base(detail::described(shared.target.model()), std::move(rule), prompt, std::move(options), filled,
             std::move(observers)),
        shared_(&shared) {
    if (filled.cached == 0) return;
    if (!can_adopt<Target>)
      detail::invalid_argument("cached = ", filled.cached,
                               ", but the target keeps a context of its own: it does not know tokens that "
                               "the model inside was fed directly");
    turn_.take(shared.target_turns);
    if constexpr (calls_target) {
      shared.target.adopt(Base::number, context().first(static_cast<std::size_t>(filled.cached)));
      keep_in_target(kept());
    }
  }

  /// The state of the text: see Step.
  using Base::context, Base::done, Base::draft, Base::kept, Base::kept_path, Base::log_probabilities,
      Base::observer, Base::prompt_log_probabilities, Base::raw_log_probabilities,
      Base::raw_prompt_log_probabilities, Base::result, Base::stats, Base::tokens, Base::verifier;

  /// How large the next draft may be, by the draft-length policy: see Step::limits.
  /// Throws: what the policy throws.
  DraftLimits draft_limits() {
    return Base::limits(
        [this](Index most) { return detail::next_length(shared_->length, most, Base::drafted_text()); });
  }

  /// Takes one step, with one target call. Returns the emitted tokens; none when done(). The view lives until the next step.
  /// `source`, here and below: a random bit generator or a source of chance, a variable that goes on where it stopped.
  template <class Source = detail::MissingGenerator>
  std::span<const Token> step(Source&& source = {}) & {
    static_assert(!is_external<Target>, "an ExternalTarget is called by the caller: propose() and accept()");
    if constexpr (detail::fits_source<Source>() && calls_target) return whole_step(source);
    else return {};
  }
  template <class Source>
  void step(Source&& source) && = delete;  // the view would dangle

  /// Steps until done(), and returns the result(). Calls on_step(tokens), if given, with the tokens of each step, to stream
  /// them. A callback may return bool: false ends the text like cancel().
  /// Throws: what step() and on_step throw. A step that fails is undone. If on_step throws, the step counts: its tokens are
  /// in tokens(). To go on, call generate() again: no token is lost or reported twice.
  template <class Source = detail::MissingGenerator, class OnStep = detail::NoCallback>
  Result generate(Source&& source = {}, OnStep&& on_step = {}) {
    if constexpr (detail::fits_callback<OnStep>())
      while (!done()) {
        const std::span<const Token> emitted = step(std::forward<Source>(source));
        if constexpr (std::same_as<std::invoke_result_t<OnStep&, std::span<const Token>>, bool>) {
          if (!on_step(emitted)) Base::stop();
        } else {
          on_step(emitted);
        }
      }
    return result();
  }

  /// Drafts, and returns what the target must be fed; nothing (0 rows) when done(). Views live until accept(). An earlier
  /// proposal that was not accepted is forgotten. If the log-probabilities of the prompt are asked for, the first Feed is the
  /// prompt alone, and accept() then emits no token. Rows after what a grammar refuses may be garbage (ExternalTarget).
  template <class Source = detail::MissingGenerator>
  Feed propose(Source&& source = {}) & {
    // The caller now feeds the target itself. So the next step() of any sequence on this target feeds its whole context.
    if constexpr (calls_target) shared_->target_turns.next();
    if constexpr (detail::fits_source<Source>()) return propose_half(source);
    else return {};
  }
  template <class Source>
  void propose(Source&& source) && = delete;  // the views would dangle

  /// Judges the last proposal by the target's rows. Returns the emitted tokens, until the next step; none when done().
  /// Shapes: see Step::accept.
  /// Throws: what the rows, the rule and the drafter throw; InvalidCall without a proposal, or if the drafter was used since.
  template <class Rows, class Source = detail::MissingGenerator>
  std::span<const Token> accept(const Rows& rows, Source&& source = {}) & {
    static_assert(detail::fits_target_rows<Rows>());
    if (done()) return {};
    check_proposal();
    decltype(auto) made = of_target(rows);
    if constexpr (detail::fits_source<Source>()) Round::weigh(*this, made, source);
    return finish(made);
  }

  /// In place of accept(): a verdict on draft() by the sequence's rule, made elsewhere, on a device or in an engine's kernel. It may
  /// come late. Until then the engine plans on feed.from + feed.tokens.size() tokens kept, as if all were accepted; then on kept().
  /// Throws: as Step::settle: the right verdict can be settled then. Else as accept().
  std::span<const Token> settle(const Answer& verdict) & {
    if (done()) return {};
    check_proposal();
    Round::take(*this, Base::stop_of(verdict));
    return finish(NoRows{});
  }

  /// While the target's call is out: the drafter drafts for what may come of it (AheadDrafter).
  void draft_ahead() & {
    if (Base::in_flight.value == 0) return;
    check_proposal();
    drafter().draft_ahead();
  }

  /// The next turn of a conversation, with new options: this text, then `text`, then new tokens. A text that has not ended is
  /// interrupted. The models keep what they have read. The statistics go on.
  /// Throws: what resume() throws.
  void add_turn(TokenIds text, const Options& options) {
    Base::add_turn(text, options);
    keep_in_models(kept());  // nothing throws from here on
  }

  /// Goes on from another context with new options: from a part of the present text, say, or from an edited one. The models keep
  /// the common prefix of both contexts in their caches. The statistics go on.
  ///
  /// The verifier keeps its memory if `text` is exactly context() and the text was not complete: between steps, or after
  /// cancel(). Else it starts afresh. Why: in greedy block verification a single step is biased, and the next tokens correct that.
  /// So a text that was cut between steps must go on with the memory. One that a stop token or its budget has ended is unbiased.
  /// Throws: InvalidArgument where SpecDec::start does. The sequence is then unchanged.
  void resume(TokenIds text, Options options) {
    Base::resume(text, std::move(options));
    keep_in_models(kept());  // nothing throws from here on
  }

  /// Other options for a text that runs: a budget, stops, γ = 0 for no more drafts. They hold from the next draft on: a proposal
  /// that is out is judged, and stopped, by the options that it was made with. max_new_tokens and min_new_tokens count what is
  /// written; a budget that is spent ends the text here. New stops are looked for from here on, but stop strings may have begun
  /// before. log_probabilities cannot change; chains and processors are the models'. Whenever γ changes, the text keeps its law. A
  /// rule that remembers it (GreedyBlockVerifier) drafts until its memory is used up, even if γ = 0, and no budget may shrink.
  /// Throws: InvalidArgument where SpecDec::start does, and for other log_probabilities; InvalidCall if the text has ended.
  /// Cost: one look at the text.
  void change(Options options) { Base::change(std::move(options)); }

  /// Starts the verifier afresh. Call it before resume() if the text equals this one, but its end was written by other code.
  void forget() {
    withdraw();
    Base::forget();
  }

  /// Another text, the same so far, for another sample of it. Its statistics begin here. It takes turns with this one on the
  /// decoder's models, which read it anew. Options, if given, as in Twin::options.
  /// Throws: InvalidArgument where Batch::fork does; InvalidCall if the text has begun and its rule remembers it.
  Sequence fork(std::optional<Options> other = {}) const {
    Base::check_fork(other.has_value());
    Sequence twin(*this);
    twin.become_twin(Base::number, std::move(other));
    return twin;
  }

  /// Clears the contexts of both models. The text can go on at any time: the next step feeds them all of it again. Use it to free memory, and after other
  /// code has used the models.
  /// Throws: InvalidCall if the caller had filled the target's context (FilledContext): the sequence cannot restore it.
  void pause() {
    if (Base::filled() > 0) detail::invalid_call("a context that the caller had filled cannot be released");
    withdraw();
    keep_in_models(0);
    turn_ = drafter_turn_ = detail::Turn();
    Base::target_holds(0);
  }

  /// Ends the text here, and returns what has been generated so far.
  /// Throws: std::bad_alloc. The text has not ended then.
  Result cancel() {
    Result out = Base::cancelled();
    stop();
    return out;
  }

  /// The names that pause() and cancel() had before; stop() returns nothing, and so throws nothing.
  void release() { pause(); }
  void stop() {
    withdraw();
    Base::stop();
  }

 private:
  template <RandomSource Source>
  std::span<const Token> whole_step(Source& source) {
    if (done()) return {};
    take_target();
    auto&& chance = as_chance(source);
    const auto step = [&] {
      std::span<const Token> emitted;
      do {  // a call for the prompt alone emits nothing
        const BatchFeed only{propose_half(chance), Base::number};
        if (!turn_.lasts(shared_->target_turns))
          detail::invalid_call("the drafter has used the target itself: give each a model of its own");
        const auto& rows = shared_->target.forward(std::span<const BatchFeed>(&only, 1));
        emitted = accept(rows, chance);
        Round::keep_in(shared_->target, *this);
      } while (emitted.empty() && !done());
      return emitted;
    };
    return detail::undo_on_error(step, [this] {
      withdraw();
      keep_in_target(kept());
    });
  }

  void check_proposal() {
    if (Base::in_flight.value == 0) detail::invalid_call("there is no proposal to judge: propose() first");
    if (!Base::offers() || drafter_turn_.lasts(shared_->drafter_turns)) return;
    withdraw();
    detail::invalid_call(
        "the drafter, or a model that it refers to, was used elsewhere since propose(): sequences that run "
        "side by side need a decoder each, with a drafter of its own");
  }
  // What the target makes of rows that are handed in.
  template <class Rows>
  decltype(auto) of_target(const Rows& rows) {
    if constexpr (!ProcessesRows<Target>) return (rows);
    else return shared_->target.model().processed(Base::fed_after(), {Base::next_feed, Base::number}, rows);
  }
  template <class Rows>
  std::span<const Token> finish(const Rows& rows) {
    shared_->round.settle(*this, rows, shared_->length);
    rethrow();
    return Base::last_emitted;
  }

  // Of the models that nobody else has used since.
  void keep_in_models(Index length) {
    Base::in_flight.value = 0;
    if constexpr (calls_target)
      if (turn_.lasts(shared_->target_turns)) keep_in_target(length);
    if (drafter_turn_.lasts(shared_->drafter_turns)) drafter().keep(Base::number, length);
  }
  void keep_in_target(Index length) { shared_->target.keep(Base::number, length); }

  template <RandomSource Source>
  Feed propose_half(Source& source) {
    withdraw();
    if (done()) return {{}, kept(), 0};
    if (Base::reads_prompt()) Base::next_feed = Base::next_part(Base::unread());
    else make_draft(source);
    Base::in_flight.value = 1;
    return Base::next_feed;
  }

  template <RandomSource Source>
  void make_draft(Source& source) {
    auto&& chance = as_chance(source);
    take_drafter();
    Base::asked = draft_limits();
    auto request = Round::request_of(*this, shared_->length, chance);
    InOrder in_order;
    shared_->round.draft(std::span(&request, 1), in_order);
    drafter_turn_.go_on(shared_->drafter_turns);
    rethrow();
  }

  // The error of a step that was taken back.
  void rethrow() {
    if (Base::error) std::rethrow_exception(std::exchange(Base::error, nullptr));
  }

  typename Round::Drafter& drafter() { return shared_->round.drafter(); }

  void take_target() {
    if (turn_.lasts(shared_->target_turns)) return;
    if (Base::filled() > 0)
      detail::invalid_call(
          "the target's context, which the caller had filled, was used in between, by another "
          "sequence or by propose()");
    turn_.take(shared_->target_turns);
    keep_in_target(0);
    Base::target_holds(0);
  }

  void take_drafter() {
    if (drafter_turn_.lasts(shared_->drafter_turns)) return;
    drafter_turn_.take(shared_->drafter_turns);
    drafter().keep(Base::number, 0);
  }

  // Takes back the proposal. The drafter rolls back only if nobody else has used it since.
  void withdraw() {
    if (drafter_turn_.lasts(shared_->drafter_turns)) shared_->round.withdraw(*this);
    else Base::withdraw();
  }

  Shared* shared_;
  detail::Turn turn_, drafter_turn_;
};

}  // namespace specdec

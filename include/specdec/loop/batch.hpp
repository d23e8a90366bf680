// The outer loop for many sequences: one target call per step.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444, for each sequence; Yu et al., "Orca", OSDI 2022, for the batch.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/each.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/batch_core.hpp"
#include "specdec/loop/observers.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/request.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/verify_line.hpp"

namespace specdec::inline v0_2_0 {

/// Generates many texts together: each step is one target call. Sequences come and go between steps:
///
///   specdec::Batch batch{target, specdec::ModelDrafter{small}, specdec::BlockVerifier{}};
///   const specdec::Index a = batch.add(prompt, {.max_new_tokens = 256, .gamma = 4}, std::mt19937_64{seed});
///   while (!batch.empty())
///     for (const specdec::Finished& done : batch.step()) use(done.sequence, done.result);
///
/// A sequence has its own options, rule, statistics and generator. Its text is the text of SpecDec::generate with the same
/// seed. The other sequences, the order of arrival and the number of threads do not change the text, if the target's rows do
/// not depend on the other tokens in a call. Two exceptions, with the same law: one draft length for all looks at all sequences; and
/// if a prompt is fed in parts, or a fork begins with a copy of its context, a head on hidden states drafts earlier than alone.
///
/// target     a BatchModel; for drafts that are trees, one that takes trees
/// drafter    a Drafter, which drafts for all sequences at once; or a OneTextDrafter that can be copied: each sequence gets a
///            copy; or a function of the sequence's number that returns one (LiftedDrafter)
/// verifier   copied for each sequence, since it may remember its sequence
/// length     a draft length, one for all sequences; with each(policy) each sequence gets a copy. A length that measures time
///            (CostOptimalLength, EarlyStoppingLength) should be one for all: all sequences wait for the longest draft
/// observers  copied for each sequence: see Observers. By default the statistics and log-probabilities of a Result
///
/// An engine that runs its model itself, or has its own scheduler, passes an ExternalTarget and splits the step in two:
///
///   while (!batch.empty()) {
///     const std::span<const specdec::BatchFeed> feeds = batch.propose();
///     // the engine's call, for each feed: cut its sequence to feed.from tokens, feed it feed.tokens, take the rows of the
///     // last feed.rows
///     for (const specdec::Finished& done : batch.accept(rows)) use(done.sequence, done.result);
///     // cut each sequence to batch.sequence(number).kept() tokens, or keep its kept_path()
///   }
///
/// A text that is over has left the batch. Of its last feed the context keeps what makes it the prompt and the new tokens without the
/// last one: that much may serve other requests. For a tree, on_step asks sequence(number).kept_path().
/// It may say which sequences take part, with propose_for(sequences) and accept_for(sequences, rows). Then several calls may be
/// under way at a time, for different sequences. If it judges the drafts itself, it hands in verdicts: settle(verdicts).
///
/// A target, drafter or draft length that is passed as an lvalue is used by reference: it must outlive the batch. An rvalue is
/// moved in. A batch can be moved between calls, and cannot be copied. All calls come from one thread.
template <class TargetModel, class DraftSource, class V = BlockVerifier, class Length = FixedLength,
          class O = DefaultObservers>
class Batch {
  using Target = std::remove_reference_t<TargetModel>;
  static constexpr bool called_here = !is_external<Target>;
  static_assert(!detail::has_one_context<Target> || !called_here || detail::ConstModel<Target>,
                "the model has no forward(std::span<const specdec::BatchFeed> feeds) for many texts, or is a "
                "wrapper around such a model: see specdec::BatchModel, and specdec::ModelPerSequence, which "
                "makes one of a model that can be copied");
  static_assert(detail::fits_model<Target, called_here>());
  static_assert(detail::fits_drafter<DraftSource>());
  using Core = detail::BatchCore<TargetModel, DraftSource, V, Length, O>;
  using Policy = typename Core::Policy;
  using Round = typename Core::Round;
  using Entry = typename Core::Entry;
  static_assert(detail::fit_together<Target, drafts_trees<typename Round::Drafter>, V, Policy>());
  static_assert(
      Core::shares_length || detail::serves_one_text<Policy>,
      "this draft length counts the texts that it serves: pass the policy, not specdec::each(policy)");

 public:
  /// One text in generation: its tokens, its statistics, and the tokens that the target keeps.
  using Sequence = typename Round::Step;
  /// A sequence's source of random numbers: any generator; for KeyedVerifier a Keyed.
  using Source = typename Entry::Source;
  using Answer = typename Sequence::Answer;
  using Request = specdec::Request<Source>;
  using Twin = specdec::Twin<Source>;
  using Paused = PausedRequest<Entry, Sequence, detail::StateOf<typename Round::Drafter>>;

  Batch(TargetModel&& target, DraftSource&& drafter, V verifier = {}, BatchOptions options = {})
    requires std::default_initializable<Length>
      : Batch(std::forward<TargetModel>(target), std::forward<DraftSource>(drafter), std::move(verifier),
              Length{}, options) {}

  /// Throws: InvalidArgument if tokens_per_call is below 1, or if copies of a drafter would share a model or a drafter.
  Batch(TargetModel&& target, DraftSource&& drafter, V verifier, Length&& length, BatchOptions options = {},
        O observers = {})
      : core_(std::make_unique<Core>(std::forward<TargetModel>(target), std::forward<DraftSource>(drafter),
                                     std::forward<Length>(length), options.tokens_per_call)),
        verifier_(std::move(verifier)),
        observers_(std::move(observers)) {
    if (options.tokens_per_call < 1)
      detail::invalid_argument("tokens_per_call = ", options.tokens_per_call, " is below 1");
    detail::check_copies(core().drafter());
  }
  Batch(Batch&&) noexcept = default;
  Batch& operator=(Batch&&) noexcept = default;
  /// Releases the remaining sequences in the models, so that the models can serve another batch.
  ~Batch() = default;

  /// Adds a sequence, which takes part from the next step on. Returns its number. on_step, if given, is called on the thread that
  /// steps, with the tokens of each step; if it returns false the sequence ends. on_step may add() sequences. add() may also be
  /// called between propose() and accept(). A generator is moved in. With std::ref(rng) the sequence draws from rng itself. So
  /// the offset of a Philox is known after the text.
  /// Throws: what SpecDec::start throws, and InvalidArgument if gamma + 1 tokens do not fit in a call, if the number is
  /// in use or out of range, or if tokens are cached that the target cannot know. The batch is then as before.
  Index add(Request request) {
    const Index number = core().texts.new_number(request.number);
    core().check_fits(request.options.gamma);
    const FilledContext filled{request.cached};
    core().enter(std::make_unique<Entry>(number, detail::described(core().target), verifier_,
                                         core().own_length(), std::move(request), observers_),
                 filled);
    return number;
  }
  template <class Prompt = TokenIds, class F = OnStep>
  Index add(const Prompt& prompt, const Options& options, Source source = detail::MissingGenerator{},
            F on_step = {}) {
    if constexpr (detail::fits_prompt<Prompt>() && detail::fits_callback<F>())
      return add(Request{
          .prompt = prompt, .options = options, .source = std::move(source), .on_step = std::move(on_step)});
    else return 0;
  }
  /// Arguments in another order: a compile error that says so.
  template <class First, class Second, class... More>
  Index add(const First&, const Second&, const Options&, More&&...) {
    static_assert(detail::fits_order<First, Second>());
    return 0;
  }

  /// Takes a sequence out, between steps or between propose() and accept(). A proposal that is out for it is taken back, with its
  /// random numbers; others stay. It goes on by add(), here or in another batch of this type, as if nothing had happened.
  /// Throws: InvalidArgument if there is no sequence of that number; InvalidCall within a callback.
  Paused pause(Index sequence) {
    check_between_steps("pause()");
    core().withdraw(*core().texts.find(sequence));
    core().take_over_contexts();  // its twins
    std::unique_ptr<Entry> entry = core().remove(sequence);
    entry->seat().target_holds(0);
    if constexpr (detail::HasRelease<Target>) core().target.release(sequence);
    return {std::move(entry), detail::take_state(core().drafter(), sequence)};
  }

  /// Goes on with a paused sequence, under its own number. One that has ended and stays waits for its next turn, also if it does
  /// not fit in the target's context. `filled`: the target's context of this number holds the first tokens of the text already (an
  /// ExternalTarget, or a target whose contexts the caller fills).
  /// Throws: InvalidArgument if the number is in use here, if gamma + 1 tokens do not fit in a call, or if the text does
  /// not suit the target. The sequence is then still paused.
  Index add(Paused&& paused, FilledContext filled = {}) {
    Entry& entry = paused.entry();
    const Index number = entry.number();
    const ExternalTarget target =
        core().check_enters(entry, entry.seat().most(), filled, std::ssize(entry.seat().context()));
    core().texts.enter(std::move(paused.entry_));
    detail::undo_on_error([&] { detail::put_state(core().drafter(), number, std::move(paused.state_)); },
                          [&] { paused.entry_ = core().remove(number); });
    entry.seat().move_to(target);  // nothing throws from here on
    core().fill(entry, filled);
    core().keep_filled(number, filled);
    return number;
  }

  /// Another sequence with the same text so far, and other random numbers from here on: for several samples of one prompt.
  /// Returns its number. If the target has fork(from, to), which gives a new sequence a copy of a context, it reads the text
  /// once: a twin of a sequence whose prompt is still to be read waits for it. A draft model that has fork(from, to) reads the text
  /// once, too. With an ExternalTarget, `cached` says how many tokens the engine will have copied for the new number.
  /// A twin's statistics begin here: the steps before are its text's.
  /// What goes by number (chains, processors and drafters that a function returns) is that of the new number. Say the number
  /// if there are such things; then the target's functions are asked for it here, so that they can refuse it.
  /// Throws: InvalidArgument if there is no sequence of that number, and where add() does; what the functions of the number
  /// throw; std::bad_alloc; InvalidCall if the text has begun and its rule remembers it: its twins would not be independent.
  /// The batch is then as before.
  Index fork(Index sequence, Twin twin) {
    Entry& other = *core().texts.find(sequence);
    other.seat().check_fork(twin.options.has_value());
    const Index number = core().texts.new_number(twin.number);
    if (twin.number >= 0) detail::check_number(core().target, number);
    if (twin.options) core().check_fits(twin.options->gamma);
    const FilledContext filled{twin.cached};
    core().enter_twin(std::make_unique<Entry>(other, number, std::move(twin)), sequence, filled);
    return number;
  }
  Index fork(Index sequence, Source source, const OnStep& on_step = {}, FilledContext filled = {}) {
    return fork(sequence, Twin{.source = std::move(source), .cached = filled.cached, .on_step = on_step});
  }

  /// A twin of a paused sequence, which stays paused. The twin's number is the next one that neither has used.
  /// Throws: where add(paused) and fork() do. All is then as before.
  Index fork(Paused& paused, Twin twin) {
    check_between_steps("fork()");
    const Index number = add(std::move(paused));
    const auto pause_again = [&] { paused = pause(number); };
    const auto fork_it = [&] { return fork(number, std::move(twin)); };
    const Index forked = detail::undo_on_error(fork_it, pause_again);
    pause_again();
    return forked;
  }

  /// Other options for a sequence that runs: see specdec::Sequence::change. A callback may do this, too.
  /// Throws: what that throws; InvalidArgument if there is no sequence of that number, or gamma + 1 tokens do not fit in a call.
  void change(Index sequence, Options options) {
    Entry& entry = *core().texts.find(sequence);
    core().check_fits(options.gamma);
    entry.seat().change(std::move(options));
  }

  /// The next turn of a sequence that has ended and stays (Request::stays), or of a paused one: its text, then `text`, then new
  /// tokens. What the models have read of it they keep. A text that has not ended is interrupted. See Sequence::resume.
  /// Throws: what Sequence::resume and add() throw. The sequence is then as before.
  Index add_turn(Index sequence, TokenIds text, const Options& options) {
    check_between_steps("add_turn()");
    Entry& entry = *core().texts.find(sequence);
    core().check_fits(options.gamma);
    entry.add_turn(text, options);
    core().withdraw(entry);  // nothing throws from here on
    core().leave_call(entry);
    if constexpr (called_here) core().target.keep(sequence, entry.seat().kept());
    core().drafter().keep(sequence, entry.seat().kept());
    return sequence;
  }
  Index add_turn(Paused&& paused, TokenIds text, const Options& options, FilledContext filled = {}) {
    Entry& entry = paused.entry();
    const ExternalTarget target =
        core().check_enters(entry, options.gamma, filled, std::ssize(entry.seat().context()) + text.size());
    const ExternalTarget before = entry.seat().move_to(target);
    detail::undo_on_error([&] { entry.add_turn(text, options); }, [&] { entry.seat().move_to(before); });
    return add(std::move(paused), filled);
  }

  /// Removes a sequence, and returns what has been generated so far. Proposals for other sequences stay.
  /// Throws: InvalidArgument if there is no sequence of that number; InvalidCall within a callback, which returns false instead.
  Result cancel(Index sequence) {
    check_between_steps("cancel()");
    Entry& entry = *core().texts.find(sequence);
    Result result = entry.seat().cancelled();  // may throw bad_alloc: the sequence then stays
    core().withdraw(entry);
    core().take_over_contexts();  // its twins
    core().forget(sequence);
    core().remove(sequence);
    return result;
  }

  /// How many sequences are being written. Sequences that have ended and stay do not count.
  Index size() const { return core().size(); }
  bool empty() const { return size() == 0; }
  /// The sequence of that number: its tokens and its statistics.
  /// Throws: InvalidArgument if there is none.
  const Sequence& sequence(Index number) const& { return core().texts.find(number)->seat(); }
  const Sequence& sequence(Index number) const&& = delete;
  /// Target calls so far, and the tokens fed in these calls.
  Index target_calls() const { return core().target_calls(); }
  Index fed() const { return core().fed(); }

  /// Drafts, calls the target once and judges, for all sequences or as many as a call has room for. Returns the finished and
  /// the failed sequences, in the order of their numbers. The view lives until the next step. Bad rows end only their own
  /// sequence. So does a drafter, a rule or a callback that throws.
  ///
  /// `for_each` runs the work that each sequence does alone: judging, and drafting if each has its own drafter.
  /// Throws: what the target and `for_each` throw, and a drafter that fails for all sequences. All sequences and their
  /// generators are then as before the step, and the step can be tried again. There are two exceptions. If `for_each` throws
  /// after it has judged some sequences, these have taken the step and called their callbacks. If there is no memory for the
  /// results (std::bad_alloc), all sequences have taken the step. The next step returns those that finished in this one.
  template <class E = InOrder>
  std::span<const Finished> step(E&& for_each = {}) & {
    check_between_steps<E>("step()");
    take_step(for_each);
    return end_step();
  }

  /// The first half of a step: drafts, and returns what the target must be fed, sequence by sequence. If the list is empty,
  /// call accept() with no rows: it returns the failed sequences. The view lives until the next propose() or accept(). Earlier
  /// proposals that were not accepted are taken back. Rows after what a grammar refuses may be garbage (ExternalTarget).
  /// Throws: what step() throws, except the target's errors.
  template <class E = InOrder>
  std::span<const BatchFeed> propose(E&& for_each = {}) & {
    check_between_steps<E>("propose()");
    proposed_ = false;
    core().admit();
    core().make_feeds(for_each);
    proposed_ = true;
    return core().feeds();
  }

  /// While the target's call is out: the drafter drafts for what may come of it (AheadDrafter), perhaps with an Executor.
  void draft_ahead(auto&&... for_each) { core().drafter().draft_ahead(for_each...); }

  /// The second half: judges the last proposal. Returns what step() returns. Rows of a sequence that has left are only counted.
  /// Shapes: `rows` is one matrix with the rows that the feeds want, feed after feed.
  /// Throws: InvalidCall without a proposal; InvalidArgument if the number of rows is not what the feeds want;
  /// else what step() throws. To try again, begin with propose().
  template <class Rows, class E = InOrder>
  std::span<const Finished> accept(const Rows& rows, E&& for_each = {}) & {
    static_assert(detail::fits_target_rows<Rows>());
    check_between_steps<E>("accept()");
    if (!proposed_) detail::invalid_call("there is no proposal to judge: propose() first");
    proposed_ = false;
    core().take_rows(rows, for_each);
    return end_step();
  }

  /// In place of accept(): verdicts by the sequences' rule that were made elsewhere, one for each feed (Sequence::settle). That of
  /// a part of a prompt, which wants no rows, and of a sequence that has left since, is not read.
  /// Throws: InvalidCall without a proposal; InvalidArgument unless there are as many verdicts as feeds; as Step::settle. All is
  /// then as before: the right verdicts can be settled.
  std::span<const Finished> settle(std::span<const Answer> verdicts) & {
    check_between_steps("settle()");
    if (!proposed_) detail::invalid_call("there is no proposal to judge: propose() first");
    core().take_verdicts(verdicts);
    return end_step();
  }

  /// propose() for some sequences only. Their earlier proposals are taken back, those that are out for other sequences stay. The
  /// feeds say who takes part: sequences that wait for another's prompt, or find no room in the call, have no proposal then.
  /// Throws: InvalidArgument if there is no sequence of a number, or a number occurs twice; what propose() throws.
  template <class E = InOrder>
  std::span<const BatchFeed> propose_for(std::span<const Index> sequences, E&& for_each = {}) & {
    check_between_steps<E>("propose_for()");
    proposed_ = false;
    core().admit(sequences);
    core().make_feeds(for_each);
    return core().feeds();
  }

  /// accept() for the proposals of these sequences, whichever call they came from.
  /// Shapes: the rows that their feeds want, in the order of `sequences`.
  /// Throws: InvalidArgument if a sequence has no proposal that is out, or occurs twice; what accept() throws.
  template <class Rows, class E = InOrder>
  std::span<const Finished> accept_for(std::span<const Index> sequences, const Rows& rows,
                                       E&& for_each = {}) & {
    static_assert(detail::fits_target_rows<Rows>());
    check_between_steps<E>("accept_for()");
    core().take_feeds(sequences);
    proposed_ = false;
    core().take_rows(rows, for_each);
    return end_step();
  }
  /// settle() for the proposals of these sequences, in their order.
  /// Throws: InvalidArgument if a sequence has no proposal that is out, or occurs twice; what settle() throws.
  std::span<const Finished> settle_for(std::span<const Index> sequences, std::span<const Answer> verdicts) & {
    check_between_steps("settle_for()");
    core().take_verdicts(sequences, verdicts);
    return end_step();
  }

  /// Steps until no sequence is left. Returns all finished sequences, in the order of their numbers.
  /// Throws: what step() throws. The sequences finished so far are then kept for the next call.
  template <class E = InOrder>
  std::vector<Finished> run(E&& for_each = {}) {
    check_between_steps<E>("run()");
    while (!empty()) take_step(for_each), core().end_step(all_finished_);
    std::ranges::sort(all_finished_, {}, &Finished::sequence);
    return std::exchange(all_finished_, {});
  }

 private:
  template <class E = InOrder>
  void check_between_steps(const char* call) const {
    static_assert(detail::fits_executor<E>());
    if (core().telling()) detail::invalid_call(call, " within a callback of the batch");
  }

  // Takes a step, but for what end_step() does.
  template <class E>
  void take_step(E& for_each) {
    static_assert(called_here, "an ExternalTarget is called by the caller: propose() and accept()");
    proposed_ = false;
    core().admit();
    core().make_feeds(for_each);
    if (!core().feeds().empty()) {
      decltype(auto) output = core().target.forward(core().feeds());
      core().take_rows(output, for_each);
    }
  }

  std::span<const Finished> end_step() {
    proposed_ = false;
    finished_.clear();
    core().end_step(finished_);
    std::ranges::sort(finished_, {}, &Finished::sequence);
    return detail::view_of(finished_);
  }

  // Throws: InvalidCall if the batch was moved away.
  Core& core() { return check_here(), *core_; }
  const Core& core() const { return check_here(), *core_; }
  void check_here() const { detail::check_here(core_ != nullptr, "batch"); }

  std::unique_ptr<Core> core_;  // views of a proposal point into it
  V verifier_;
  [[no_unique_address]] O observers_;
  bool proposed_ = false;
  std::vector<Finished> finished_, all_finished_;
};

template <class T, class D, class V = BlockVerifier>
Batch(T&&, D&&, V = {}, BatchOptions = {}) -> Batch<T, D, V>;

template <class T, class D, class V, class L>
  requires(!std::same_as<std::remove_cvref_t<L>, BatchOptions>)
Batch(T&&, D&&, V, L&&, BatchOptions = {}) -> Batch<T, D, V, L>;

template <class T, class D, class V, class L, class... O>
Batch(T&&, D&&, V, L&&, BatchOptions, Observers<O...>) -> Batch<T, D, V, L, Observers<O...>>;

}  // namespace specdec

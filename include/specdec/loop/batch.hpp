// The outer loop for many sequences: one target call per step.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444, for each sequence; batches whose members come and go: Yu et
// al., "Orca", OSDI 2022.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/shared.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/batch_entry.hpp"
#include "specdec/loop/driver.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/model/batch_model.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_range.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// A sequence that has left a batch.
struct Finished {
  Index sequence = 0;                  ///< its number
  Result result = {};                  ///< what was generated, up to the error if there was one
  std::exception_ptr error = nullptr;  ///< the error that ended it, if one did
};

/// How a batch uses its target calls.
struct BatchOptions {
  /// The most tokens in one target call. A sequence that finds no room waits, and goes first in the next call. A prompt that
  /// is too long for one call is fed in parts.
  Index tokens_per_call = unlimited;
};

/// Generates many texts together: each step is one target call. Sequences come and go between steps:
///
///   specdec::Batch batch{target, specdec::ModelDrafter{small}, specdec::BlockVerifier{}};
///   const specdec::Index a = batch.add(prompt, {.max_new_tokens = 256, .gamma = 4}, std::mt19937_64{seed});
///   while (!batch.empty())
///     for (const specdec::Finished& done : batch.step()) use(done.sequence, done.result);
///
/// A sequence has its own options, rule, statistics and generator. Its text is the text of SpecDec::generate with the same
/// seed. The other sequences, the order of arrival and the number of threads do not change the text, if the target's rows do
/// not depend on the other tokens in a call. Two exceptions: a shared draft length looks at all sequences; and if a prompt is
/// fed in parts, a head on the target's hidden states drafts earlier than alone (the text has the same law).
///
/// target     a BatchModel; for drafts that are trees, one that takes trees
/// drafter    a Drafter, which drafts for all sequences at once; or a OneTextDrafter that can be copied: each sequence gets a
///            copy; or a function of the sequence's number that returns one (LiftedDrafter)
/// verifier   copied for each sequence
/// length     a draft length, copied for each sequence; shared(policy) is one policy for all
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
/// A target or a drafter that is passed as an lvalue must outlive the batch, as in SpecDec. A batch can neither be
/// copied nor moved.
template <class TargetModel, class DraftSource, class V = BlockVerifier, class Length = FixedLength>
class Batch {
  using Target = std::remove_reference_t<TargetModel>;
  static constexpr bool called_here = !std::same_as<std::remove_const_t<Target>, ExternalTarget>;
  static_assert(detail::fits_batch_model<Target, called_here>());
  static_assert(detail::can_draft_for_requests<DraftSource>());
  static constexpr bool shares_length = detail::is_shared_policy<Length>;
  using Policy = typename detail::PolicyOf<Length>::Type;
  using Driver = detail::Driver<DraftSource, V, Policy>;
  static_assert(detail::fit_together<Target, drafts_trees<typename Driver::Drafter>, V, Policy>());
  static_assert(shares_length || !(
                                     requires(Policy& policy, Index n) { policy.batch(n); } ||
                                     requires(const Policy& policy) { policy.shape(); }),
                "this draft length is one for all sequences: pass specdec::shared(policy)");
  using Entry = detail::BatchEntry<typename Driver::Seat, Policy, shares_length, V>;
  using Request = typename Driver::template Request<typename Entry::Source>;

 public:
  /// One text in generation: its tokens, its statistics, and the tokens that the target keeps.
  using Sequence = typename Driver::Step;
  /// A sequence's source of random numbers: any generator; for KeyedVerifier a Keyed.
  using Source = typename detail::EntrySource<V>::Given;

  Batch(TargetModel&& target, DraftSource&& drafter, V verifier = {}, BatchOptions options = {})
    requires std::default_initializable<Length>
      : Batch(std::forward<TargetModel>(target), std::forward<DraftSource>(drafter), std::move(verifier),
              Length{}, options) {}

  /// Throws: std::invalid_argument if tokens_per_call is below 1, or if copies of a drafter of one text would share a model or a
  /// drafter.
  Batch(TargetModel&& target, DraftSource&& drafter, V verifier, Length length, BatchOptions options = {})
      : target_(std::forward<TargetModel>(target)),
        driver_(std::forward<DraftSource>(drafter)),
        verifier_(std::move(verifier)),
        length_(std::move(length)),
        options_(options) {
    if (options.tokens_per_call < 1)
      detail::invalid_argument("tokens_per_call = ", options.tokens_per_call, " is below 1");
    detail::check_copies(driver_.drafter());
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  /// Releases the remaining sequences in the models, so that the models can serve another batch.
  ~Batch() {
    for (const auto& entry : entries_) forget(entry->number());
  }

  /// Adds a sequence, which takes part from the next step on. Returns its number. on_step, if given, is called on the thread
  /// that steps, with the tokens of each step; if it returns false the sequence ends. on_step may add() sequences. add() may
  /// also be called between propose() and accept().
  /// The sequence draws from a copy of a generator; with std::ref(rng) it draws from rng itself. So the offset of a Philox is
  /// known after the text, and the text can be continued elsewhere.
  /// Throws: what SpecDec::start throws, and std::invalid_argument if gamma + 1 tokens do not fit in a call. The batch is
  /// then as before.
  Index add(TokenIds prompt, const Options& options, Source source) {
    return enter(prompt, options, std::move(source), nullptr);
  }
  template <class F>
  Index add(TokenIds prompt, const Options& options, Source source, F on_step) {
    static_assert(detail::fits_callback<F>());
    return enter(prompt, options, std::move(source), detail::on_step_of(std::move(on_step)));
  }

  /// Removes a sequence, and returns what has been generated so far.
  /// Throws: std::invalid_argument if there is no sequence of that number; std::logic_error within a callback (a callback
  /// returns false to end its own sequence).
  Result cancel(Index sequence) {
    check_between_steps("cancel()");
    proposed_ = false;
    const auto entry = find(sequence);
    Result result = (*entry)->seat().result();  // may throw bad_alloc: the sequence then stays
    if (!(*entry)->seat().done()) result.stop_reason = StopReason::callback;
    forget(sequence);
    entries_.erase(entry);
    return result;
  }

  /// How many sequences are in the batch.
  Index size() const { return std::ssize(entries_); }
  bool empty() const { return entries_.empty(); }
  /// The sequence of that number: its tokens and its statistics.
  /// Throws: std::invalid_argument if there is none.
  const Sequence& sequence(Index number) const& { return (*find(number))->seat(); }
  const Sequence& sequence(Index number) const&& = delete;
  /// Target calls so far, and the tokens fed in these calls.
  Index target_calls() const { return target_calls_; }
  Index fed() const { return fed_; }

  /// Drafts, calls the target once and judges, for all sequences or as many as a call has room for. Returns the finished and
  /// the failed sequences, in the order of their numbers. The view lives until the next step. Bad rows end only their own
  /// sequence. So does a drafter, a rule or a callback that throws.
  ///
  /// `for_each` runs the work that each sequence does alone: judging, and drafting if each has its own drafter.
  /// Throws: what the target and `for_each` throw, and a drafter that fails for all sequences. All sequences and their
  /// generators are then as before the step, and the step can be tried again. There are two exceptions. If `for_each` throws
  /// after it has judged some sequences, these have taken the step and called their callbacks. If there is no memory for the
  /// results (std::bad_alloc), all sequences have taken the step. The next step returns the sequences that finished in the
  /// step that threw.
  template <class E = InOrder>
  std::span<const Finished> step(E&& for_each = {}) & {
    static_assert(detail::fits_executor<E>());
    check_between_steps("step()");
    finished_.clear();
    step_into(finished_, for_each);
    sort_by_number(finished_);
    return detail::view_of(finished_);
  }

  /// The first half of a step: drafts, and returns what the target must be fed, sequence by sequence. If the list is empty,
  /// call accept() with no rows: it returns the failed sequences. The view lives until accept(). An earlier proposal that
  /// was not accepted is forgotten. cancel() discards a proposal, too.
  /// Throws: what step() throws, except the target's errors.
  template <class E = InOrder>
  std::span<const BatchFeed> propose(E&& for_each = {}) & {
    static_assert(detail::fits_executor<E>());
    check_between_steps("propose()");
    proposed_ = false;
    make_feeds(for_each);
    proposed_ = true;
    return detail::view_of(feeds_);
  }

  /// The second half: judges the last proposal. Returns what step() returns.
  /// Shapes: `rows` is one matrix with the rows that the feeds want, feed after feed.
  /// Throws: std::logic_error without a proposal; std::invalid_argument if the number of rows is not what the feeds want;
  /// else what step() throws. To try again, begin with propose().
  template <class Rows, class E = InOrder>
  std::span<const Finished> accept(const Rows& rows, E&& for_each = {}) & {
    static_assert(detail::fits_executor<E>());
    static_assert(detail::fits_rows<Rows>());
    static_assert(Probabilities<Rows>,
                  "the target's rows are no matrix of probabilities: pass an Eigen matrix, RowVectors, "
                  "RowPointers or another specdec::DistributionMatrix, with as many rows as the feeds want");
    check_between_steps("accept()");
    if (!proposed_) detail::logic_error("accept() has no proposal to judge: propose() first");
    proposed_ = false;
    finished_.clear();
    take_rows(rows, for_each);
    end_step(finished_);
    sort_by_number(finished_);
    return detail::view_of(finished_);
  }

  /// Steps until no sequence is left. Returns all finished sequences, in the order of their numbers.
  /// Throws: what step() throws. The sequences finished so far are then kept for the next call.
  template <class E = InOrder>
  std::vector<Finished> run(E&& for_each = {}) {
    static_assert(detail::fits_executor<E>());
    check_between_steps("run()");
    while (!empty()) step_into(all_finished_, for_each);
    sort_by_number(all_finished_);
    return std::exchange(all_finished_, {});
  }

 private:
  using Entries = std::vector<std::unique_ptr<Entry>>;

  void check_between_steps(const char* call) const {
    if (telling_) detail::logic_error(call, " within a callback of the batch");
  }

  static void sort_by_number(std::vector<Finished>& finished) {
    std::sort(finished.begin(), finished.end(),
              [](const Finished& a, const Finished& b) { return a.sequence < b.sequence; });
  }

  auto find(Index number) const {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [number](const auto& entry) { return entry->number() == number; });
    if (found == entries_.end()) detail::invalid_argument("there is no sequence ", number, " in the batch");
    return found;
  }

  Index enter(TokenIds prompt, const Options& options, Source source, detail::OnStep on_step) {
    const Index most = options_.tokens_per_call;
    if (most != unlimited && options.gamma >= most)
      detail::invalid_argument("gamma = ", options.gamma,
                               " and one more token do not fit in a call of tokens_per_call = ", most);
    const bool fits = most == unlimited || prompt.size() <= most - options.gamma;
    entries_.reserve(entries_.size() + 1);
    entries_.push_back(std::make_unique<Entry>(next_, detail::described(target_), verifier_, entry_policy(),
                                               prompt, options, fits ? 0 : prompt.size() - 1,
                                               std::move(source), std::move(on_step)));
    return next_++;
  }

  detail::OwnPolicy<Policy, shares_length> entry_policy() const {
    if constexpr (shares_length) return {};
    else return {length_};
  }

  // Takes a step, and adds the sequences that are over to `finished`.
  template <class E>
  void step_into(std::vector<Finished>& finished, E& for_each) {
    static_assert(called_here, "an ExternalTarget is called by the caller: propose() and accept()");
    proposed_ = false;
    make_feeds(for_each);
    if (!feeds_.empty()) {
      decltype(auto) output = target_.forward(detail::view_of(feeds_));
      take_rows(output, for_each);
    }
    end_step(finished);
  }

  template <class E>
  void make_feeds(E& for_each) {
    admit();
    draft(for_each);
    feeds_.clear();
    for (const Entry* entry : stepping_) feeds_.push_back({entry->seat().next_feed, entry->number()});
  }

  // Moves waiting sequences to the front.
  void end_step(std::vector<Finished>& finished) {
    std::rotate(entries_.begin(), entries_.begin() + looked_at_, entries_.end());
    leave(finished);
  }

  // Chooses the sequences of the step: those that have waited longest come first. The call must have room for the most
  // tokens that each may be fed. Drafts are drawn after the choice, so no drawn token influences it.
  void admit() {
    ask_shared_length();
    stepping_.clear();
    Index left = options_.tokens_per_call;
    for (looked_at_ = 0; looked_at_ < size(); ++looked_at_) {
      Entry& entry = *entries_[static_cast<std::size_t>(looked_at_)];
      if (entry.over()) continue;
      take_back(entry);
      const Index count = entry.uncached() > 0 ? std::min(entry.uncached(), left) : entry.most_fed(wanted_);
      if (entry.seat().error) continue;
      if (count > left || count == 0) break;
      if (entry.uncached() > 0) entry.feed_prompt(count);
      stepping_.push_back(&entry);
      left -= count;
    }
  }

  void ask_shared_length() {
    if constexpr (shares_length) {
      if (entries_.empty()) return;
      Index most = 0;
      for (const auto& entry : entries_) most = std::max(most, entry->most());
      auto& policy = *length_.policy;
      if constexpr (requires { policy.batch(size()); }) policy.batch(size());
      wanted_ = policy.next(most);
      for (const auto& entry : entries_) entry->seat().forget_limits();
    }
  }

  // The last step may have failed.
  void take_back(Entry& entry) {
    entry.judged = false;
    entry.source().rewind();
    driver_.withdraw(entry.seat());
  }

  template <class E>
  void draft(E& for_each) {
    requests_.clear();
    for (Entry* entry : stepping_)
      if (entry->uncached() == 0)
        requests_.push_back(Driver::request_of(entry->seat(), policy_of(*entry), entry->source()));
    driver_.draft(std::span<Request>(requests_), for_each);
    std::erase_if(stepping_, [](const Entry* entry) { return entry->seat().error != nullptr; });
  }

  Policy& policy_of(Entry& entry) {
    if constexpr (shares_length) return *length_.policy;
    else return entry.policy();
  }

  template <class Output, class E>
  void take_rows(const Output& output, E& for_each) {
    const auto rows = distributions(output);
    detail::undo_on_error([&] { judge(rows, for_each); }, [&] { settle_judged(rows); });
    settle(rows);
  }

  // After a throw: sequences that were judged before the throw have taken the step, the others have not.
  template <class Rows>
  void settle_judged(const Rows& rows) {
    for (Entry* entry : stepping_)
      if (!entry->judged) {
        if constexpr (called_here) target_.keep(entry->number(), entry->seat().next_feed.from);
        driver_.withdraw(entry->seat());
      }
    settle(rows);
  }

  template <class Rows, class E>
  void judge(const Rows& all, E& for_each) {
    Index expected = 0;
    firsts_.clear();
    for (const BatchFeed& feed : feeds_) {
      firsts_.push_back(expected);
      expected += feed.rows;
    }
    if (!feeds_.empty()) ++target_calls_;
    for (const BatchFeed& feed : feeds_) fed_ += std::ssize(feed.tokens);
    if (all.rows() != expected)
      detail::invalid_argument("the target returned ", Index{all.rows()}, " rows, expected ", expected);
    for_each(std::ssize(stepping_), [&](Index i) {
      Entry& entry = *stepping_[static_cast<std::size_t>(i)];
      if (entry.seat().next_feed.rows > 0) Driver::weigh(entry.seat(), rows_of(all, i), entry.source());
      entry.judged = true;
    });
  }

  // The rows of the i-th feed.
  template <class Rows>
  auto rows_of(const Rows& all, Index i) const {
    const auto k = static_cast<std::size_t>(i);
    return RowRange(all, firsts_[k], feeds_[k].rows);
  }

  // In the order of the feeds: what was learnt, the texts, the models' contexts, the callbacks. The target keeps the contexts as
  // they are until all drafters have seen its rows.
  template <class Rows>
  void settle(const Rows& all) {
    for (Index i = 0; i < std::ssize(stepping_); ++i) {
      Entry& entry = *stepping_[static_cast<std::size_t>(i)];
      if (!entry.judged) continue;
      if (entry.seat().next_feed.rows == 0) entry.prompt_is_fed();
      else driver_.settle(entry.seat(), rows_of(all, i), policy_of(entry));
    }
    if constexpr (called_here)
      for (const Entry* entry : stepping_)
        if (entry->judged && !entry->seat().error) keep_in_target(entry->seat());
    telling_ = true;
    for (Entry* entry : stepping_)
      if (entry->judged && !entry->seat().error) entry->tell();  // throws nothing
    telling_ = false;
  }

  void keep_in_target(const typename Driver::Seat& seat) {
    if constexpr (takes_trees<Target>)
      if (!seat.next_feed.parents.empty()) return target_.keep(seat.number, seat.kept_path());
    if (seat.next_feed.rows > 0) target_.keep(seat.number, seat.kept());
  }

  // Removes the sequences that are over: all of them, or none if there is no memory for their results.
  void leave(std::vector<Finished>& finished) {
    const auto before = std::ssize(finished);
    const auto collect = [&] {
      for (const auto& entry : entries_)
        if (entry->over()) finished.push_back({entry->number(), entry->seat().result(), entry->seat().error});
    };
    detail::undo_on_error(collect, [&] {
      while (std::ssize(finished) > before) finished.pop_back();
    });
    std::erase_if(entries_, [this](const auto& entry) {
      if (!entry->over()) return false;
      forget(entry->number());
      return true;
    });
  }

  void forget(Index sequence) {
    if constexpr (called_here) target_.release(sequence);
    driver_.drafter().release(sequence);
  }

  TargetModel target_;
  Driver driver_;
  V verifier_;
  Length length_;
  BatchOptions options_;
  Entries entries_;  // the sequence that has waited longest comes first
  Index next_ = 0, target_calls_ = 0, fed_ = 0;
  Index wanted_ = 0;     // what a shared draft length asks for
  Index looked_at_ = 0;  // how many entries have taken part in this step, or are over
  bool telling_ = false, proposed_ = false;
  std::vector<Entry*> stepping_;  // of this step
  std::vector<Request> requests_;
  std::vector<BatchFeed> feeds_;
  std::vector<Index> firsts_;  // the first row of each feed
  std::vector<Finished> finished_, all_finished_;
};

template <class T, class D, class V = BlockVerifier>
Batch(T&&, D&&, V = {}, BatchOptions = {}) -> Batch<T, D, V>;

template <class T, class D, class V, class L>
  requires(!std::same_as<L, BatchOptions>)
Batch(T&&, D&&, V, L, BatchOptions = {}) -> Batch<T, D, V, L>;

}  // namespace specdec

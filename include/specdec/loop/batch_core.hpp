// A step of many texts: who takes part, the feeds of a call, what its rows change.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/each.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/batch_texts.hpp"
#include "specdec/loop/request.hpp"
#include "specdec/loop/round.hpp"
#include "specdec/model/call.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The machinery of a Batch, which checks the arguments.
template <class TargetModel, class DraftSource, class V, class Length, class O>
class BatchCore {
 public:
  using Target = std::remove_reference_t<TargetModel>;
  static constexpr bool called_here = !is_external<Target>;
  using Lengths = LengthOfTexts<Length>;
  static constexpr bool shares_length = !Lengths::for_each_text;
  /// Whether the target can give a new sequence a copy of a context.
  static constexpr bool forks_contexts = called_here && can_fork<Target>;
  using Policy = typename Lengths::Policy;
  using Round = detail::Round<DraftSource, V, Policy, O>;
  using Answer = typename Round::Step::Answer;
  using Entry = BatchEntry<typename Round::Seat, typename Lengths::Own, V>;

  BatchCore(TargetModel&& t, DraftSource&& drafter, Length&& length, Index most)
      : target(std::forward<TargetModel>(t)),
        tokens_per_call(most),
        round_(std::forward<DraftSource>(drafter)),
        lengths_(std::forward<Length>(length)) {}
  BatchCore(const BatchCore&) = delete;
  BatchCore& operator=(const BatchCore&) = delete;
  ~BatchCore() {
    for (const auto& entry : texts) forget(entry->number());
  }

  TargetModel target;
  const Index tokens_per_call;  ///< the most
  BatchTexts<Entry> texts;

  typename Round::Drafter& drafter() { return round_.drafter(); }
  /// Whether callbacks are being called.
  bool telling() const { return telling_; }
  Index target_calls() const { return counts_.calls; }
  Index fed() const { return counts_.fed; }
  std::span<const BatchFeed> feeds() const { return out_.call.feeds(); }

  /// How many sequences are being written.
  Index size() const {
    return std::count_if(texts.begin(), texts.end(),
                         [](const auto& entry) { return !entry->waits_for_turn(); });
  }
  /// Throws unless a call has room for a draft and one more token.
  void check_fits(Index gamma) const {
    if (tokens_per_call != unlimited && gamma >= tokens_per_call)
      invalid_argument("gamma = ", gamma,
                       " and one more token do not fit in a call of tokens_per_call = ", tokens_per_call);
  }
  /// Throws unless the target may hold the first filled.cached tokens of a text of this size.
  static void check_filled(FilledContext filled, Index size) {
    if (filled.cached < 0 || filled.cached > size)
      invalid_argument("cached = ", filled.cached, " is outside 0..", size, ", the length of the text");
    if (filled.cached > 0 && !can_adopt<Target>)
      invalid_argument("cached = ", filled.cached,
                       ", but the target keeps contexts of its own: it does not know tokens that the "
                       "model inside was fed directly");
  }

  /// Throws unless a text that comes from elsewhere can go on here, with this gamma and so many tokens: the vocabulary must be of
  /// the size that it knows, and if it has not ended it must fit in the target's context. Returns its new target.
  ExternalTarget check_enters(const Entry& entry, Index gamma, FilledContext filled, Index size) const {
    texts.check_number(entry.number());
    check_fits(gamma);
    check_filled(filled, size);
    const ExternalTarget its = described(target), &before = entry.seat().target();
    if (its.vocabulary != before.vocabulary)
      invalid_argument("the text is over ", before.vocabulary, " tokens, the target's vocabulary has ",
                       its.vocabulary);
    if (const Index now = std::ssize(entry.seat().context()); !entry.seat().done() && now > its.context)
      invalid_argument("the text has ", now, " tokens, but the target's context holds ", its.context);
    return its;
  }

  /// The caller has filled the target's context of a text that enters. The last token is always fed, for its row.
  static void fill(Entry& entry, FilledContext filled) {
    const Index size = std::ssize(entry.seat().context());
    check_filled(filled, size);
    entry.seat().target_holds(std::min(filled.cached, size - 1));
  }
  /// The context may hold more than the caller says. If the target cannot note the tokens, the text is read anew.
  void keep_filled(Index number, FilledContext filled) {
    if constexpr (called_here) {
      if (filled.cached == 0) return;
      auto& seat = texts.find(number)->seat();
      const auto note = [&] {
        if constexpr (knows_its_context<Target> && can_adopt<Target>)
          target.adopt(number, first(seat.context(), seat.kept()));
      };
      if (error_of(note)) seat.target_holds(0);
      target.keep(number, seat.kept());
    }
  }

  /// Takes a text in, of which the caller has filled the target's context. If it throws, the batch is as before.
  void enter(std::unique_ptr<Entry> entry, FilledContext filled) {
    const Index number = entry->number();
    fill(*entry, filled);
    texts.enter(std::move(entry));
    keep_filled(number, filled);
  }
  /// Takes in a twin of text `of`, with a copy of what the drafter keeps for `of`. If it throws, the batch is as before.
  void enter_twin(std::unique_ptr<Entry> twin, Index of, FilledContext filled) {
    const Index number = twin->number();
    twins_.push_back(twin.get());
    twin->twin_of = of;
    twin->waits = forks_contexts && filled.cached == 0;
    const auto enter_both = [&] {
      fork_state(drafter(), of, number);
      enter(std::move(twin), filled);
    };
    undo_on_error(enter_both, [&] {
      drafter().release(number);
      twins_.pop_back();
    });
  }

  std::unique_ptr<Entry> remove(Index number) {
    std::unique_ptr<Entry> entry = texts.remove(number);
    leave_call(*entry);
    leave_twins(*entry);
    return entry;
  }

  auto own_length() const { return lengths_.own(); }

  /// Moves waiting sequences to the front.
  void end_step(std::vector<Finished>& finished) {
    texts.end_turn();
    leave(finished);
  }

  /// Chooses the sequences of the step: those that have waited longest come first. The call must have room for the most
  /// tokens that each may be fed. Drafts are drawn after the choice, so no drawn token influences it.
  void admit() {
    texts.served(choose(texts, [](const auto& entry) -> Entry& { return *entry; }));
  }
  /// Chooses among these sequences.
  void admit(std::span<const Index> sequences) {
    for (std::size_t i = 0; i < sequences.size(); ++i)
      texts.find(sequences, i);  // all, before anything changes
    texts.served(texts.begin());
    choose(sequences, [&](Index number) -> Entry& { return *texts.find(number); });
  }

  /// The rows that are on their way are for a text that is no more.
  void leave_call(Entry& entry) {
    const auto place = static_cast<std::size_t>(entry.place);
    if (place < out_.entries.size() && out_.entries[place] == &entry) out_.entries[place] = nullptr;
  }

  /// A proposal may be out, or the last step may have failed.
  void withdraw(Entry& entry) {
    rewind(entry.source());
    round_.withdraw(entry.seat());
  }

  template <class E>
  void make_feeds(E& for_each) {
    requests_.clear();
    for (Entry* entry : out_.entries) {
      if (entry->uncached() > 0) continue;
      requests_.push_back(Round::request_of(entry->seat(), policy_of(*entry), entry->source()));
      requests_.back().limits.tokens_per_call = tokens_per_call;
    }
    round_.draft(std::span(requests_), for_each);
    std::erase_if(out_.entries, [](const Entry* entry) { return entry->seat().error != nullptr; });
    out_.call.clear();
    for (Entry* entry : out_.entries) {
      entry->place = std::ssize(out_.call.feeds());
      out_.call.add(entry->seat().next_feed, entry->number());
      entry->seat().in_flight.value = 1;
    }
  }

  /// The feeds that are out for these sequences.
  void take_feeds(std::span<const Index> sequences) {
    taken_.entries.clear();
    taken_.call.clear();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      Entry* const entry = texts.find(sequences, i);
      if (entry->seat().in_flight.value == 0)
        invalid_argument("sequences[", i, "] = ", sequences[i], " has no proposal to judge");
      taken_.entries.push_back(entry);
      taken_.call.add(entry->seat().next_feed, entry->number());
    }
    std::swap(out_, taken_);
  }

  template <class Output, class E>
  void take_rows(const Output& output, E& for_each) {
    const auto rows_of = rows_by_feed(output);
    const auto judge = [&] {
      count_call();
      out_.call.check_rows("target", output);
      for_each(std::ssize(out_.entries), [&](Index i) {
        if (Entry* const entry = at(out_.entries, i))
          Round::weigh(entry->seat(), rows_of(i), entry->source());
      });
    };
    undo_on_error(judge, [&] {
      withdraw_unjudged();
      settle(rows_of);
    });
    settle(rows_of);
  }

  /// Verdicts in the place of rows, one for each feed. A part of a prompt has none. If it throws, nothing has changed.
  void take_verdicts(std::span<const Answer> verdicts) {
    const Index count = std::ssize(out_.entries);
    if (std::ssize(verdicts) != count)
      invalid_argument("verdicts has ", verdicts.size(), " entries, expected ", count, ", one for each feed");
    for (const bool all_can_be : {false, true})
      for (Index i = 0; i < count; ++i) {
        Entry* const entry = at(out_.entries, i);
        if (entry == nullptr) continue;
        const bool is_part = entry->seat().next_feed.rows == 0;
        const NodeVerdict stop = is_part ? NodeVerdict() : entry->seat().stop_of(at(verdicts, i), i);
        if (all_can_be) Round::take(entry->seat(), stop);
      }
    count_call();
    settle([](Index) { return NoRows{}; });
  }
  void take_verdicts(std::span<const Index> sequences, std::span<const Answer> verdicts) {
    take_feeds(sequences);
    undo_on_error([&] { take_verdicts(verdicts); }, [&] { std::swap(out_, taken_); });
  }

  /// Twins of a text that has been read by now get copies of its contexts. If a copy fails, they read for themselves. Not at
  /// once in fork(): a model may ask for what belongs to the twin's number, which the caller does not know yet.
  void take_over_contexts() {
    std::erase_if(twins_, [this](Entry* twin) {
      const Entry& other = *texts.find(twin->twin_of);
      if (twin->waits && !other.over() && other.seat().unread() > 0) return false;
      if (!other.seat().error) take_over_contexts(other, *twin);
      twin->twin_of = -1;
      return true;
    });
  }

  void forget(Index sequence) {
    if constexpr (HasRelease<Target>) target.release(sequence);
    round_.drafter().release(sequence);
  }

 private:
  using Requests = std::vector<typename Round::template Request<typename Entry::Source>>;

  // Returns the first of these entries for which the call has no room.
  template <class Range, class EntryOf>
  auto choose(const Range& all, const EntryOf& entry) {
    for (const auto& one : all)
      if (entry(one).seat().in_flight.value > 0) withdraw(entry(one));
    take_over_contexts();
    ask_shared_length();
    out_.entries.clear();
    Index left = tokens_per_call;
    auto next = all.begin();
    while (next != all.end() && admit(entry(*next), left)) ++next;
    return next;
  }

  // Returns the function that gives the rows of feed i. A target that processes rows does so now.
  template <class Output>
  auto rows_by_feed(const Output& output) {
    if constexpr (ProcessesRows<Target>) {
      out_.call.check_rows("target", output);
      for (Index i = 0; i < std::ssize(out_.entries); ++i)
        if (Entry* const entry = at(out_.entries, i))
          target.take(entry->seat().fed_after(), at(feeds(), i), output, out_.call.first_of(i));
      return [this, &output](Index i) { return target.rows(at(feeds(), i), output, out_.call.first_of(i)); };
    } else {
      return [this, rows = distributions(output)](Index i) { return out_.call.rows_of(rows, i); };
    }
  }

  // Whether there may be room for another sequence after this one.
  bool admit(Entry& entry, Index& left) {
    if (entry.over() || entry.waits_for_turn()) return true;
    withdraw(entry);
    if (entry.twin_of >= 0) return true;  // it waits
    auto& seat = entry.seat();
    if constexpr (shares_length) seat.forget_limits();
    else entry.fit_into(tokens_per_call);
    const bool is_part = entry.uncached() > 0;
    const Index count = is_part ? std::min(entry.uncached(), left)
                                : entry.most_fed([&](Index most) { return wanted(entry, most); });
    if (seat.error) return true;
    if (count > left || count == 0) return false;
    if (is_part) seat.next_feed = seat.next_part(count);
    out_.entries.push_back(&entry);
    left -= count;
    return true;
  }

  void ask_shared_length() {
    if constexpr (shares_length) {
      Index most = 0, drafting = 0;
      DraftedText text{.room = 0};
      for (const auto& entry : texts) {
        if (entry->over() || entry->waits_for_turn() || entry->twin_of >= 0) continue;
        entry->fit_into(tokens_per_call);
        if (entry->uncached() > 0) continue;
        const DraftedText own = entry->seat().drafted_text();
        most = std::max(most, entry->seat().most());
        text = {std::max(text.context, own.context), std::max(text.room, own.room)};
        ++drafting;
      }
      if (drafting > 0) wanted_ = next_length(lengths_.of_all(drafting), most, text);
    }
  }

  // What the text's draft length asks for.
  Index wanted(Entry& entry, Index most) {
    if constexpr (shares_length) return std::min(wanted_, most);
    else return next_length(policy_of(entry), most, entry.seat().drafted_text());
  }
  Policy& policy_of(Entry& entry) { return lengths_.of(entry.own_length()); }

  // After a throw: sequences that were judged before the throw have taken the step, the others have not.
  void withdraw_unjudged() {
    for (Entry* entry : out_.entries)
      if (entry != nullptr && entry->seat().in_flight.value != 2) {
        if constexpr (called_here) target.keep(entry->number(), entry->seat().next_feed.from);
        withdraw(*entry);
      }
  }

  void count_call() {
    if (!out_.call.empty()) ++counts_.calls;
    for (const Entry* entry : out_.entries)
      if (entry != nullptr) counts_.fed += std::ssize(entry->seat().next_feed.tokens);
  }

  // In the order of the feeds: what was learnt, the texts, the models' contexts, the callbacks. The target keeps the contexts as
  // they are until all drafters have seen its rows.
  template <class RowsOf>
  void settle(const RowsOf& rows_of) {
    for (Index i = 0; i < std::ssize(out_.entries); ++i) {
      Entry*& entry = at(out_.entries, i);
      if (entry != nullptr && entry->seat().in_flight.value != 2) entry = nullptr;
      if (entry != nullptr) round_.settle(entry->seat(), rows_of(i), policy_of(*entry));
    }
    if constexpr (called_here)
      for_each_settled([this](Entry& entry) { Round::keep_in(target, entry.seat()); });
    take_over_contexts();
    telling_ = true;
    for_each_settled([](Entry& entry) { entry.tell(); });  // throws nothing
    telling_ = false;
    out_.entries.clear();
  }

  template <class F>
  void for_each_settled(const F& f) {
    for (Entry* const entry : out_.entries)
      if (entry != nullptr && !entry->seat().error) f(*entry);
  }

  // Either text may have got another turn since the fork.
  void take_over_contexts(const Entry& other, Entry& twin) {
    const Index size = std::ssize(twin.seat().context());
    const Index common = std::min(twin.seat().common_length(other.seat()), size - 1);
    if constexpr (forks_contexts)
      if (twin.waits) take_over_target(other, twin, std::min(other.seat().kept(), common));
    error_of([&] { fork_draft_context(drafter(), other.number(), twin.number(), common); });
  }
  void take_over_target(const Entry& other, Entry& twin, Index shared) {
    if (shared == 0) return;
    const auto error = error_of([&] {
      twin.seat().take_prompt_of(other.seat());
      target.fork(other.number(), twin.number());
    });
    if (!error) target.keep(twin.number(), shared);
    twin.seat().target_holds(error ? 0 : shared);
  }

  // Removes the sequences that are over: all of them, or none if there is no memory for their results.
  void leave(std::vector<Finished>& finished) {
    const auto before = std::ssize(finished);
    const auto ends = [](const Entry& entry) { return entry.over() && !entry.waits_for_turn(); };
    const auto collect = [&] {
      for (const auto& entry : texts)
        if (ends(*entry)) finished.push_back({entry->number(), entry->seat().result(), entry->seat().error});
    };
    undo_on_error(collect, [&] {
      while (std::ssize(finished) > before) finished.pop_back();
    });
    for (Index i = before; i < std::ssize(finished); ++i) {
      const Index number = at(finished, i).sequence;
      if (texts.find(number)->stays()) texts.find(number)->reported();
      else forget(number), remove(number);
    }
  }

  // Twins of a text that is gone read for themselves. Its number may soon be another text's. It waits for no text, either.
  void leave_twins(Entry& gone) {
    std::erase_if(twins_, [&](Entry* twin) {
      if (twin->twin_of == gone.number() || twin == &gone) twin->twin_of = -1;
      return twin->twin_of < 0;
    });
  }

  // A call and its texts; null for one that has left since.
  struct Proposal {
    std::vector<Entry*> entries;
    Call call;
  };
  struct Counts {
    Index calls = 0, fed = 0;
  };

  Round round_;
  Lengths lengths_;
  Counts counts_;
  Index wanted_ = 0;  // what the draft length of all texts asks for
  bool telling_ = false;
  Requests requests_;
  Proposal out_, taken_;       // taken_: a call that is being looked at
  std::vector<Entry*> twins_;  // those that are to take over contexts
};

}  // namespace specdec::detail

// A step of many texts: who takes part, the feeds of a call, what its rows change.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/each.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/batch_entry.hpp"
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
  static constexpr bool called_here = !std::same_as<std::remove_const_t<Target>, ExternalTarget>;
  using Lengths = LengthOfTexts<Length>;
  static constexpr bool shares_length = !Lengths::for_each_text;
  /// Whether the target can give a new sequence a copy of a context.
  static constexpr bool forks_contexts = called_here && can_fork<Target>;
  using Policy = typename Lengths::Policy;
  using Round = detail::Round<DraftSource, V, Policy, O>;
  /// Whether twins take over any context.
  static constexpr bool shares_contexts = forks_contexts || forks_draft_contexts<typename Round::Drafter>;
  using Entry = BatchEntry<typename Round::Seat, typename Lengths::Own, V>;

  BatchCore(TargetModel&& t, DraftSource&& drafter, Length&& length, Index most)
      : target(std::forward<TargetModel>(t)),
        tokens_per_call(most),
        round_(std::forward<DraftSource>(drafter)),
        lengths_(std::forward<Length>(length)) {}
  BatchCore(const BatchCore&) = delete;
  BatchCore& operator=(const BatchCore&) = delete;
  ~BatchCore() { clear(); }

  TargetModel target;
  const Index tokens_per_call;  ///< the most

  typename Round::Drafter& drafter() { return round_.drafter(); }
  bool contains(Index number) const { return by_number_.contains(number); }
  /// Whether callbacks are being called.
  bool telling() const { return telling_; }
  Index target_calls() const { return target_calls_; }
  Index fed() const { return fed_; }
  std::span<const BatchFeed> feeds() const { return call_.feeds(); }

  /// How many sequences are being written.
  Index size() const {
    return std::count_if(entries_.begin(), entries_.end(),
                         [](const auto& entry) { return !entry->waits_for_turn(); });
  }
  /// All sequences leave.
  void clear() {
    for (const auto& entry : entries_) forget(entry->number());
    entries_.clear();
  }

  Entry* find(Index number) const {
    const auto found = by_number_.find(number);
    if (found == by_number_.end()) invalid_argument("there is no sequence ", number, " in the batch");
    return found->second;
  }

  /// −1: a number that was never used. Throws if the number is out of range, or in use.
  Index new_number(Index number) const {
    constexpr Index most = std::numeric_limits<Index>::max() - 1;
    if (number < -1 || number > most) invalid_argument("number = ", number, " is outside -1..", most);
    if (number < 0) number = next_;
    check_number(number);
    return number;
  }
  void check_number(Index number) const {
    if (contains(number)) invalid_argument("there is a sequence ", number, " in the batch already");
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
      auto& seat = find(number)->seat();
      const auto note = [&] {
        if constexpr (knows_its_context<Target> && can_adopt<Target>)
          target.adopt(number, first(seat.context(), seat.kept()));
      };
      if (error_of(note)) seat.target_holds(0);
      target.keep(number, seat.kept());
    }
  }

  /// Takes an entry in. If it throws, the batch is as before and the entry is still the caller's.
  void enter(std::unique_ptr<Entry>&& entry) {
    if (entries_.size() == entries_.capacity()) entries_.reserve(2 * entries_.size() + 1);
    const Index number = entry->number();
    by_number_.emplace(number, entry.get());
    next_ = std::max(next_, number + 1);  // nothing throws from here on
    entries_.push_back(std::move(entry));
  }

  std::unique_ptr<Entry> remove(Index number) {
    const auto place = std::find_if(entries_.begin(), entries_.end(),
                                    [=](const auto& entry) { return entry->number() == number; });
    std::unique_ptr<Entry> entry = std::move(*place);
    leave_call(*entry);
    looked_at_ -= place - entries_.begin() < looked_at_;
    entries_.erase(place);
    by_number_.erase(number);
    free_orphans();
    return entry;
  }

  auto own_length() const { return lengths_.own(); }

  /// Moves waiting sequences to the front.
  void end_step(std::vector<Finished>& finished) {
    std::rotate(entries_.begin(), entries_.begin() + std::exchange(looked_at_, 0), entries_.end());
    leave(finished);
  }

  /// Chooses the sequences of the step: those that have waited longest come first. The call must have room for the most
  /// tokens that each may be fed. Drafts are drawn after the choice, so no drawn token influences it.
  void admit() {
    looked_at_ = choose(std::ssize(entries_), [this](Index i) -> Entry& { return *at(entries_, i); });
  }
  /// Chooses among these sequences.
  void admit(std::span<const Index> sequences) {
    for (std::size_t i = 0; i < sequences.size(); ++i) find(sequences, i);  // all, before anything changes
    looked_at_ = 0;
    choose(std::ssize(sequences), [&](Index i) -> Entry& { return *find(at(sequences, i)); });
  }

  /// The rows that are on their way are for a text that is no more.
  void leave_call(const Entry& entry) {
    std::replace_if(
        stepping_.begin(), stepping_.end(), [&](const Entry* each) { return each == &entry; }, nullptr);
  }

  /// A proposal may be out, or the last step may have failed.
  void withdraw(Entry& entry) {
    rewind(entry.source());
    round_.withdraw(entry.seat());
  }

  template <class E>
  void make_feeds(E& for_each) {
    requests_.clear();
    for (Entry* entry : stepping_) {
      if (entry->uncached() > 0) continue;
      requests_.push_back(Round::request_of(entry->seat(), policy_of(*entry), entry->source()));
      requests_.back().limits.tokens_per_call = tokens_per_call;
    }
    round_.draft(std::span(requests_), for_each);
    std::erase_if(stepping_, [](const Entry* entry) { return entry->seat().error != nullptr; });
    call_.clear();
    for (Entry* entry : stepping_) {
      call_.add(entry->seat().next_feed, entry->number());
      entry->seat().in_flight.value = 1;
    }
  }

  /// The feeds that are out for these sequences.
  void take_feeds(std::span<const Index> sequences) {
    auto& [entries, call] = taken_;
    entries.clear();
    call.clear();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      Entry* const entry = find(sequences, i);
      if (entry->seat().in_flight.value == 0)
        invalid_argument("sequences[", i, "] = ", sequences[i], " has no proposal to judge");
      entries.push_back(entry);
      call.add(entry->seat().next_feed, entry->number());
    }
    std::swap(stepping_, entries);
    std::swap(call_, call);
  }

  template <class Output, class E>
  void take_rows(const Output& output, E& for_each) {
    const auto rows = distributions(output);
    undo_on_error([&] { judge(rows, for_each); }, [&] { settle_judged(rows); });
    settle(rows);
  }

  /// Twins of a text that has been read by now get copies of its contexts. If a copy fails, they read for themselves. Not at
  /// once in fork(): a model may ask for what belongs to the twin's number, which the caller does not know yet.
  void take_over_contexts() {
    if constexpr (shares_contexts)
      for (const auto& twin : entries_) {
        if (twin->twin_of < 0) continue;
        const Entry& other = *find(twin->twin_of);
        if (twin->waits && !other.over() && other.seat().unread() > 0) continue;
        if (!other.seat().error) take_over_contexts(other, *twin);
        twin->twin_of = -1;
      }
  }

  void forget(Index sequence) {
    if constexpr (called_here) target.release(sequence);
    round_.drafter().release(sequence);
  }

 private:
  using Requests = std::vector<typename Round::template Request<typename Entry::Source>>;

  // The i-th of these sequences, which must not be among those before it.
  Entry* find(std::span<const Index> sequences, std::size_t i) const {
    const auto found = by_number_.find(sequences[i]);
    if (found == by_number_.end())
      invalid_argument("sequences[", i, "] = ", sequences[i], ": there is no such sequence in the batch");
    const auto before = sequences.first(i);
    if (std::find(before.begin(), before.end(), sequences[i]) != before.end())
      invalid_argument("sequences[", i, "] = ", sequences[i], " occurs twice");
    return found->second;
  }

  // Returns how many of these entries it has looked at before the call was full.
  template <class EntryOf>
  Index choose(Index count, const EntryOf& entry) {
    for (Index i = 0; i < count; ++i)
      if (entry(i).seat().in_flight.value > 0) withdraw(entry(i));
    take_over_contexts();
    ask_shared_length();
    stepping_.clear();
    Index left = tokens_per_call, i = 0;
    while (i < count && admit(entry(i), left)) ++i;
    return i;
  }

  // Whether there may be room for another sequence after this one.
  bool admit(Entry& entry, Index& left) {
    if (entry.over() || entry.waits_for_turn()) return true;
    withdraw(entry);
    if (entry.twin_of >= 0) return true;  // it waits
    auto& seat = entry.seat();
    if constexpr (shares_length) seat.forget_limits();
    entry.fit_into(tokens_per_call);
    const bool is_part = entry.uncached() > 0;
    const Index count = is_part ? std::min(entry.uncached(), left)
                                : entry.most_fed([&](Index most) { return wanted(entry, most); });
    if (seat.error) return true;
    if (count > left || count == 0) return false;
    if (is_part) seat.next_feed = seat.next_part(count);
    stepping_.push_back(&entry);
    left -= count;
    return true;
  }

  void ask_shared_length() {
    if constexpr (shares_length) {
      if (size() == 0) return;
      Index most = 0;
      DraftedText text{.room = 0};
      for (const auto& entry : entries_) {
        if (entry->over() || entry->waits_for_turn()) continue;
        const DraftedText own = entry->seat().drafted_text();
        most = std::max(most, entry->seat().most());
        text = {std::max(text.context, own.context), std::max(text.room, own.room)};
      }
      wanted_ = next_length(lengths_.of_all(size()), most, text);
    }
  }

  // What the text's draft length asks for.
  Index wanted(Entry& entry, Index most) {
    if constexpr (shares_length) return std::min(wanted_, most);
    else return next_length(policy_of(entry), most, entry.seat().drafted_text());
  }
  Policy& policy_of(Entry& entry) { return lengths_.of(entry.own_length()); }

  // After a throw: sequences that were judged before the throw have taken the step, the others have not.
  template <class Rows>
  void settle_judged(const Rows& rows) {
    for (Entry* entry : stepping_)
      if (entry != nullptr && entry->seat().in_flight.value != 2) {
        if constexpr (called_here) target.keep(entry->number(), entry->seat().next_feed.from);
        withdraw(*entry);
      }
    settle(rows);
  }

  template <class Rows, class E>
  void judge(const Rows& all, E& for_each) {
    if (!call_.empty()) ++target_calls_;
    for (const Entry* entry : stepping_)
      if (entry != nullptr) fed_ += std::ssize(entry->seat().next_feed.tokens);
    call_.check_rows("target", all);
    for_each(std::ssize(stepping_), [&](Index i) {
      if (Entry* const entry = at(stepping_, i))
        Round::weigh(entry->seat(), call_.rows_of(all, i), entry->source());
    });
  }

  // In the order of the feeds: what was learnt, the texts, the models' contexts, the callbacks. The target keeps the contexts as
  // they are until all drafters have seen its rows.
  template <class Rows>
  void settle(const Rows& all) {
    for (Index i = 0; i < std::ssize(stepping_); ++i) {
      Entry*& entry = at(stepping_, i);
      if (entry != nullptr && entry->seat().in_flight.value != 2) entry = nullptr;
      if (entry != nullptr) round_.settle(entry->seat(), call_.rows_of(all, i), policy_of(*entry));
    }
    if constexpr (called_here)
      for_each_settled([this](Entry& entry) { Round::keep_in(target, entry.seat()); });
    take_over_contexts();
    telling_ = true;
    for_each_settled([](Entry& entry) { entry.tell(); });  // throws nothing
    telling_ = false;
    stepping_.clear();
  }

  template <class F>
  void for_each_settled(const F& f) {
    for (Entry* const entry : stepping_)
      if (entry != nullptr && !entry->seat().error) f(*entry);
  }

  // Either text may have got another turn since the fork.
  void take_over_contexts(const Entry& other, Entry& twin) {
    const std::span<const Token> text = twin.seat().context();
    const Index common = common_length(text.first(text.size() - 1), other.seat().context());
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
    const auto ends = [](const auto& entry) { return entry->over() && !entry->waits_for_turn(); };
    const auto collect = [&] {
      for (const auto& entry : entries_)
        if (ends(entry)) finished.push_back({entry->number(), entry->seat().result(), entry->seat().error});
    };
    undo_on_error(collect, [&] {
      while (std::ssize(finished) > before) finished.pop_back();
    });
    std::erase_if(entries_, [&](const auto& entry) {
      if (!ends(entry)) return false;
      if (entry->stays()) return entry->reported(), false;
      forget(entry->number());
      by_number_.erase(entry->number());
      return true;
    });
    free_orphans();
  }

  // Twins of a text that is gone read for themselves. Its number may soon be another text's.
  void free_orphans() {
    if constexpr (shares_contexts)
      for (const auto& entry : entries_)
        if (entry->twin_of >= 0 && !contains(entry->twin_of)) entry->twin_of = -1;
  }

  Round round_;
  Lengths lengths_;
  std::vector<std::unique_ptr<Entry>> entries_;  // the sequence that has waited longest comes first
  std::unordered_map<Index, Entry*> by_number_;
  Index next_ = 0, target_calls_ = 0, fed_ = 0;
  Index wanted_ = 0;     // what the draft length of all texts asks for
  Index looked_at_ = 0;  // how many entries have taken part in the last proposal, or are over
  bool telling_ = false;
  std::vector<Entry*> stepping_;  // of the call; null for one that has left since
  Requests requests_;
  Call call_;
  std::pair<std::vector<Entry*>, Call> taken_;  // the same, of a call that is being looked at
};

}  // namespace specdec::detail

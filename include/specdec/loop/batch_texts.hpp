// The texts of a batch: what belongs to each; all of them by their numbers, and in the order of their turns.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "specdec/chance/any_generator.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/request.hpp"
#include "specdec/loop/step_base.hpp"
#include "specdec/model/model.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verify_line.hpp"

namespace specdec::inline v0_2_0::detail {

/// The source of chance of a text with rule V.
template <class V>
using SourceFor = std::conditional_t<draws_keyed<V>, Keyed, AnyGenerator>;

/// The numbers of a Keyed depend on the place in the text only: there is nothing to take back.
inline void mark(AnyGenerator& source) { source.mark(); }
inline void rewind(AnyGenerator& source) { source.rewind(); }
inline void mark(Keyed&) {}
inline void rewind(Keyed&) {}

/// A text of a batch: its seat, its source of chance, its callback, and its own draft length if it has one. What travels when it
/// is paused. In a step it touches no other text.
template <class TextSeat, class OwnLength, class V>
class BatchEntry {
 public:
  using Seat = TextSeat;
  using Source = SourceFor<V>;

  BatchEntry(Index number, const ExternalTarget& target, const V& verifier, OwnLength own,
             Request<Source>&& request, const auto& observers)
      : source_(std::move(request.source)),
        on_step_(std::move(request.on_step)),
        own_(std::move(own)),
        stays_(request.stays),
        seat_(target, verifier, request.prompt, std::move(request.options), FilledContext{request.cached},
              observers) {
    seat_.number = number;
  }
  BatchEntry(const BatchEntry& other, Index number, Twin<Source>&& twin)
      : source_(std::move(twin.source)),
        on_step_(std::move(twin.on_step)),
        own_(other.own_),
        stays_(other.stays_),
        seat_(other.seat_) {
    seat_.become_twin(number, std::move(twin.options));
  }
  BatchEntry(const BatchEntry&) = delete;
  BatchEntry& operator=(const BatchEntry&) = delete;

  Index number() const { return seat_.number; }
  Source& source() { return source_; }
  OwnLength& own_length() { return own_; }
  Seat& seat() { return seat_; }
  const Seat& seat() const { return seat_; }

  bool over() const { return seat_.error || seat_.done(); }
  /// Whether the text has ended, was reported, and stays for its next turn.
  bool waits_for_turn() const { return reported_; }
  bool stays() const { return stays_ && !seat_.error; }
  void reported() { reported_ = true; }

  /// The next turn: this text, then `text`. If it throws, the text is as before.
  void add_turn(TokenIds text, const Options& options) {
    seat_.add_turn(text, options);
    reported_ = false;  // nothing throws from here on
  }

  /// Parts begin if a call has no room for all that the target must still read, or if the rows after the prompt's tokens are wanted.
  void fit_into(Index tokens_per_call) {
    if (uncached() > 0) return;
    const bool fits = tokens_per_call == unlimited || seat_.unread() < tokens_per_call - seat_.most();
    seat_.in_parts = !fits || seat_.reads_prompt();
  }
  /// How many tokens are still to be fed in parts.
  Index uncached() const { return seat_.in_parts ? seat_.unread() : 0; }

  /// The most tokens that the next step may feed. wanted(most): what the draft length asks for.
  Index most_fed(const auto& wanted) {
    seat_.error = error_of([&] { seat_.asked = seat_.limits(wanted); });
    return std::ssize(seat_.context()) - seat_.kept() + seat_.asked.nodes;
  }

  /// Calls the callback with the tokens of the last step. The step is final from here on.
  void tell() {
    mark(source_);
    if (seat_.last_emitted.empty() || !on_step_) return;
    seat_.error = error_of([&] {
      if (!on_step_(seat_.last_emitted)) seat_.stop();
    });
  }

  Index twin_of = -1;  ///< the text whose contexts this one is to take over; −1: none
  bool waits = false;  ///< whether it waits until that text is read: the target copies its context, too
  Index place = 0;     ///< of its feed in the last call that it took part in

 private:
  Source source_;
  OnStep on_step_;
  [[no_unique_address]] OwnLength own_;
  bool stays_, reported_ = false;
  Seat seat_;
};

/// The texts that are in a batch. Each Entry has a number(). The text that has waited longest comes first.
/// Cost: O(1) for a text that comes or leaves, however many there are. (A Batch also looks at the twins that wait.)
template <class Entry>
class BatchTexts {
  using Texts = std::list<std::unique_ptr<Entry>>;

 public:
  auto begin() const { return texts_.begin(); }
  auto end() const { return texts_.end(); }
  Index size() const { return std::ssize(texts_); }
  Entry* find(Index number) const {
    const auto found = by_number_.find(number);
    if (found == by_number_.end()) invalid_argument("there is no sequence ", number, " in the batch");
    return found->second.text->get();
  }
  /// The i-th of these sequences, which must not be among those before it. They are asked for from the first on.
  Entry* find(std::span<const Index> sequences, std::size_t i) {
    if (i == 0) ++asked_;
    const auto found = by_number_.find(sequences[i]);
    if (found == by_number_.end())
      invalid_argument("sequences[", i, "] = ", sequences[i], ": there is no such sequence in the batch");
    if (std::exchange(found->second.asked, asked_) == asked_)
      invalid_argument("sequences[", i, "] = ", sequences[i], " occurs twice");
    return found->second.text->get();
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
    if (by_number_.contains(number))
      invalid_argument("there is a sequence ", number, " in the batch already");
  }

  /// Takes an entry in. If it throws, nothing has changed and the entry is still the caller's.
  void enter(std::unique_ptr<Entry>&& entry) {
    Texts last(1);
    const Index number = entry->number();
    by_number_.emplace(number, Place{last.begin()});
    next_ = std::max(next_, number + 1);  // nothing throws from here on
    last.front() = std::move(entry);
    if (waiting_ == texts_.end()) waiting_ = last.begin();
    texts_.splice(texts_.end(), last);
  }
  std::unique_ptr<Entry> remove(Index number) {
    const auto place = by_number_.extract(number).mapped().text;
    std::unique_ptr<Entry> entry = std::move(*place);
    if (waiting_ == place) ++waiting_;
    texts_.erase(place);
    return entry;
  }

  /// The texts before this one have had their turn, or are over.
  void served(typename Texts::const_iterator next) { waiting_ = next; }
  /// They come after the others from here on.
  void end_turn() {
    texts_.splice(texts_.end(), texts_, texts_.begin(), waiting_);
    waiting_ = texts_.begin();
  }

 private:
  Texts texts_;
  typename Texts::const_iterator waiting_ = texts_.begin();  // the first that has not had its turn
  struct Place {
    typename Texts::iterator text;
    Index asked = 0;  // in which list of sequences it was last
  };
  std::unordered_map<Index, Place> by_number_;
  Index next_ = 0, asked_ = 0;
};

}  // namespace specdec::detail

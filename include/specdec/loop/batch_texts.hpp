// The texts of a batch, by their numbers and in the order of their turns.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

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

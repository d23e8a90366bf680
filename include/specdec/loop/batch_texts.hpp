// The texts of a batch, by their numbers and in the order of their turns.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The texts that are in a batch. Each Entry has a number(). The text that has waited longest comes first.
template <class Entry>
class BatchTexts {
 public:
  auto begin() const { return texts_.begin(); }
  auto end() const { return texts_.end(); }
  Index size() const { return std::ssize(texts_); }
  Entry& operator[](Index i) const { return *at(texts_, i); }
  bool contains(Index number) const { return by_number_.contains(number); }
  Entry* find(Index number) const {
    const auto found = by_number_.find(number);
    if (found == by_number_.end()) invalid_argument("there is no sequence ", number, " in the batch");
    return found->second;
  }
  /// The i-th of these sequences, which must not be among those before it.
  Entry* find(std::span<const Index> sequences, std::size_t i) const {
    const auto found = by_number_.find(sequences[i]);
    if (found == by_number_.end())
      invalid_argument("sequences[", i, "] = ", sequences[i], ": there is no such sequence in the batch");
    const auto before = sequences.first(i);
    if (std::find(before.begin(), before.end(), sequences[i]) != before.end())
      invalid_argument("sequences[", i, "] = ", sequences[i], " occurs twice");
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

  /// Takes an entry in. If it throws, nothing has changed and the entry is still the caller's.
  void enter(std::unique_ptr<Entry>&& entry) {
    if (texts_.size() == texts_.capacity()) texts_.reserve(2 * texts_.size() + 1);
    const Index number = entry->number();
    by_number_.emplace(number, entry.get());
    next_ = std::max(next_, number + 1);  // nothing throws from here on
    texts_.push_back(std::move(entry));
  }
  std::unique_ptr<Entry> remove(Index number) {
    const auto place = std::find_if(texts_.begin(), texts_.end(),
                                    [=](const auto& entry) { return entry->number() == number; });
    std::unique_ptr<Entry> entry = std::move(*place);
    served_ -= place - texts_.begin() < served_;
    texts_.erase(place);
    by_number_.erase(number);
    return entry;
  }
  template <class F>
  void remove_if(const F& leaves) {
    std::erase_if(texts_, [&](const auto& entry) {
      const Index number = entry->number();
      if (!leaves(*entry)) return false;
      by_number_.erase(number);
      return true;
    });
  }

  /// The first `count` texts have had their turn, or are over.
  void served(Index count) { served_ = count; }
  /// They come after the others from here on.
  void end_turn() { std::rotate(texts_.begin(), texts_.begin() + std::exchange(served_, 0), texts_.end()); }

 private:
  std::vector<std::unique_ptr<Entry>> texts_;
  std::unordered_map<Index, Entry*> by_number_;
  Index next_ = 0, served_ = 0;
};

}  // namespace specdec::detail

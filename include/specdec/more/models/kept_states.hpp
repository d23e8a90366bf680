// Saved states of a model that cannot cut its context back.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Keeps states of a model, each with the length of its context. The state of the empty context always stays. Of the others this
/// keeps the newest half, and older ones ever further apart. So going back costs little, and nothing to a recent state.
template <class Snapshot>
class KeptStates {
 public:
  /// Room for `most` states besides the state of the empty context. `save` writes that state into a snapshot now.
  template <class Save>
  KeptStates(Index most, const Save& save) : most_(static_cast<std::size_t>(most)) {
    add(0, save);
  }

  /// Keeps the present state, of a context of that length. No state of a longer context may be kept at this time.
  template <class Save>
  void keep(Index length, const Save& save) {
    if (marks_[used_ - 1].length == length) return;
    if (used_ > most_) drop(length);
    add(length, save);
  }

  void forget_beyond(Index length) {
    while (marks_[used_ - 1].length > length) --used_;
  }

  Index latest_length() const { return marks_[used_ - 1].length; }
  const Snapshot& latest() const { return states_[marks_[used_ - 1].slot]; }

 private:
  struct Mark {
    Index length;
    std::size_t slot;
  };

  template <class Save>
  void add(Index length, const Save& save) {
    if (used_ == states_.size()) {
      marks_.reserve(used_ + 1);
      states_.emplace_back();
      marks_.push_back({0, used_});
    }
    save(states_[marks_[used_].slot]);
    marks_[used_++].length = length;
  }

  // Makes room for a state of length `now`: drops an older state. Without it a way back gets longer by the smallest share.
  void drop(Index now) {
    const auto longer_by = [&](std::size_t i) {
      const Index next = i + 1 < used_ ? marks_[i + 1].length : now, previous = marks_[i - 1].length;
      return static_cast<double>(next - previous) / static_cast<double>(now - previous);
    };
    const std::size_t latest = (most_ + 1) / 2 - 1;  // how many of the newest stay
    std::size_t least = 1;
    for (std::size_t i = 2; i < used_ - latest; ++i)
      if (longer_by(i) < longer_by(least)) least = i;
    const auto dropped = marks_.begin() + static_cast<std::ptrdiff_t>(least);
    std::rotate(dropped, dropped + 1, marks_.begin() + static_cast<std::ptrdiff_t>(used_));
    --used_;
  }

  std::size_t most_, used_ = 0;
  std::vector<Snapshot> states_;
  std::vector<Mark>
      marks_;  // one for each state: first the states in use, from the shortest context on, then the unused
};

}  // namespace specdec::detail

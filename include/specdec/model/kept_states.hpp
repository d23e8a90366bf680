// States of a model that cannot be cut back, kept for a way back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// States of a model by the length of its context, of which that of the empty one is there forever. The rest is for the
/// latest half the latest there were, and for the other half such that gaps are the wider the older they are: then
/// the way back from any of them costs little, and from a recent one nothing.
template <class Snapshot>
class KeptStates {
 public:
  /// For so many states beside that of the empty context, which `save` writes into a snapshot.
  template <class Save>
  KeptStates(Index most, const Save& save) : most_(static_cast<std::size_t>(most)) {
    add(0, save);
  }

  /// Keeps the present state, of a context of that length, none being kept of a longer one.
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

  // Before one of length `now` is added: the older one without which a way back gets longer by the least part of itself.
  void drop(Index now) {
    const auto longer_by = [&](std::size_t i) {
      const Index next = i + 1 < used_ ? marks_[i + 1].length : now, previous = marks_[i - 1].length;
      return static_cast<double>(next - previous) / static_cast<double>(now - previous);
    };
    const std::size_t latest = (most_ + 1) / 2 - 1;  // which stay
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
      marks_;  // one for each state: those in use, the shortest context first, and then the rest
};

}  // namespace specdec::detail

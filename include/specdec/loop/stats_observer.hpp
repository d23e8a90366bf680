// Counts the steps of a text: an observer.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/loop/observers.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Keeps the Stats of a text. A twin's statistics begin at the fork.
struct StatsObserver : Observer {
  Stats stats = {};

  void reserve(Index tokens) { stats.reserve(tokens); }
  void committed(const CommittedStep& committed) noexcept { stats.add(committed.step, committed.emitted); }
  void forked() noexcept { stats = {}; }
  void report(auto& result) const { result.stats = stats; }
};

}  // namespace specdec

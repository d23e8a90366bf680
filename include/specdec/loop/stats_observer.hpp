// Counts the steps of a text: an observer.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/loop/observers.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Keeps the Stats of a text. Those of a twin begin at the fork.
struct StatsObserver : Observer {
  Stats stats = {};

  void reserve(Index tokens) { stats.reserve(tokens); }
  void committed(const CommittedStep& committed) noexcept {
    const StepRecord& step = committed.step;
    stats.add(step, committed.emitted);
    // Tokens after the end of the text were drafted in vain, and say nothing of the models.
    const bool ends = step.ending >= 0;
    const Index judged = ends ? step.ending + 1 : step.drafted;
    if (committed.told) stats.acceptance.add(committed.ps, committed.qs, judged, ends ? judged : step.asked);
  }
  void forked() noexcept { stats = {}; }
  void report(auto& result) const { result.stats = stats; }
};

}  // namespace specdec

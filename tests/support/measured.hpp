// Statistics and measures together.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/loop/spec_dec.hpp>
#include <specdec/more/analysis/measures.hpp>
#include <specdec/more/analysis/projection.hpp>
#include <utility>
#include <vector>

namespace support {

using specdec::Index;

// Of one text, or of several.
struct Measured {
  specdec::Stats stats = {};
  specdec::Measures measures = {};
  bool drafts = false;  // whether the last step drafted

  void add(const specdec::StepRecord& step, Index emitted) {
    stats.add(step, emitted);
    measures.add({step, emitted}, std::exchange(drafts, step.asked > 0));
  }
  std::vector<specdec::Projection> projections(Index most = 16) const {
    return specdec::project(stats, measures, stats.survival(), most);
  }
};

// Writes a text.
Measured measured(auto&& target, auto&& drafter, const auto& rule, const auto& prompt,
                  const specdec::Options& options, auto& source) {
  Measured out;
  specdec::SpecDec decoder{
      std::forward<decltype(target)>(target), std::forward<decltype(drafter)>(drafter), rule,
      specdec::FixedLength{},
      specdec::Observers{specdec::StatsObserver{}, specdec::MeasuresObserver{out.measures}}};
  out.stats = decoder.generate(prompt, options, source).stats;
  return out;
}

}  // namespace support

// Lines: the family of shapes that do not branch.
#pragma once

#include <cstddef>
#include <iterator>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/measure/running_survival.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Lines of every length, for a ModelDrafter{small}, a drafter from text or any other drafter of lines. The drafter may
/// propose fewer tokens than it is asked for.
///
/// Considers lengths up to RunningSurvival::reach, about twice the longest draft so far. So lengths reach a large
/// Options::gamma only if long drafts pay off.
struct LineShapes {
  static constexpr double usual_window = 100;

  /// Learns how often a token is proposed, and how often it survives, at each position (StepRecord::survival: one long draft
  /// also tells about every shorter one).
  class Learner {
   public:
    static constexpr bool branches = false;

    Learner(const LineShapes&, double decay) : survival_(decay) {}

    DraftLimits reach(Index most) {
      const Index reach = survival_.reach(most);
      survival_.reserve(reach);
      while (std::ssize(proposed_) < survival_.most()) proposed_.push_back(1);
      reached_.resize(proposed_.size());
      return {.nodes = reach, .depth = reach};
    }

    void observe(const StepRecord& step) { survival_.observe(step); }
    void limit(double steps) { survival_.limit(steps); }
    void estimate() {
      survival_.for_each_position([&](Index i, double proposed, double survival) {
        proposed_[static_cast<std::size_t>(i)] = proposed;
        reached_[static_cast<std::size_t>(i)] = survival;
      });
    }

    double proposed(Index i) const { return proposed_[static_cast<std::size_t>(i)]; }
    double reached(double, Index depth, Index, bool) const {
      return reached_[static_cast<std::size_t>(depth)];
    }

   private:
    RunningSurvival survival_;
    std::vector<double> proposed_, reached_;  // by position
  };
};

}  // namespace specdec

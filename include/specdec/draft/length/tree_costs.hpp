// What the steps of drafts that branch cost, as measured.
#pragma once

#include <chrono>

#include "specdec/measure/cost_curve.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Running costs, in seconds: of drafts by their depth, as a drafter makes a call for each level, and of target calls by
/// their tokens. Only what tells of a step's own work is entered (StepRecord::add_costs_to says what does).
class TreeCosts {
 public:
  /// `decay`: what is left of a cost's weight after another one.
  explicit TreeCosts(double decay) : draft_(decay), target_(decay) {}

  /// Room for trees of so many tokens and levels.
  void reserve(Index nodes, Index depth) {
    draft_.reserve(depth);
    target_.reserve(nodes + 1);
  }

  void observe(const StepRecord& step) {
    const auto seconds = [](std::chrono::nanoseconds t) { return std::chrono::duration<double>(t).count(); };
    if (step.fed == step.drafted + 1) {
      // Where nothing is drafted for long, what drafts cost is not to be forgotten as fast: it would be taken for nothing.
      const bool tells = step.drafted > 0 || drafted_before_ || ++idle_ % 8 == 0;
      if (tells || !target_.measured(1)) target_.add(step.fed, seconds(step.target_time));
      if (step.drafted == 0 && !draft_.measured(0)) draft_.add(0, 0);
      if (step.drafted > 0 && drafted_before_) draft_.add(step.depth(), seconds(step.draft_time));
    }
    drafted_before_ = step.asked > 0;
  }

  /// Of a step that drafts a tree of so many tokens and levels.
  double operator()(Index nodes, Index depth) const { return draft_(depth) + target_(nodes + 1); }

  double draft(Index depth) const { return draft_(depth); }
  double target(Index tokens) const { return target_(tokens); }

 private:
  CostCurve draft_, target_;
  Index idle_ = 0;               // steps without a draft, behind others
  bool drafted_before_ = false;  // so the drafter has seen all but the latest tokens
};

}  // namespace specdec::detail

// What steps cost, as measured.
#pragma once

#include "specdec/draft/drafter.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/measure/cost_curve.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Running costs, in seconds: of drafts by their depth, as a drafter makes a call for each level, and of target calls by
/// their tokens. Only what tells of a step's own work is entered: not the times of models that took in a prompt as well, nor
/// of a drafter that took in what was written without it.
class StepCosts {
 public:
  /// `decay`: what is left of a cost's weight after another one.
  explicit StepCosts(double decay) : draft_(decay), vain_(decay), target_(decay) {}

  /// Room for drafts within the limits.
  void reserve(const DraftLimits& limits) {
    draft_.reserve(limits.depth);
    target_.reserve(limits.nodes + 1);
  }

  void observe(const StepRecord& step) {
    const bool after_a_draft = idle_ == 0;
    idle_ = step.asked > 0 ? 0 : idle_ + 1;
    if (step.fed != step.drafted + 1) return;
    // Where nothing is drafted for long, what drafts cost is not to be forgotten as fast: it would be taken for nothing.
    if (idle_ < 8 || idle_ % 8 == 0) target_.add(step.fed, seconds(step.target_time));
    if (!draft_.measured(0))
      draft_.add(0, 0);  // so that short drafts are not taken for as dear as the long ones known
    if (step.asked == 0 || !after_a_draft) return;
    if (step.drafted == 0) vain_.add(0, seconds(step.draft_time));
    else draft_.add(step.depth(), seconds(step.draft_time));
  }

  /// Of a step without a draft.
  double plain() const { return target_(1); }
  /// Of a step whose draft has so many tokens and levels; none where the drafter was asked in vain.
  double operator()(Index nodes, Index depth) const {
    return (depth == 0 ? vain_(0) : draft_(depth)) + target_(nodes + 1);
  }

 private:
  CostCurve draft_, vain_, target_;  // vain_: of drafters that propose nothing
  Index idle_ =
      1;  // steps since the last one that drafted; 0: the drafter has seen all but the latest tokens
};

}  // namespace specdec::detail

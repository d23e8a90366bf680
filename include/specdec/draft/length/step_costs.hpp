// The measured costs of steps.
#pragma once

#include "specdec/draft/drafter.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/measure/cost_curve.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Running estimates of costs: of drafts by depth, because a drafter makes a call for each level, and of target calls by
/// tokens. Only times of a step's own work are entered: not calls that also took in a prompt, and not drafts where the
/// drafter also took in tokens written without it.
/// Units: seconds.
class StepCosts {
 public:
  /// `decay`: each new cost multiplies the weight of earlier costs by this.
  explicit StepCosts(double decay) : draft_(decay), vain_(decay), target_(decay) {}

  /// Makes room for drafts within the limits.
  void reserve(const DraftLimits& limits) {
    draft_.reserve(limits.depth);
    target_.reserve(limits.nodes + 1);
  }

  void observe(const StepRecord& step) {
    const bool after_a_draft = idle_ == 0;
    idle_ = step.asked > 0 ? 0 : idle_ + 1;
    if (step.fed != step.drafted + 1) return;
    // While nothing is drafted for long, target costs are entered less often, so that the costs of calls with drafts are
    // not forgotten: a forgotten cost would count as 0.
    if (idle_ < 8 || idle_ % 8 == 0) target_.add(step.fed, seconds(step.target_time));
    if (!draft_.measured(0))
      draft_.add(0, 0);  // else a short draft would be estimated at the cost of the long ones
    if (step.asked == 0 || !after_a_draft) return;
    if (step.drafted == 0) vain_.add(0, seconds(step.draft_time));
    else draft_.add(step.depth(), seconds(step.draft_time));
  }

  /// The cost of a step without a draft.
  double plain() const { return target_(1); }
  /// The cost of a step with a draft of `nodes` tokens and `depth` levels; (0, 0): the drafter was asked and proposed
  /// nothing.
  double operator()(Index nodes, Index depth) const {
    return (depth == 0 ? vain_(0) : draft_(depth)) + target_(nodes + 1);
  }

 private:
  CostCurve draft_, vain_, target_;  // vain_: of drafts that stayed empty
  Index idle_ =
      1;  // steps since the last step that drafted; 0: the drafter has seen all but the latest tokens
};

}  // namespace specdec::detail

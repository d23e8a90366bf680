// How often a draft length may try a draft that it does not expect to be the best (a probe).
#pragma once

#include "specdec/error.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Limits the cost of probes to a share of the time. Each step earns that share of its time. A probe waits until the steps
/// since the last probe have earned its expected loss, and for a few steps in any case.
/// Throws: std::invalid_argument unless 0 < share < 1.
class ProbeBudget {
 public:
  explicit ProbeBudget(double share) : share_(share) {
    if (!(share > 0 && share < 1)) invalid_argument("probing = ", share, " is outside (0, 1)");
  }

  /// Enters a step that was no probe.
  void earn(const StepRecord& step) { earn(seconds(step.draft_time + step.target_time)); }
  void earn(double cost) {
    earned_ += share_ * cost;
    ++rest_;
  }

  /// Whether there were enough steps since the last probe.
  bool rested() const { return rest_ >= least_rest; }
  /// Whether a probe may lose so much, in seconds or in the unit of earn(cost).
  bool affords(double loss) const { return rested() && !(earned_ < loss); }
  /// Enters a probe.
  void spend() {
    earned_ = 0;
    rest_ = 0;
  }

 private:
  static constexpr Index least_rest = 4;  // steps between probes, whatever they cost

  double share_;
  double earned_ = 0;  // seconds that the next probe may lose
  Index rest_ = 0;
};

}  // namespace specdec::detail

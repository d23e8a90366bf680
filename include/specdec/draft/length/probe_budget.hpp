// How often a policy may try what it does not think best.
#pragma once

#include "specdec/error.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Lets probes cost a share of the time: one waits until the steps since the last one have earned what it is expected to
/// lose, and for a few steps in any case.
/// Throws: std::invalid_argument unless 0 < share < 1.
class ProbeBudget {
 public:
  explicit ProbeBudget(double share) : share_(share) {
    if (!(share > 0 && share < 1)) invalid_argument("probing = ", share, " is outside (0, 1)");
  }

  /// Enters a step that was no probe.
  void earn(const StepRecord& step) {
    earned_ += share_ * seconds(step.draft_time + step.target_time);
    ++rest_;
  }

  /// Whether there has been rest enough to think of a probe.
  bool rested() const { return rest_ >= least_rest; }
  /// Whether a probe may lose so many seconds.
  bool affords(double loss) const { return rested() && !(earned_ < loss); }
  /// There is a probe.
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

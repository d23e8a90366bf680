// How often a draft length may try a draft that it does not expect to be the best (a probe).
#pragma once

#include "specdec/error.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Limits the cost of probes to a share of the time. Each step earns that share of its time. A probe waits until the steps
/// since the last probe have earned its expected loss, and for a few steps in any case. Also counts whether the probe pays.
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
  /// Enters that a probe begins.
  void spend() {
    earned_ = 0;
    rest_ = 0;
    tokens_ = cost_ = 0;
  }

  /// Enters a step of the probe, with the tokens that it has emitted.
  void try_step(double tokens, double cost) {
    tokens_ += tokens;
    cost_ += cost;
  }
  /// Whether the probe's tokens so far cost less than in steps that cost `plain` and emit one token each.
  bool pays(double plain) const { return cost_ < plain * tokens_; }

 private:
  static constexpr Index least_rest = 4;  // steps between probes, whatever they cost

  double share_;
  double earned_ = 0;  // seconds that the next probe may lose
  Index rest_ = 0;
  double tokens_ = 0, cost_ = 0;  // of the probe
};

}  // namespace specdec::detail

// Running estimates: how many tokens a drafter proposes, and how many of them survive.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {

/// Running estimates for each position i: the probability that the drafter proposes an (i+1)-th token, and the probability
/// that this token is proposed and survives (StepRecord::survival).
///
/// Position i learns from steps that asked for more than i tokens. So one long draft informs all shorter drafts. If a
/// position is no longer asked for, its survival fades into an extrapolation, which keeps falling at the rate of the
/// positions before. A position without data takes the proposal probability of the position before. Tokens after the end of a
/// text count as tokens that do not survive: they bring nothing. (Stats::survival leaves them out.)
class RunningSurvival {
 public:
  /// `decay` is the fraction of a step's weight that is left after another step.
  /// Throws: InvalidArgument unless 0 <= decay <= 1.
  explicit RunningSurvival(double decay) : decay_(detail::checked_decay(decay)) {}

  /// Sets the decay from now on.
  void decay(double decay) { decay_ = detail::checked_decay(decay); }

  /// Allocates memory for drafts of `most` tokens. Never shrinks.
  /// Throws: InvalidArgument if `most` is negative or more than longest_draft.
  void reserve(Index most) {
    detail::check_drafted("most", most);
    if (most <= this->most()) return;
    const bool first = survived_.empty();
    detail::resize(proposed_, most);
    detail::resize(survived_, most);
    if (first) survived_[0].add(1);  // so that drafting does not stop after a bad start
  }

  /// The longest draft there is memory for. Positions beyond it are ignored.
  Index most() const { return std::ssize(survived_); }

  /// The longest draft that a policy should consider if it may draft `most` tokens: twice the longest draft so far, but at
  /// least 16. Nothing is known about longer drafts. To consider them would cost time for up to `most` tokens.
  Index reach(Index most) const {
    if (most < 0) detail::invalid_argument("most = ", most, " is negative");
    return std::min({most, std::max(least_reach, 2 * longest_), longest_draft});
  }

  /// Learns from a step. Allocates nothing.
  /// Throws: InvalidArgument on an impossible step, and on a step without a survival for each drafted token. Nothing
  /// is learnt then.
  void observe(const StepRecord& step) {
    detail::check_step(step);
    if (std::ssize(step.survival) < step.drafted)
      detail::invalid_argument("step.survival has ", step.survival.size(), " numbers for ", step.drafted,
                               " drafted tokens");
    if (step.asked == 0) return;
    longest_ = std::max(longest_, step.drafted);
    for (Index i = 0; i < most(); ++i) {
      auto &proposed = detail::at(proposed_, i), &survived = detail::at(survived_, i);
      proposed.fade(decay_);
      survived.fade(decay_);
      if (i >= step.asked) continue;
      const bool drafted = i < step.drafted;
      proposed.add(drafted ? 1 : 0);
      survived.add(drafted ? detail::at(step.survival, i) : 0);
    }
  }

  /// Lowers the weight of all steps so far to at most `steps` fresh steps.
  void limit(double steps) {
    for (FadingMean& mean : proposed_) mean.limit(steps);
    for (FadingMean& mean : survived_) mean.limit(steps);
  }

  /// Calls f(i, proposed, survival) for i = 0..most() - 1 in turn: P(more than i tokens are proposed) and P(τ > i).
  template <class F>
  void for_each_position(F&& f) const {
    double proposed = 1, before = 1, here = 1;
    for (Index i = 0; i < most(); ++i) {
      const auto &drafted = detail::at(proposed_, i), &survived = detail::at(survived_, i);
      if (!drafted.empty()) proposed = drafted.value();
      const double falling = before > 0 ? here * std::min(1.0, here / before) : 0;
      const double survival = i == 0 ? survived.value() : survived.with(falling, guess_weight);
      before = here;
      here = survival;
      f(i, proposed, survival);
    }
  }

 private:
  static constexpr Index least_reach = 16;
  static constexpr double guess_weight = 3;  // the weight, in steps, of a guess from the positions before

  double decay_;
  Index longest_ = 0;
  std::vector<FadingMean> proposed_, survived_;  // by position
};

}  // namespace specdec

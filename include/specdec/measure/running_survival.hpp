// How many tokens a drafter proposes and how many of them survive, as it has been of late.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/measure/cost_curve.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec {

/// Running estimates, by position, from the steps that asked for as many: the probability that the drafter proposes
/// an (i+1)-th token, and that it is proposed and survives (StepRecord::survival: one long draft tells of every
/// shorter one). Positions that are not asked for any more fade away, into what the ones before them suggest:
/// that proposals come as they do there and survival goes on falling as it did.
class RunningSurvival {
 public:
  /// `decay`: what is left of a step's weight after another one.
  /// Throws std::invalid_argument unless 0 <= decay <= 1.
  explicit RunningSurvival(double decay) : decay_(detail::checked_decay(decay)) {}

  /// From now on.
  void decay(double decay) { decay_ = detail::checked_decay(decay); }

  /// Makes room for drafts of `most` tokens, and never less. Throws std::invalid_argument where that is negative or
  /// more than longest_draft.
  void reserve(Index most) {
    detail::check_drafted("most", most);
    if (most <= this->most()) return;
    const bool first = positions_.empty();
    positions_.resize(static_cast<std::size_t>(most));
    if (first) positions_[0].survived.add(1);  // so as not to give up after a bad start
  }

  /// The longest draft there is room for: what is asked for beyond is not looked at.
  Index most() const { return static_cast<Index>(positions_.size()); }

  /// How far a policy that may draft `most` tokens has to look: to twice the longest draft so far, and to 16 at least.
  /// Nothing is known of what lies beyond, and to look there would cost what `most` is.
  Index reach(Index most) const {
    if (most < 0) detail::invalid_argument("most = ", most, " is negative");
    return std::min({most, std::max(least_reach, 2 * longest_), longest_draft});
  }

  /// Allocates nothing. Throws std::invalid_argument on a step that cannot be, or without a survival for each drafted
  /// token; nothing has been learnt then.
  void observe(const StepRecord& step) {
    detail::check_step(step);
    if (std::ssize(step.survival) < step.drafted)
      detail::invalid_argument("step.survival has ", step.survival.size(), " numbers for ", step.drafted,
                               " drafted tokens");
    if (step.asked == 0) return;
    longest_ = std::max(longest_, step.drafted);
    for (Index i = 0; i < most(); ++i) {
      Position& position = positions_[static_cast<std::size_t>(i)];
      position.proposed.fade(decay_);
      position.survived.fade(decay_);
      if (i >= step.asked) continue;
      const bool drafted = i < step.drafted;
      position.proposed.add(drafted ? 1 : 0);
      position.survived.add(drafted ? step.survival[static_cast<std::size_t>(i)] : 0);
    }
  }

  /// From now on, what was seen so far counts as `steps` steps at most.
  void limit(double steps) {
    for (Position& position : positions_) {
      position.proposed.limit(steps);
      position.survived.limit(steps);
    }
  }

  /// Calls f(i, proposed, survival) for i = 0..most() - 1 in turn: P(more than i tokens are proposed) and P(τ > i).
  template <class F>
  void for_each_position(F&& f) const {
    double proposed = 1, before = 1, here = 1;
    for (Index i = 0; i < most(); ++i) {
      const Position& position = positions_[static_cast<std::size_t>(i)];
      if (!position.proposed.empty()) proposed = position.proposed.value();
      const double falling = before > 0 ? here * std::min(1.0, here / before) : 0;
      const double survival =
          i == 0 ? position.survived.value() : position.survived.with(falling, guess_weight);
      before = here;
      here = survival;
      f(i, proposed, survival);
    }
  }

 private:
  struct Position {
    FadingMean proposed, survived;
  };

  static constexpr Index least_reach = 16;
  static constexpr double guess_weight = 3;  // of a guess from the positions before, in steps

  double decay_;
  Index longest_ = 0;
  std::vector<Position> positions_;
};

}  // namespace specdec

// The measured costs of steps.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>

#include "specdec/draft/drafter.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/more/lengths/trials.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Running estimates of costs: of drafts by depth, because a drafter makes a call for each level, and of target calls by
/// tokens, with their verdicts. Only times of a step's own work are entered: not calls that also took in a prompt, and not
/// drafts where the drafter also took in tokens written without it. How long that took is kept apart: see catching_up(). Texts
/// that share their calls also share these costs. The record of each text has the time of the whole call. So costs are those of
/// a call, and steps of all texts make a round: as many steps as there are texts.
/// Units: seconds.
class StepCosts {
 public:
  /// `decay`: each new cost multiplies the weight of earlier costs by this.
  explicit StepCosts(double decay) : decay_(decay), draft_(decay), vain_(decay), target_(decay) {}

  /// Calls are shared by this many texts from now on.
  void batch(Index texts) {
    check_batch(texts);
    texts_ = texts;
    for (CostCurve* const curve : {&draft_, &vain_, &target_}) curve->decay(1 - (1 - decay_) / steps(texts));
  }

  /// Makes room for drafts within the limits.
  void reserve(const DraftLimits& limits) {
    draft_.reserve(limits.depth);
    target_.reserve(limits.nodes + 1);
  }

  void observe(const StepRecord& step) {
    const bool caught_up = round_.steps >= texts_;
    learn_catching_up(step);
    if (step.fed != step.drafted + 1) return;
    // While nothing is drafted for long, target costs are entered less often, so that the costs of calls with drafts are
    // not forgotten: a forgotten cost would count as 0.
    const Index rounds = idle_ / texts_;
    if (rounds < 8 || rounds % 8 == 0) target_.add(step.fed, target_time(step));
    if (!draft_.measured(0))
      draft_.add(0, 0);  // else a short draft would be estimated at the cost of the long ones
    if (step.asked == 0 || !caught_up) return;
    if (step.drafted == 0) vain_.add(0, seconds(step.draft_time));
    else draft_.add(step.depth(), seconds(step.draft_time));
  }

  /// The cost of a step without a draft.
  double plain() const { return target_(1); }
  /// The cost of a step with a draft of `nodes` tokens and `depth` levels; (0, 0): the drafter was asked and proposed nothing.
  double operator()(Index nodes, Index depth) const { return draft(depth) + target_(nodes + 1); }

  /// What a step has cost, with all that it also took in.
  static double spent(const StepRecord& step) { return seconds(step.draft_time) + target_time(step); }

  /// What the next draft is expected to cost more because the drafter must first take in all that was written without it;
  /// 0 right after a draft.
  ///
  /// This is measured after pauses. Of the last two times the one that was cheaper for its pause counts: in the other the
  /// machine may have stood still. So where the first time was longer than a draft, it is 0 until the second.
  ///
  /// After a pause twice as long there is twice as much to take in. If a step's part of it costs more than the share of the
  /// step that a probe may cost, say ρ times as much, no pause is long enough. To try again some day, only 1/ln x of the
  /// cost counts, x > e being how many times as long the pause is as the longest of the two. So the x-th multiple of that
  /// pause is long enough as soon as ln x > ρ. A probe then costs more than its share of the time before it; but if a text
  /// is as likely to end at n as at 2n steps, it is expected to have paid no more than that share.
  double catching_up() const {
    if (idle_ < texts_ || to_measure_ > 0) return 0;
    const double known = steps(std::max(last_.pause, before_.pause)), pause = std::max(known, steps(idle_));
    return std::min(last_.per_step, before_.per_step) * pause / std::max(1.0, std::log(pause / known));
  }

  /// Whether a probe that loses so much, and catching_up(), may come now. As long as catching_up() is not known, a probe
  /// after steps without drafts comes when the pause is long enough to measure it. Such a pause is short, so that the measurement
  /// is cheap whatever a token costs.
  bool allow(const Trials& trials, double loss) const {
    if (idle_ >= texts_ && to_measure_ > 0) return idle_ >= measurable();
    return trials.affords(loss + catching_up());
  }

 private:
  // In rounds. After a shorter pause, noise or a prompt would be measured. A longer run of drafts is no probe.
  static constexpr Index least_pause = 16, longest_probe = 16;

  // The shortest pause that is measured, in steps: texts read theirs together.
  Index measurable() const { return std::max(least_pause, texts_); }

  // What it cost to take in what was written in a pause.
  struct CaughtUp {
    double per_step = 0;
    Index pause = least_pause;  // steps of all texts
  };
  // A round that is being measured.
  struct Round {
    Index steps = 0;            // with drafts since the last round without
    Index pause = 0;            // steps without a draft before it
    double own = 0, taken = 0;  // so far: the time of its drafts alone, and with catching up
  };

  // A token more is also one more to judge.
  static double target_time(const StepRecord& step) { return seconds(step.target_time + step.verify_time); }
  static double steps(Index number) { return static_cast<double>(number); }
  double draft(Index depth) const { return depth == 0 ? vain_(0) : draft_(depth); }

  // In the first round after a pause each text catches up. What this takes is the mean over the texts.
  void learn_catching_up(const StepRecord& step) {
    if (step.asked == 0) {
      if (++idle_ >= texts_) round_.steps = 0;  // less than a round: the others draft
      return;
    }
    auto& [drafted, pause, own, taken] = round_;
    if (drafted++ == 0) pause = idle_, own = taken = 0;
    idle_ = 0;
    if (drafted >= longest_probe * texts_)
      last_.pause = before_.pause = least_pause * texts_;  // pauses are short again
    if (pause < measurable()) return;
    own += draft(step.depth());
    taken += seconds(step.draft_time);
    if (drafted < texts_) return;
    const double cost = (taken - own) / steps(drafted);
    before_ = last_;
    // A drafter that reads more slowly than the target writes is of no use. So a longer time says nothing more.
    last_ = {std::clamp(cost / steps(pause), 0.0, plain() / steps(texts_)),
             std::max(pause, least_pause * texts_)};
    if (to_measure_ == 2) before_ = last_;
    to_measure_ = taken <= 2 * own ? 0 : std::max(to_measure_ - 1, 0);
    pause = 0;
  }

  double decay_;
  CostCurve draft_, vain_, target_;  // vain_: of drafts that stayed empty
  Index texts_ = 1;
  Index idle_ = 1;  // steps since the last that drafted; less than a round: the drafter has seen nearly all
  CaughtUp before_, last_;
  int to_measure_ = 2;  // how often catching up must be measured until it is known
  Round round_;
};

}  // namespace specdec::detail

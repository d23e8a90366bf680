// The costs of a text's steps where many texts share each call.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <utility>

#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/more/lengths/trials.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// What a step of one text costs in a batch whose texts share their calls, for EarlyStoppingLength and CostOptimalLength:
///
///   EarlyStoppingLength length{BatchCosts{target_cost, draft_cost}};  // or CostOptimalLength, one length for all texts
///   Batch batch{target, ModelDrafter{small}, BlockVerifier{}, length};
///
/// `target_cost(n)` is the cost of a target call over n tokens of all texts together; `draft_cost(b)` is the cost of drafting
/// one token for each of b texts. Both must be above 0. Each may be a CostCurve that is filled when the engine starts. Functions
/// are taken by value, as in the standard library: std::cref(curve) refers to a curve that others go on filling.
///
/// A text that feeds the usual number of tokens bears an equal share of the calls. For each token more it bears all that the
/// larger target call costs more, and an equal share of one more draft call. So one price of a token holds for all texts: the
/// texts whose next token is likeliest to survive get the tokens of a call. For one length of all texts each bears an equal
/// share of all calls. What a draft model must read after a pause has no price here.
/// Throws: InvalidArgument where batch() gets a number below 1 or above 2^30, and where a cost is no finite number above
/// 0: mostly from the draft length's next(), before the step. A CostCurve in which nothing is known gives 0.
/// Cost: O(1).
template <std::invocable<Index> TargetCost, std::invocable<Index> DraftCost>
class BatchCosts {
 public:
  BatchCosts(TargetCost target_cost, DraftCost draft_cost)
      : target_(std::move(target_cost)), draft_(std::move(draft_cost)) {}

  /// From now on, calls are shared by this many texts.
  void batch(Index texts) {
    detail::check_batch(texts);
    texts_ = texts;
  }

  // What the draft lengths call.

  // Asks for the costs of a step with and without a draft, so that wrong ones are told before the step.
  void reserve(const DraftLimits& limits) const {
    plain();
    (*this)(limits.nodes, limits.depth);
  }
  void observe(const StepRecord& step) {
    if (step.fed == step.drafted + 1) fed_.add_fading(static_cast<double>(step.fed), 1 - 1 / window());
  }
  /// What a step has cost the text.
  double spent(const StepRecord& step) const {
    return step.drafted > 0 ? (*this)(step.drafted, step.depth()) : plain();
  }
  /// Whether a probe that loses so much may come now. What a draft model must read then is not part of the loss, because it has
  /// no given cost.
  static bool allow(const detail::Trials& trials, double loss) { return trials.affords(loss); }
  /// The share of a step without any draft.
  double plain() const { return target(texts_) / texts(); }
  /// The cost of a step with a draft of `nodes` tokens and `depth` levels.
  double operator()(Index nodes, Index depth) const {
    const double usual = fed_.empty() ? 1 : fed_.value();
    const Index all = whole(texts() * usual), other = all - whole(usual);
    const double call = target(all) / texts() + target(other + nodes + 1) - target(other + whole(usual));
    return call + drafting(depth) / texts();
  }
  /// The share of a step in which all texts feed `fed` tokens each, on the mean, and draft `depth` levels.
  double of_all(double fed, Index depth) const {
    return (target(whole(texts() * fed)) + drafting(depth)) / texts();
  }

 private:
  double texts() const { return static_cast<double>(texts_); }
  double window() const { return 50 * texts(); }
  double target(Index tokens) const { return checked("target_cost", tokens, target_(tokens)); }
  double drafting(Index depth) const {
    return static_cast<double>(depth) * checked("draft_cost", texts_, draft_(texts_));
  }
  static double checked(const char* name, Index size, double cost) {
    if (!(cost > 0 && std::isfinite(cost)))
      detail::invalid_argument(name, "(", size, ") = ", cost, " is no finite number above 0");
    return cost;
  }
  static Index whole(double number) { return static_cast<Index>(number + 0.5); }

  TargetCost target_;
  DraftCost draft_;
  Index texts_ = 1;
  FadingMean fed_;  // tokens of a text's step
};

}  // namespace specdec

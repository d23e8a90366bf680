// The draft length that is measured to be the fastest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/probe_budget.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/cost_curve.hpp"
#include "specdec/measure/running_survival.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Chooses, step by step, the γ in 0..Options::gamma of the least expected time per token,
///
///   (E[draft time] + E[target time]) / (1 + Σ_{i < γ} P(τ > i)),
///
/// from running estimates of both sides: how many tokens the drafter proposes and the rule in use accepts at
/// each position (StepRecord::survival: one long draft tells of every shorter one), what drafting n tokens
/// costs and what a target call over n + 1 costs. γ = 0, ordinary decoding, is one of the choices: a drafter
/// that does not pay is switched off.
///
/// Source: the objective is that of Leviathan et al., arXiv:2211.17192, Theorem 3.8, with measured curves in
/// the place of α and c. What is not tried cannot be known, so now and then a probe drafts another length: a
/// neighbour of the best, or the next of a round over all lengths; while switched off, a pair of steps (the
/// first lets a draft model catch up and is not timed). A probe waits until the share `probing` of the time
/// spent would pay for what it is expected to lose.
/// Lossless: as every DraftLength. The tokens of a seed then depend on how fast the machine was (not under KeyedVerifier).
/// Looks no further than twice the longest draft so far, and 16: a larger Options::gamma is approached as drafts that
/// long pay off.
/// Throws: std::invalid_argument unless window >= 1 and 0 < probing < 1, and where `most` is negative. Cost:
/// additions and memory for each of these lengths a step, however large Options::gamma.
class CostOptimalLength {
 public:
  struct Options {
    double window = 100;    ///< steps after which an estimate has mostly forgotten
    double probing = 0.01;  ///< share of the time that probes may cost
  };

  CostOptimalLength() : CostOptimalLength(Options{}) {}

  explicit CostOptimalLength(const Options& options)
      : budget_(checked(options).probing),
        draft_cost_(1 - 1 / options.window),
        target_cost_(1 - 1 / options.window),
        survival_(1 - 1 / options.window) {}

  Index next(Index most) {
    const Index reach = survival_.reach(most);
    reserve(reach);
    if (reach == 0) return 0;
    if (const Index first = unmeasured(reach); first >= 0) return first;
    return probing_ ? std::min(probe_, reach) : best(reach);
  }

  void observe(const StepRecord& step) {
    if (estimates_.empty()) return;  // next() was never asked
    survival_.observe(step);
    learn_costs(step);
    caught_up_ = step.asked > 0;
    estimate();
    schedule(step);
  }

  /// The length of the least estimated time per token, probes apart. The least of equals.
  Index best(Index most) const { return best_from(0, std::min(most, longest())); }

  /// The longest draft that is looked at so far; see the class. -1 before next() was asked.
  Index longest() const { return static_cast<Index>(tried_.size()) - 1; }

  /// The estimate for draft length gamma, in seconds; see the class.
  /// Throws: std::invalid_argument unless 0 <= gamma <= longest(). Means something once a step was observed.
  double time_per_token(Index gamma) const {
    if (gamma < 0 || gamma > longest())
      detail::invalid_argument("gamma = ", gamma, " is outside 0..longest() = ", longest());
    return at(gamma).time_per_token;
  }

 private:
  static const Options& checked(const Options& options) {
    if (!(options.window >= 1)) detail::invalid_argument("window = ", options.window, " is below 1");
    return options;
  }

  // Lengths that are tried twice before anything is chosen: few, and between them costs are interpolated.
  Index unmeasured(Index most) const {
    for (const Index gamma : {std::min<Index>(2, most), Index{0}, std::min<Index>(4, most)})
      if (tried(gamma) < 2) return gamma;
    return -1;
  }

  void reserve(Index most) {
    const auto lengths = static_cast<std::size_t>(most) + 1;
    if (tried_.size() >= lengths) return;
    survival_.reserve(most);
    tried_.resize(lengths);
    estimates_.resize(lengths);
    estimate();
  }

  void learn_costs(const StepRecord& step) {
    step.add_costs_to(draft_cost_, target_cost_, caught_up_);
    if (step.fed == step.drafted + 1 && static_cast<std::size_t>(step.asked) < tried_.size())
      ++tried_[static_cast<std::size_t>(step.asked)];
  }

  void schedule(const StepRecord& step) {
    const Index most = longest();
    if (most < 1 || unmeasured(most) >= 0) return;
    if (probing_) {
      if (--probe_steps_ == 0) probing_ = false;
      return;
    }
    budget_.earn(step);
    if (budget_.rested()) consider_probe(most);
  }

  void consider_probe(Index most) {
    const Index now = best(most);
    const Index probe = candidate(now, most), steps = now == 0 ? 2 : 1;
    const double loss = at(probe).time - at(probe).tokens * at(now).time_per_token;
    // What has been measured once, by a stalled machine, is not to be shunned for good.
    if (!budget_.affords(static_cast<double>(steps) * std::min(loss, 3 * at(now).time))) return;
    // While nothing is drafted nothing is learnt but from probes, which are rare: what is known of acceptance is
    // not to outvote them for long.
    if (now == 0) survival_.limit(few);
    probe_ = probe;
    probe_steps_ = steps;
    probing_ = true;
    ++probes_;
    budget_.spend();
  }

  // What to try next: over the neighbour on each side, and one of all lengths in turn.
  Index candidate(Index now, Index most) const {
    if (now == 0) return best_from(1, most);
    if (probes_ % 3 == 2) return probes_ / 3 % most + 1;
    return probes_ % 3 == 0 ? std::min(now + 1, most) : now - 1;
  }

  Index best_from(Index first, Index most) const {
    Index best = first;
    for (Index gamma = first + 1; gamma <= most; ++gamma)
      if (at(gamma).time_per_token < at(best).time_per_token) best = gamma;
    return best;
  }

  // The expected time and tokens of a step, for every length at once: each differs from the one before in its last
  // position only.
  void estimate() {
    double at_least = 1, shorter = 0;  // P(γ tokens are proposed); the time of steps that propose fewer
    estimates_[0] = {target_cost_(1), 1, target_cost_(1)};
    survival_.for_each_position([&](Index i, double proposed, double survival) {
      shorter += (at_least - proposed) * cost(i);
      at_least = proposed;
      const double time = shorter + at_least * cost(i + 1), tokens = at(i).tokens + survival;
      estimates_[static_cast<std::size_t>(i) + 1] = {time, tokens, time / tokens};
    });
  }

  // Of a step that was asked for tokens and got n.
  double cost(Index n) const { return target_cost_(n + 1) + draft_cost_(n); }

  struct Expected {
    double time = 0, tokens = 1, time_per_token = 0;
  };

  const Expected& at(Index gamma) const { return estimates_[static_cast<std::size_t>(gamma)]; }
  Index tried(Index gamma) const { return tried_[static_cast<std::size_t>(gamma)]; }

  static constexpr double few = 12;

  detail::ProbeBudget budget_;
  CostCurve draft_cost_, target_cost_;  // by tokens proposed, by tokens of the call; seconds
  RunningSurvival survival_;
  std::vector<Index> tried_;         // steps by length asked for
  std::vector<Expected> estimates_;  // by length asked for
  Index probes_ = 0;
  Index probe_ = 0, probe_steps_ = 0;
  bool probing_ = false;
  bool caught_up_ = false;  // the step before drafted too, so the drafter has seen all but the latest tokens
};

}  // namespace specdec

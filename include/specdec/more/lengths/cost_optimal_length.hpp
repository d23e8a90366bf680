// Chooses the length of the least cost per token.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <iterator>
#include <utility>
#include <vector>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/more/lengths/running_survival.hpp"
#include "specdec/more/lengths/step_costs.hpp"
#include "specdec/more/lengths/trials.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The options of CostOptimalLength.
struct CostOptimalOptions {
  double window = 100;    ///< steps after which a step is mostly forgotten
  double probing = 0.01;  ///< the share of the time that probes may cost
};

/// Chooses, step by step, the length γ of the least expected time per token,
///
///   (E[draft time] + E[target time]) / (1 + Σ_{i < γ} P(τ > i)).
///
/// One choice is to draft nothing: a drafter that does not pay is off, and decoding is ordinary. All lengths of a step are
/// known before it, so this is for any verifier, greedy block verification too, and for any drafter of lines.
///
///   SpecDec decoder{target, ModelDrafter{small}, BlockVerifier{}, CostOptimalLength{}};
///
/// Time and acceptance are running estimates: how often a token is proposed, and how often it survives, at each position. One
/// long draft also tells about every shorter one. Drafts are timed by their length and target calls by size; the cost of a size
/// not yet measured is read from a line through the nearest measured sizes. Later the length changes only if another is better by
/// 1 %; smaller differences may be noise. Costs are remembered four times as long as acceptance: where other programs slow the
/// machine in bursts, the lengths must be compared over several of them. A probe is a step that tries another length, or no
/// draft, to learn about it. Each gets probes that cost about as much: so those that may soon be the best, which lose little, are
/// tried most. While nothing is drafted, a probe drafts the best length. For the first steps and for probes see detail::Trials.
/// The price of a probe includes the time of catching up. Where catching up with a token takes more than `probing` of a step, no
/// wait would be long enough; then each pause is many times as long as the one before (see detail::StepCosts::catching_up).
/// Without a StepRecord::draft_time, and with given costs, catching up counts as free.
///
/// Texts that share their calls should share one CostOptimalLength. It measures whole calls. If their costs are given, the length
/// is that of the greatest goodput, the tokens that the batch emits per unit of cost: calls of many tokens are bound by arithmetic, so γ shrinks as the batch grows, down to 0.
///
///   CostOptimalLength length{BatchCosts{target_cost, draft_cost}};
///   Batch batch{target, ModelDrafter{small}, BlockVerifier{}, length};
///
/// Source: Leviathan et al., arXiv:2211.17192, Theorem 3.8, with measured curves for α and c. For batches: SmartSpec's
/// goodput (Liu et al., arXiv:2406.14066). Deviation: acceptance by position, from StepRecord::survival, not a single rate.
/// Texts of different Options::gamma may share one CostOptimalLength: it chooses for the largest gamma. The other texts
/// draft as much as their gamma allows. Considers lengths up to RunningSurvival::reach, about twice the longest draft so far.
/// Lossless, like every DraftLength. But the tokens for a seed depend on the speed of the machine (with KeyedVerifier, and
/// with given costs, they do not).
/// Throws: InvalidArgument unless window >= 1 and 0 < probing < 1, and if `most` is negative; what BatchCosts throws.
/// Cost: a choice at every step (in a batch: of the batch) takes some microseconds for 64 lengths. No allocation, except where
/// a draft is longer than ever before.
template <class Costs = detail::StepCosts>
class CostOptimalLength {
 public:
  using Options = CostOptimalOptions;

  static constexpr bool serves_one_text = std::same_as<Costs, detail::StepCosts>;  ///< each() may copy it

  explicit CostOptimalLength(const Options& options = {})
    requires std::same_as<Costs, detail::StepCosts>
      : CostOptimalLength(Costs(decay_of_costs(options.window)), options) {}
  explicit CostOptimalLength(Costs costs, const Options& options = {})
      : window_(options.window),
        trials_(options.probing),
        costs_(std::move(costs)),
        survival_(detail::decay_of(options.window)) {}

  /// This length serves so many texts from now on, which share their calls. A Batch or a CascadeDrafter calls it.
  void batch(Index texts) {
    costs_.batch(texts);
    if (texts == trials_.texts()) return;
    trials_.share_by(texts);
    survival_.decay(detail::decay_of(window_ * static_cast<double>(texts)));
    if constexpr (are_shared)
      if (longest() > 0 && !trials_.begin()) choose(true);  // the costs are others now
  }

  Index next(Index most) {
    const Index reach = survival_.reach(most);
    survival_.reserve(reach);
    while (longest() < reach) lines_.emplace_back();
    costs_.reserve({.nodes = longest(), .depth = longest()});
    const Index wanted = trials_.begin() ? trials_.first_length() : trials_.probe() ? probe_ : best_;
    asked_ = std::min(wanted, reach);
    return asked_;
  }

  void observe(const StepRecord& step) {
    detail::check_step(step);
    if (asked_ < 0) return;  // next() was never asked
    survival_.observe(step);
    costs_.observe(step);
    if (longest() == 0) return;
    if (trials_.begin()) {
      trials_.begin_with(step, asked_);
      if (!trials_.begin()) choose(true);
      return;
    }
    const bool probed = trials_.probe();
    if (probed && !trials_.end_with(step, costs_)) return;
    if (++steps_ % trials_.texts() == 0 || probed) choose(probed);
    if (probed) return trials_.go_on(best_ > 0, costs_.plain());
    trials_.earn(costs_.spent(step));
    // While nothing is drafted only probes teach something, and probes are rare: older observations of acceptance must not
    // outvote them for long.
    if (trials_.begin_probe(costs_, best_ > 0, loss(probe_)) && best_ == 0) survival_.limit(few);
  }

  /// The length of the least estimated cost per token. Not changed by probes.
  Index best() const { return best_; }

  /// The longest line that is considered so far; -1 before the first next().
  Index longest() const { return std::ssize(lines_) - 1; }

  /// The estimate for a line of gamma tokens, in seconds or in the unit of the given costs, as of the last choice; 0 before the
  /// first. In a batch, per token of one text: of whole calls, or with given costs of the text's share of the calls.
  /// Throws: InvalidArgument unless 0 <= gamma <= longest().
  double time_per_token(Index gamma) const {
    if (gamma < 0 || gamma > longest())
      detail::invalid_argument("gamma = ", gamma, " is outside 0..longest() = ", longest());
    return line(gamma).time / line(gamma).tokens;
  }

 private:
  static constexpr bool are_shared = requires(const Costs& costs) { costs.of_all(1.0, Index{}); };
  static constexpr double margin = 0.01, few = 12, costs_last = 4;

  static double decay_of_costs(double window) { return 1 - (1 - detail::decay_of(window)) / costs_last; }

  // A step with a draft of some length: the tokens and the cost that are expected of it, and how often it was taken lately.
  struct Line {
    double tokens = 1, time = 0, taken = 0;
  };
  const Line& line(Index length) const { return detail::at(lines_, length); }

  // ---- The best length --------------------------------------------------------------------------------

  void estimate() {
    lines_[0].time = costs_.plain();
    double tokens = 1, fed = 1;
    double all_proposed = 1, shorter = 0;  // shorter: the time where the drafter proposes fewer tokens
    survival_.for_each_position([&](Index i, double proposed, double survival) {
      if (i >= longest()) return;
      tokens += survival;
      fed += proposed;
      double time = 0;
      if constexpr (are_shared) {
        time = costs_.of_all(fed, i + 1);
      } else {
        if (proposed != all_proposed) shorter += (all_proposed - proposed) * costs_(i, i);
        all_proposed = proposed;
        time = shorter + all_proposed * costs_(i + 1, i + 1);
      }
      detail::at(lines_, i + 1) = {tokens, time, line(i + 1).taken};
    });
  }

  // `tried`: the drafter has drafted just now, or the costs are others. Where nothing is drafted, only then does it begin
  // again: costs that were measured long ago are no reason to make it read all that was written since.
  void choose(bool tried) {
    for (Line& line : lines_) line.taken *= decay_of_costs(window_);
    ++detail::at(lines_, asked_).taken;
    estimate();
    Index drafting = 1;
    for (Index length = 2; length <= longest(); ++length)
      if (time_per_token(length) < time_per_token(drafting)) drafting = length;
    const Index found = time_per_token(drafting) < time_per_token(0) ? drafting : 0;
    const bool better = time_per_token(found) < (1 - margin) * time_per_token(best_);
    if (better && (tried || best_ > 0)) best_ = found;
    probe_ = best_ == 0 ? drafting : least_tried();
  }

  // ---- Probes -----------------------------------------------------------------------------------------

  // The length, up to about twice the best, whose probes have cost least lately, with another one.
  Index least_tried() const {
    const auto spent = [this, step = line(best_).time](Index length) {
      return (1 + line(length).taken) * std::clamp(loss(length), margin * step, step);
    };
    Index least = 0;
    for (Index length = 1; length <= std::min({2 * best_ + 1, best_ + 8, longest()}); ++length)
      if (length != best_ && spent(length) < spent(least)) least = length;
    return least;
  }

  // Of a step, in time. Limited: a length that was measured once, on a stalled machine, must get another try some day.
  double loss(Index length) const {
    const double more = line(length).time - line(length).tokens * time_per_token(best_);
    return std::min(more, 3 * line(best_).time);
  }

  double window_;
  detail::Trials trials_;
  Costs costs_;
  RunningSurvival survival_;
  std::vector<Line> lines_;  // by length
  Index best_ = 0, probe_ = 0, asked_ = -1, steps_ = 0;
};

}  // namespace specdec

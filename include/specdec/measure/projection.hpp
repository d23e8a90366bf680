// The expected speed-up of other draft lengths.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/measure/cost_curve.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {

/// The expected performance of a draft length.
struct Projection {
  Index gamma = 0;
  double tokens_per_call = 1;
  double time_per_token = 0;  ///< in the unit of the costs
  double speed_up = 1;        ///< over γ = 0, the target alone
};

/// The expected time of a step that asks for gamma tokens. `proposed(i)` is the probability that the drafter then proposes
/// more than i tokens. `target_cost(n)` is the cost of a target call over n tokens, `draft_cost(n)` is the cost of a
/// proposal of n tokens.
///
/// Source: the denominator of Leviathan et al., arXiv:2211.17192, Theorem 3.8, with measured costs, and with drafts that may
/// be shorter than gamma.
/// Throws: InvalidArgument if gamma is negative or more than longest_draft.
template <std::invocable<Index> Proposed, std::invocable<Index> TargetCost, std::invocable<Index> DraftCost>
double expected_step_cost(Index gamma, const Proposed& proposed, const TargetCost& target_cost,
                          const DraftCost& draft_cost) {
  detail::check_drafted("gamma", gamma);
  double cost = 0, at_least = 1;
  for (Index n = 0; n <= gamma; ++n) {  // n tokens are proposed
    const double more = n < gamma ? proposed(n) : 0;
    cost += (at_least - more) * (target_cost(n + 1) + (gamma > 0 ? draft_cost(n) : 0));
    at_least = more;
  }
  return cost;
}

/// Projections for γ = 0..most. survival[i] is P(τ > i) and proposed[i] is P(more than i tokens are proposed), both for
/// drafts that are asked for more than i tokens. Beyond its end, each list keeps falling at its last rate.
///
/// Pre: target_cost(1) > 0.
/// Throws: InvalidArgument if `most` is negative or more than longest_draft.
template <std::invocable<Index> TargetCost, std::invocable<Index> DraftCost>
std::vector<Projection> project(std::span<const double> survival, std::span<const double> proposed,
                                const TargetCost& target_cost, const DraftCost& draft_cost, Index most = 16) {
  detail::check_drafted("most", most);
  const auto continued = [](std::span<const double> p, Index i) {
    if (i < std::ssize(p)) return detail::at(p, i);
    if (p.empty()) return 0.0;
    const double last = p.back(), before = p.size() > 1 ? p[p.size() - 2] : 1.0;
    if (!(last < before)) return last;
    return last * std::pow(last / before, static_cast<double>(i + 1 - std::ssize(p)));
  };
  std::vector<Projection> out;
  double tokens = 1;
  for (Index gamma = 0; gamma <= most; ++gamma) {
    if (gamma > 0) tokens += continued(survival, gamma - 1);
    const double cost = expected_step_cost(
        gamma, [&](Index i) { return continued(proposed, i); }, target_cost, draft_cost);
    out.push_back({gamma, tokens, cost / tokens, target_cost(1) * tokens / cost});
  }
  return out;
}

/// Projections for a run, from the costs that it measured. `survival` is P(τ > i): stats.survival(),
/// stats.acceptance.token_survival() or stats.acceptance.block_survival(). Empty if no target call was measured.
///
/// Sizes that did not occur are estimated: see CostCurve. An empty draft costs 0 unless it was measured. If all target calls
/// had one size, every size is taken to cost as much as this one. This flatters long drafts, so a run with varying draft
/// lengths tells more. After the last drafted position, survival keeps falling at its last rate.
inline std::vector<Projection> project(const Stats& stats, std::span<const double> survival,
                                       Index most = 16) {
  if (!(stats.target_cost(1) > 0)) return {};
  CostCurve draft = stats.draft_cost;
  if (!draft.measured(0)) draft.add(0, 0);
  const std::vector<double> proposed = detail::shares(stats.drafted_by_position, stats.asked_by_position);
  return project(survival, proposed, stats.target_cost, draft, most);
}

}  // namespace specdec

// The expected speed-up of other draft lengths.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/more/analysis/measures.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {

/// The expected performance of a draft length. What the run leaves open is in the ranges: costs of sizes of calls that were not
/// measured, and what becomes of drafts longer than those seen. The noise of what was measured is not in them.
struct Projection {
  Index gamma = 0;
  double tokens_per_call = 1;
  double time_per_token = 0;                                            ///< in the unit of the costs
  double speed_up = 1;                                                  ///< over γ = 0, the target alone
  Interval tokens_range{1, 1}, time_range{0, 0}, speed_up_range{1, 1};  ///< what these three can be
};

namespace detail {

/// What becomes of a list of probabilities beyond its end.
enum class Beyond {
  nothing,  ///< 0
  falling,  ///< it keeps falling at its last rate
  staying   ///< it stays as it is
};

inline double continued(std::span<const double> p, Index i, Beyond beyond) {
  if (i < std::ssize(p)) return at(p, i);
  if (p.empty()) return beyond == Beyond::staying ? 1.0 : 0.0;
  if (beyond == Beyond::nothing) return 0;
  const double last = p.back(), before = p.size() > 1 ? p[p.size() - 2] : 1.0;
  if (beyond == Beyond::staying || !(last < before)) return last;
  return last * std::pow(last / before, static_cast<double>(i + 1 - std::ssize(p)));
}

/// Survival, proposals and costs by one view of what is not known.
template <class TargetCost, class DraftCost>
struct View {
  std::span<const double> survival, proposed;
  Beyond survival_beyond, proposed_beyond;
  TargetCost target_cost;
  DraftCost draft_cost;
  double tokens = 1, cost = 0;  ///< of a step that asks for gamma tokens

  /// Call it for γ = 0, 1, ... in turn.
  /// Source: the cost is the denominator of Leviathan et al., arXiv:2211.17192, Theorem 3.8, with measured costs, and with drafts
  /// that may be shorter than gamma.
  void ask(Index gamma) {
    if (gamma > 0) tokens += continued(survival, gamma - 1, survival_beyond);
    cost = 0;
    double at_least = 1;
    for (Index n = 0; n <= gamma; ++n) {  // n tokens are proposed
      const double more = n < gamma ? continued(proposed, n, proposed_beyond) : 0, share = at_least - more;
      if (share != 0)
        cost += share * (target_cost(n + 1) + (gamma > 0 ? draft_cost(n) : 0));  // may be infinite
      at_least = more;
    }
  }
  double plain() const { return target_cost(1); }
};
template <class T, class D>
View(std::span<const double>, std::span<const double>, Beyond, Beyond, T, D) -> View<T, D>;

template <class Estimate, class Worst, class Best>
std::vector<Projection> project_by(Estimate estimate, Worst worst, Best best, Index most) {
  check_drafted("most", most);
  std::vector<Projection> out;
  for (Index gamma = 0; gamma <= most; ++gamma) {
    estimate.ask(gamma);
    worst.ask(gamma);
    best.ask(gamma);
    Projection p{gamma, estimate.tokens, estimate.cost / estimate.tokens,
                 estimate.plain() * estimate.tokens / estimate.cost};
    p.tokens_range = {worst.tokens, best.tokens};
    p.time_range = {best.cost / best.tokens, worst.cost / worst.tokens};
    if (gamma > 0)
      p.speed_up_range = {best.plain() * worst.tokens / worst.cost, worst.plain() * best.tokens / best.cost};
    out.push_back(p);
  }
  return out;
}

}  // namespace detail

/// Projections for γ = 0..most. survival[i] is P(τ > i) and proposed[i] is P(more than i tokens are proposed), both for
/// drafts that are asked for more than i tokens in a text that goes on. Beyond its end, each list keeps falling at its last rate;
/// the ranges hold everything from 0 to its last number.
///
/// A text that ends inside a step wastes the rest of this step. This is not projected. It matters where texts have few steps.
/// survival is taken to be that of drafts of every length, which is not so where hard and easy stretches of a text alternate: see
/// Acceptance.
/// Pre: target_cost(1) > 0.
/// Throws: InvalidArgument if `most` is negative or more than longest_draft.
template <std::invocable<Index> TargetCost, std::invocable<Index> DraftCost>
std::vector<Projection> project(std::span<const double> survival, std::span<const double> proposed,
                                const TargetCost& target_cost, const DraftCost& draft_cost, Index most = 16) {
  using enum detail::Beyond;
  const auto view = [&](detail::Beyond survival_beyond, detail::Beyond proposed_beyond) {
    return detail::View{
        survival, proposed, survival_beyond, proposed_beyond, std::cref(target_cost), std::cref(draft_cost)};
  };
  return detail::project_by(view(falling, falling), view(nothing, staying), view(staying, nothing), most);
}

/// Projections for a run, from the costs that it measured. `survival` is P(τ > i): stats.survival(),
/// measures.acceptance.token_survival() or measures.acceptance.block_survival(). Empty if no size of target calls was measured.
///
/// A size of calls counts as measured if it occurred 8 times, and a position if 8 drafts reached it: one shorter last call tells
/// nothing of what calls cost. Other sizes are estimated (see CostCurve), and the ranges hold all that they can be
/// (CostCurve::bounds). If all target calls had one size, every size is taken to cost as much as this one; this flatters long
/// drafts, and the ranges are wide. So let a run draft any length by chance, 0 included: examples/write/project_gamma.cpp. An empty
/// draft costs 0 unless it was measured.
inline std::vector<Projection> project(const Stats& stats, const Measures& measures,
                                       std::span<const double> survival, Index most = 16) {
  using enum detail::Beyond;
  constexpr Index few = 8;
  const CostCurve target = measures.target_cost.without_rare(few);
  if (!(target(1) > 0)) return {};
  CostCurve draft = measures.draft_cost.without_rare(few);
  if (!draft.measured(0)) draft.add(0, 0);
  std::vector<double> proposed = detail::shares(stats.drafted_by_position, stats.asked_by_position);
  // The shares are of different drafts, so by chance one may be larger than the one before. Probabilities do not rise.
  for (std::size_t i = 1; i < proposed.size(); ++i) proposed[i] = std::min(proposed[i], proposed[i - 1]);
  std::size_t known = 0;
  while (known < survival.size() && known < proposed.size() && stats.reached_by_position[known] >= few)
    ++known;

  const auto estimate_of = [](const CostCurve& cost) {
    return [&cost](Index n) {
      const auto [low, high] = cost.bounds(n);
      return std::clamp(cost(n), low, high);
    };
  };
  const auto least_of = [](const CostCurve& cost) { return [&cost](Index n) { return cost.bounds(n).low; }; };
  const auto most_of = [](const CostCurve& cost) { return [&cost](Index n) { return cost.bounds(n).high; }; };
  const auto sure = survival.first(known);
  const auto surely_proposed = detail::first(std::span(proposed), static_cast<Index>(known));
  return detail::project_by(
      detail::View{survival, proposed, falling, falling, estimate_of(target), estimate_of(draft)},
      detail::View{sure, surely_proposed, nothing, staying, most_of(target), most_of(draft)},
      detail::View{sure, surely_proposed, staying, nothing, least_of(target), least_of(draft)}, most);
}

}  // namespace specdec

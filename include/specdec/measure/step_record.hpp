// What a step of the loop tells those that learn from it: draft lengths and statistics.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>

#include "specdec/error.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/measure/cost_curve.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec {

/// What a step did with a draft that may branch.
struct TreeRecord {
  Index depth = -1;                   ///< tokens of the longest path; −1 of a linear draft
  std::span<const Index> ranks = {};  ///< of the accepted tokens: how many elder siblings each has
  std::span<const Index> offered =
      {};  ///< of the nodes that were come to, the context first: how many children
};

/// What one step of the loop did.
struct StepRecord {
  Index asked = 0;     ///< tokens the drafter was asked for
  Index drafted = 0;   ///< tokens it proposed
  Index accepted = 0;  ///< tokens that survived
  Index fed = 0;       ///< tokens of the target call: drafted + 1, and what the target had not seen before

  /// [i], i < drafted: P(τ > i | x_1..x_{i+1}) under the rule in use; where that is unknown, 1 for tokens
  /// that survived and 0 for the others. The mean is P(τ > i) either way.
  std::span<const double> survival = {};

  std::chrono::nanoseconds draft_time{0}, target_time{0};

  TreeRecord tree = {};

  /// How many tokens a path of the draft has at most.
  Index depth() const { return tree.depth < 0 ? drafted : tree.depth; }

  /// Enters the times, in seconds, where they tell of a step's own work: not of models that took in a prompt as
  /// well, nor of a draft model that took in what was written without it (`after_a_draft`: the step before
  /// drafted, too).
  void add_costs_to(CostCurve& draft_cost, CostCurve& target_cost, bool after_a_draft) const {
    if (fed != drafted + 1) return;
    if (asked > 0 && after_a_draft) draft_cost.add(drafted, detail::seconds(draft_time));
    target_cost.add(fed, detail::seconds(target_time));
  }
};

namespace detail {

/// Of a step with a draft that branched: whether depth, ranks and offers fit one another.
inline void check_tree(const StepRecord& step) {
  const auto& [depth, ranks, offered] = step.tree;
  if (depth < step.accepted || depth > step.drafted)
    invalid_argument("step.tree.depth = ", depth, " is outside ", step.accepted, "..", step.drafted);
  if (std::ssize(ranks) != step.accepted || std::ssize(offered) != step.accepted + 1)
    invalid_argument("step.tree has ", ranks.size(), " ranks and ", offered.size(), " offers, expected ",
                     step.accepted, " and one more");
  for (std::size_t i = 0; i < offered.size(); ++i) {
    if (i < ranks.size() && (ranks[i] < 0 || ranks[i] >= step.drafted))
      invalid_argument("step.tree.ranks[", i, "] = ", ranks[i], " is outside 0..", step.drafted - 1);
    const Index least = i < ranks.size() ? ranks[i] + 1 : 0;
    if (offered[i] < least || offered[i] > step.drafted)
      invalid_argument("step.tree.offered[", i, "] = ", offered[i], " is outside ", least, "..",
                       step.drafted);
  }
}

/// Refuses what no step can have done, before anybody reads or counts by it.
inline void check_step(const StepRecord& step) {
  check_drafted("step.asked", step.asked);
  check_drafted("step.drafted", step.drafted);
  if (step.accepted < 0 || step.accepted > step.drafted)
    invalid_argument("step.accepted = ", step.accepted, " is outside 0..", step.drafted,
                     ", the tokens that were drafted");
  if (step.tree.depth >= 0) return check_tree(step);
  if (!step.tree.ranks.empty() || !step.tree.offered.empty())
    invalid_argument("step.tree has ranks or offers, but no depth");
}

}  // namespace detail
}  // namespace specdec

// Trunks with spares: the family of shapes that a drafter of spares drafts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/length/shape_plan.hpp"
#include "specdec/draft/length/spare_shares.hpp"
#include "specdec/lists.hpp"
#include "specdec/measure/running_survival.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Trunks of every length with any number of spares beside each token, for
///
///   CostOptimalLength spares{SpareShapes{}};
///   SpecDec decoder{target, ModelDrafter{small, Spares{std::cref(spares)}}, TrunkAndSpares<BlockVerifier>{}, spares};
///
/// Let s(d, k) be the probability that the verifier leaves the trunk at depth d for the k-th spare there. Each spare then
/// adds s(d, k) tokens to a step without a further draft call. So the best n spares have the n greatest s(d, k).
/// Source: ours.
/// Throws: std::invalid_argument unless most_nodes is in 1..256 and most_trunk in 1..64.
struct SpareShapes {
  static constexpr double usual_window = 300;

  Index most_nodes = 64;  ///< tokens of the trunk and spares together
  Index most_trunk = 16;

  /// Learns how often the trunk survives at each position, and which spare is accepted where the trunk stops.
  class Learner {
   public:
    static constexpr bool branches = true;

    Learner(const SpareShapes& shapes, double decay)
        : largest_(shapes.most_nodes, "most_trunk", shapes.most_trunk, 64),
          most_trunk_(shapes.most_trunk),
          survival_(decay),
          shares_(shapes.most_trunk, decay),
          survived_(static_cast<std::size_t>(shapes.most_trunk)),
          reached_(survived_.size() * children) {
      survival_.reserve(shapes.most_trunk);
    }

    DraftLimits reach(Index most) const { return largest_.within(most); }

    void observe(const StepRecord& step) {
      const Index trunk = std::min(step.depth(), most_trunk_);
      if (trunk == 0) return;
      const auto& [depth, ranks, offered, probabilities, drawn] = step.tree;
      const auto off = std::find_if(ranks.begin(), ranks.end(), [](Index rank) { return rank > 0; });
      const Index accepted = std::min(depth < 0 ? step.accepted : off - ranks.begin(), trunk);
      std::fill_n(survived_.begin(), accepted, 1.0);
      std::fill(survived_.begin() + accepted, survived_.end(), 0.0);
      survival_.observe(
          {.asked = trunk, .drafted = trunk, .accepted = accepted, .survival = detail::view_of(survived_)});
      if (depth < 0 || accepted == trunk) return;
      const Index spares = offered[static_cast<std::size_t>(accepted)] - 1;
      shares_.observe(accepted, spares, off == ranks.end() ? -1 : *off - 1);
    }
    void limit(double steps) {
      survival_.limit(steps);
      shares_.limit(steps);
    }
    void estimate() {
      double before = 1;
      survival_.for_each_position([&](Index d, double, double survival) {
        const double here = std::min(survival, before);
        const detail::SpareShares::Shares shares = shares_.at(d);
        double* const reached = reached_.data() + d * children;
        reached[0] = here;
        for (Index k = 1; k < children; ++k)
          reached[k] = (before - here) * shares[static_cast<std::size_t>(k - 1)];
        before = here;
      });
    }

    double proposed(Index) const { return 1; }
    double reached(double, Index depth, Index rank, bool after_trunk) const {
      if (!after_trunk) return 0;
      return rank < children ? reached_[static_cast<std::size_t>(depth * children + rank)] : 0;
    }

   private:
    static constexpr Index children = Index{detail::SpareShares::ranks} + 1;  // after a token of the trunk

    detail::LargestShape largest_;
    Index most_trunk_;
    RunningSurvival survival_;  // of the trunk
    detail::SpareShares shares_;
    std::vector<double> survived_;  // of one step's trunk
    std::vector<double> reached_;   // by depth: P(τ > d), then for each spare P(τ = d and it is accepted)
  };
};

}  // namespace specdec

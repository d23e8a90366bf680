// Trees of any shape, after Sequoia.
#pragma once

#include <cstddef>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/length/shape_plan.hpp"
#include "specdec/draft/length/spare_shares.hpp"
#include "specdec/measure/cost_curve.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Trees where the rank of a child among its siblings decides how often it is accepted, anywhere in the tree, for
///
///   CostOptimalLength trees{TreeShapes{}};
///   SpecDec decoder{target, ModelDrafter{small, Tree{std::cref(trees), WithoutReplacement{}}}, TraversalVerifier{}, trees};
///
/// For a given number of nodes and levels, the best tree has the likeliest nodes.
/// Source: Chen et al., "Sequoia", arXiv:2402.12374, section 4.1 (acceptance by rank) and 4.3 (the choice of nodes and
/// levels by measured time). Acceptance by rank is learnt during the run, from all nodes together, and assumed to fall by
/// rank.
/// Throws: std::invalid_argument unless most_nodes is in 1..256 and most_depth in 1..32.
struct TreeShapes {
  static constexpr double usual_window = 300;

  Index most_nodes = 64;
  Index most_depth = 8;

  /// Learns how often the eldest child is accepted and, where it is not, which of its siblings.
  class Learner {
   public:
    static constexpr bool branches = true;

    Learner(const TreeShapes& shapes, double decay)
        : largest_(shapes.most_nodes, "most_depth", shapes.most_depth, 32), decay_(decay), others_(1, decay) {
      eldest_mean_.add(1);  // so as not to give up after a bad start
    }

    DraftLimits reach(Index most) const { return largest_.within(most); }

    void observe(const StepRecord& step) {
      eldest_mean_.fade(decay_);
      const auto& [depth, ranks, offered, probabilities, drawn] = step.tree;
      for (std::size_t i = 0; i < offered.size() && offered[i] > 0; ++i) {
        const Index rank = i < ranks.size() ? ranks[i] : -1;
        eldest_mean_.add(rank == 0 ? 1 : 0);
        if (rank != 0) others_.observe(0, offered[i] - 1, rank < 0 ? -1 : rank - 1);
      }
    }
    /// A step counts as several nodes. Else a few nodes that are accepted by luck would outvote the past.
    void limit(double steps) { eldest_mean_.limit(nodes_of_a_step * steps); }
    void estimate() {
      eldest_ = eldest_mean_.with(0, 1e-9);  // a number, even if all has faded
      shares_ = others_.at(0);
    }

    double proposed(Index) const { return 1; }
    double reached(double before, Index, Index rank, bool) const {
      return before * (rank == 0 ? eldest_ : (1 - eldest_) * detail::SpareShares::of(shares_, rank - 1));
    }

   private:
    static constexpr double nodes_of_a_step = 16;

    detail::LargestShape largest_;
    double decay_;
    FadingMean eldest_mean_;
    detail::SpareShares others_;
    double eldest_ = 0;
    detail::SpareShares::Shares shares_{};
  };
};

}  // namespace specdec

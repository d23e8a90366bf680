// Chooses the tree that costs the least time per token, as measured while it runs.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "specdec/draft/sequoia_shape.hpp"
#include "specdec/draft/tree_shape.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/cost_curve.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A draft length for trees, which shapes them, too: of Sequoia's shapes for every depth and several numbers of nodes the
/// one of the least time per token, a line or nothing at all where that is better.
///
///   CostOptimalTree trees;
///   SpecDec decoder{target, ModelTreeDrafter{small, std::cref(trees), WithoutReplacement{}}, TraversalVerifier{}, trees};
///
/// A tree of n nodes and d levels is taken to emit 1 + T(n, d) tokens (sequoia_shape, by how often the (k+1)-th child of a
/// node has been the accepted one) in the time of d calls of the drafter and one of the target over n + 1 tokens, each as
/// measured (StepRecord, CostCurve), between and beyond measured sizes on a line. It begins with a tree, two lines and
/// nothing, in turn; chooses after `first_choice` steps, and again whenever twice as many have passed, up to `window`; and
/// now and then drafts a tree for two steps, to see whether things have changed.
/// Source: Chen et al., "Sequoia", arXiv:2402.12374, section 4.1 (the shapes) and 4.3 (the choice of n and d by measured
/// time). Acceptance by rank is learnt from the run itself, of all nodes together.
/// Lossless: a shape depends on the past alone. The tokens of a seed then depend on how fast the machine was.
/// Throws: std::invalid_argument unless most_nodes is in 1..256, most_depth in 1..32 and window >= 64.
/// Cost: a choice takes some milliseconds for 64 nodes.
class CostOptimalTree {
 public:
  struct Options {
    Index most_nodes = 64;
    Index most_depth = 8;
    double window = 1000;  ///< steps after which an estimate has mostly forgotten
  };

  static constexpr bool counts_nodes = true;

  CostOptimalTree() : CostOptimalTree(Options{}) {}

  explicit CostOptimalTree(const Options& options)
      : options_(checked(options)),
        draft_cost_(1 - 1 / options.window),
        target_cost_(1 - 1 / options.window),
        offered_(most_ranks),
        accepted_(most_ranks),
        shape_(first_shapes()[0]) {}

  Index next(Index most) {
    most_ = most;
    shape_ = current();
    return std::min(shape_.size(), most);
  }

  void observe(const StepRecord& step) {
    learn_ranks(step.tree);
    learn_costs(step);
    drafted_before_ = step.asked > 0;
    ++steps_;
    if (steps_ < next_choice_) return;
    best_ = choose();
    next_choice_ += std::min(next_choice_, static_cast<Index>(options_.window));
  }

  /// The shape of the next tree, for a drafter: what next() has chosen.
  const TreeShape& shape() const& { return shape_; }
  const TreeShape& shape() const&& = delete;

  /// The shape of the least estimated time per token, probes apart.
  const TreeShape& best() const& { return best_; }
  const TreeShape& best() const&& = delete;

 private:
  static constexpr std::size_t most_ranks = 8;
  static constexpr Index first_choice = 32, probe_every = 128;

  static const Options& checked(const Options& options) {
    if (options.most_nodes < 1 || options.most_nodes > 256)
      detail::invalid_argument("most_nodes = ", options.most_nodes, " is outside 1..256");
    if (options.most_depth < 1 || options.most_depth > 32)
      detail::invalid_argument("most_depth = ", options.most_depth, " is outside 1..32");
    if (!(options.window >= 64)) detail::invalid_argument("window = ", options.window, " is below 64");
    return options;
  }

  // From these costs are interpolated; the first one tells the ranks of siblings, too.
  static const std::array<TreeShape, 4>& first_shapes() {
    static const std::array<TreeShape, 4> shapes{TreeShape::of_widths({4, 2, 1}), TreeShape::linear(4),
                                                 TreeShape(), TreeShape::linear(2)};
    return shapes;
  }

  // Two steps of each at first, as the first of them may let a draft model catch up, which is not timed.
  TreeShape current() const {
    if (steps_ < first_choice) return first_shapes()[static_cast<std::size_t>(steps_ / 2 % 4)];
    return steps_ % probe_every < 2 ? first_shapes()[0] : best_;
  }

  void learn_ranks(const TreeRecord& tree) {
    const double decay = 1 - 1 / options_.window;
    for (std::size_t k = 0; k < most_ranks; ++k) {
      offered_[k] *= decay;
      accepted_[k] *= decay;
    }
    for (const Index children : tree.offered)
      for (std::size_t k = 0; k < std::min(most_ranks, static_cast<std::size_t>(children)); ++k)
        ++offered_[k];
    for (const Index rank : tree.ranks)
      if (rank < static_cast<Index>(most_ranks)) ++accepted_[static_cast<std::size_t>(rank)];
  }

  void learn_costs(const StepRecord& step) {
    const auto seconds = [](std::chrono::nanoseconds t) { return std::chrono::duration<double>(t).count(); };
    if (step.fed != step.drafted + 1) return;  // the target took in more than this step's own tokens
    target_cost_.add(step.fed, seconds(step.target_time));
    if (step.drafted > 0 && drafted_before_) draft_cost_.add(step.depth(), seconds(step.draft_time));
    if (step.drafted == 0) draft_cost_.add(0, 0);
  }

  // Ranks that have not been seen are taken to fall off as those before them did.
  std::vector<double> acceptance_by_rank() const {
    std::vector<double> chances;
    double left = 1;
    for (std::size_t k = 0; k < most_ranks && left > 0; ++k) {
      double chance = offered_[k] >= 1 ? accepted_[k] / offered_[k] : 0;
      if (offered_[k] < 1 && k >= 2 && chances[k - 2] > 0)
        chance = chances[k - 1] * std::min(1.0, chances[k - 1] / chances[k - 2]);
      chances.push_back(std::min(chance, left));
      left -= chances.back();
    }
    return chances;
  }

  TreeShape choose() const {
    const std::vector<double> chances = acceptance_by_rank();
    TreeShape best;
    double least = time_per_token(best, 0);
    const Index most = std::min(options_.most_nodes, most_);
    for (Index depth = 1; depth <= std::min(options_.most_depth, most); ++depth)
      for (Index nodes = depth; nodes <= most; nodes += std::max<Index>(1, nodes / 4)) {
        const SequoiaShape found = sequoia_shape(chances, nodes, depth);
        const double time = time_per_token(found.shape, found.expected_accepted);
        if (!(time < least)) continue;
        least = time;
        best = found.shape;
      }
    return best;
  }

  double time_per_token(const TreeShape& shape, double accepted) const {
    return (draft_cost_(shape.depth()) + target_cost_(shape.size() + 1)) / (1 + accepted);
  }

  Options options_;
  CostCurve draft_cost_, target_cost_;      // by the depth of the tree; by the tokens of a call
  std::vector<double> offered_, accepted_;  // by rank; they fade
  TreeShape shape_, best_;
  Index most_ = 0, steps_ = 0, next_choice_ = first_choice;
  bool drafted_before_ = false;
};

}  // namespace specdec

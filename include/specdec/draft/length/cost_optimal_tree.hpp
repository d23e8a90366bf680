// Chooses the tree that costs the least time per token, as measured while it runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "specdec/draft/length/probe_budget.hpp"
#include "specdec/draft/length/sequoia_shape.hpp"
#include "specdec/draft/length/tree_costs.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/cost_curve.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A draft length for trees, which shapes them, too: of Sequoia's shapes for every depth and several numbers of nodes the
/// one of the least time per token, a line or nothing at all where that is better.
///
///   CostOptimalTree trees;
///   SpecDec decoder{target, ModelDrafter{small, Tree{std::cref(trees), WithoutReplacement{}}}, TraversalVerifier{}, trees};
///
/// A tree of n nodes and d levels is taken to emit 1 + T(n, d) tokens (sequoia_shape, by how often the (k+1)-th child of a
/// node has been the accepted one) in the time of d calls of the drafter and one of the target over n + 1 tokens, each as
/// measured (StepRecord, CostCurve), between and beyond measured sizes on a line. It begins with a tree, two lines and
/// nothing, for two steps each, and then chooses, every 32 steps in the end. What it drafts gives way to what is better
/// by 2 %, and a line to a tree that is, as less may be noise. A probe now and then, of a larger or a smaller tree, of
/// one with another child of the context, of a line or of a wide tree, shows whether things have changed; it waits until
/// the share `probing` of the time spent would pay for what it is expected to lose.
/// Source: Chen et al., "Sequoia", arXiv:2402.12374, section 4.1 (the shapes) and 4.3 (the choice of n and d by measured
/// time). Acceptance by rank is learnt from the run itself, of all nodes together.
/// Lossless: a shape depends on the past alone. The tokens of a seed then depend on how fast the machine was (not under KeyedVerifier).
/// Throws: std::invalid_argument unless most_nodes is in 1..256, most_depth in 1..32, window >= 64 and 0 < probing < 1.
/// Cost: a choice takes a fraction of a millisecond for 64 nodes.
class CostOptimalTree {
 public:
  struct Options {
    Index most_nodes = 64;
    Index most_depth = 8;
    double window = 1000;   ///< steps after which acceptance is mostly forgotten; costs are after 200 of them
    double probing = 0.01;  ///< share of the time that probes may cost
  };

  static constexpr bool counts_nodes = true;

  CostOptimalTree() : CostOptimalTree(Options{}) {}

  explicit CostOptimalTree(const Options& options)
      : options_(checked(options)),
        budget_(options.probing),
        costs_(1 - 1 / std::min(options.window, cost_window)),
        accepted_(most_ranks) {
    accepted_[0].add(1);  // so as not to give up after a bad start
  }

  Index next(Index most) {
    most_ = most;
    shape_ = current();
    return std::min(shape_.size(), most);
  }

  void observe(const StepRecord& step) {
    learn_ranks(step.tree);
    costs_.observe(step);
    ++steps_;
    if (steps_ < first_choice) return;
    const bool probed = probe_steps_ == 1;
    schedule(step);
    if (probe_steps_ > 0 || !(probed || steps_ >= next_choice_)) return;
    choose();
    next_choice_ = steps_ + std::clamp<Index>(steps_ / 4, 1, longest_rest);
  }

  /// The shape of the next tree, for a drafter: what next() has chosen.
  const TreeShape& shape() const& { return shape_; }
  const TreeShape& shape() const&& = delete;

  /// The shape of the least estimated time per token, probes apart.
  const TreeShape& best() const& { return best_; }
  const TreeShape& best() const&& = delete;

 private:
  static constexpr std::size_t most_ranks = 8;
  static constexpr Index first_choice = 8, longest_rest = 32;
  static constexpr double guess_weight = 3, margin = 0.02, cost_window = 200;

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
    static const std::array<TreeShape, 4> shapes{TreeShape::of_widths({3, 1}), TreeShape::linear(2),
                                                 TreeShape(), TreeShape::linear(4)};
    return shapes;
  }

  // Two steps of each at first, as the first of them may let a draft model catch up, which is not timed.
  const TreeShape& current() const {
    if (steps_ < first_choice) return first_shapes()[static_cast<std::size_t>(steps_ / 2)];
    return probe_steps_ > 0 ? probe_ : best_;
  }

  void learn_ranks(const TreeRecord& tree) {
    for (FadingMean& accepted : accepted_) accepted.fade(1 - 1 / options_.window);
    for (std::size_t i = 0; i < tree.offered.size(); ++i) {
      const Index rank = i < tree.ranks.size() ? tree.ranks[i] : -1;
      const Index known = std::min(static_cast<Index>(most_ranks), tree.offered[i]);
      for (Index k = 0; k < known; ++k) accepted_[static_cast<std::size_t>(k)].add(k == rank ? 1 : 0);
    }
  }

  // Ranks that have hardly been seen are taken to fall off as those before them did.
  std::vector<double> acceptance_by_rank() const {
    std::vector<double> chances{accepted_[0].with(0, 1e-9)};  // a number, even if all has faded
    double left = 1 - chances[0];
    for (std::size_t k = 1; k < most_ranks && left > 0; ++k) {
      const double elder = chances[k - 1];
      const double guess =
          k == 1 ? std::min(0.2 * left, elder / 2) : elder * std::min(1.0, elder / chances[k - 2]);
      chances.push_back(std::min(accepted_[k].with(guess, guess_weight), left));
      left -= chances.back();
      if (!(chances.back() > 0)) break;
    }
    return chances;
  }

  // ---- The best shape ---------------------------------------------------------------------------------

  struct Found {
    Index nodes = 0, depth = 0;
    double time = 0;  // per token
    bool line = true;
  };

  void choose() {
    const std::vector<double> chances = acceptance_by_rank();
    now_ = time_per_token(best_, chances);
    const Index nodes = nodes_worth_a_look(chances);
    const detail::SequoiaTable table(chances, nodes, options_.most_depth);
    Found found{0, 0, costs_(0, 0)};
    const Found drafting = best_draft(table, chances.front());
    if (drafting.time < found.time) found = drafting;
    if (found.time < (1 - margin) * now_ || best_.size() > most_) {
      best_ = shape_of(found, table);
      now_ = found.time;
    }
    plan_probe(table, drafting, chances);
  }

  // A tree that branches is not taken for a gain that may be noise.
  Found best_draft(const detail::SequoiaTable& table, double eldest) const {
    const Index nodes = table.most_nodes();
    if (nodes == 0) return {0, 0, costs_(0, 0)};
    Found line{1, 1, costs_(1, 1) / (1 + eldest)}, tree = line;
    double tokens = 1, survival = 1;
    for (Index depth = 1; depth <= std::min(options_.most_depth, nodes); ++depth) {
      tokens += survival *= eldest;
      if (const double time = costs_(depth, depth) / tokens; time < line.time) line = {depth, depth, time};
      for (Index n = depth; n <= nodes; n += std::max<Index>(1, n / 8))
        if (const double time = time_per_token(table, n, depth); time < tree.time)
          tree = {n, depth, time, false};
    }
    return tree.time < (1 - margin) * line.time ? tree : line;
  }

  static TreeShape shape_of(const Found& found, const detail::SequoiaTable& table) {
    return found.line ? TreeShape::linear(found.nodes) : table.shape(found.nodes, found.depth);
  }

  // Larger trees would not pay if of every level as many tokens were accepted as can be.
  Index nodes_worth_a_look(const std::vector<double>& chances) const {
    const double all = std::accumulate(chances.begin(), chances.end(), 0.0);
    double tokens = 1, level = 1;
    for (Index d = 0; d < options_.most_depth; ++d) tokens += level *= all;
    const double least = std::min(now_, costs_(0, 0));
    Index nodes = std::min(options_.most_nodes, most_);
    while (nodes > 1 && costs_(nodes, 1) > least * tokens) --nodes;
    return nodes;
  }

  double time_per_token(const detail::SequoiaTable& table, Index nodes, Index depth) const {
    return costs_(nodes, depth) / (1 + table.value(nodes, depth));
  }
  double time_per_token(const TreeShape& shape, const std::vector<double>& chances) const {
    return costs_(shape.size(), shape.depth()) / tokens(shape, chances);
  }

  // What a step with the shape is expected to emit.
  static double tokens(const TreeShape& shape, const std::vector<double>& chances) {
    std::vector<double> reached(static_cast<std::size_t>(shape.size()));
    double sum = 1;
    for (std::size_t k = 0; k < reached.size(); ++k) {
      const Index parent = shape.parents()[k];
      const auto rank = static_cast<std::size_t>(static_cast<Index>(k) - shape.first_child(parent));
      const double above = parent < 0 ? 1 : reached[static_cast<std::size_t>(parent)];
      sum += reached[k] = rank < chances.size() ? above * chances[rank] : 0;
    }
    return sum;
  }

  // ---- Probes -----------------------------------------------------------------------------------------

  void schedule(const StepRecord& step) {
    if (probe_steps_ > 0) {
      --probe_steps_;
      return;
    }
    budget_.earn(step);
    if (probe_ == best_ || !budget_.affords(probe_loss_)) return;
    budget_.spend();
    probe_steps_ = probe_step_count();
    ++probes_;
  }

  // After steps without a draft the first one with it may not be timed.
  Index probe_step_count() const { return best_.size() == 0 ? 2 : 1; }

  void plan_probe(const detail::SequoiaTable& table, const Found& drafting,
                  const std::vector<double>& chances) {
    const Index larger = std::min(best_.size() + std::max<Index>(1, best_.size() / 4), table.most_nodes());
    probe_ = best_.size() == 0 ? shape_of(drafting, table) : neighbour(table, larger);
    probe_ = probe_.cut({.nodes = std::min(options_.most_nodes, most_), .depth = options_.most_depth});
    if (probe_ == best_ && best_.size() > 0) probe_ = best_.cut({.nodes = best_.size() - 1});
    const double time = costs_(probe_.size(), probe_.depth()), loss = time - tokens(probe_, chances) * now_;
    // What has been measured once, by a stalled machine, is not to be shunned for good.
    probe_loss_ =
        static_cast<double>(probe_step_count()) * std::min(loss, 3 * costs_(best_.size(), best_.depth()));
  }

  // Costs that were measured in worse times are not to keep a shape out: smaller ones and lines are tried, too.
  TreeShape neighbour(const detail::SequoiaTable& table, Index larger) const {
    switch (probes_ % 5) {
      case 0:
        return table.shape(larger, options_.most_depth);
      case 1:
        return with_another_child(best_);
      case 2:
        return best_.cut({.nodes = best_.size() - 1});
      case 3:
        return TreeShape::linear(best_.depth());
      default:
        return first_shapes()[0];
    }
  }

  static TreeShape with_another_child(const TreeShape& shape) {
    std::vector<Index> parents(shape.parents().begin(), shape.parents().end());
    parents.push_back(-1);
    return TreeShape(std::span<const Index>(parents));
  }

  Options options_;
  detail::ProbeBudget budget_;
  detail::TreeCosts costs_;
  std::vector<FadingMean> accepted_;  // by rank
  TreeShape shape_, best_, probe_;
  double now_ = 0;         // seconds per token of the best
  double probe_loss_ = 0;  // seconds
  Index most_ = 0, steps_ = 0, next_choice_ = first_choice;
  Index probes_ = 0, probe_steps_ = 0;
};

}  // namespace specdec

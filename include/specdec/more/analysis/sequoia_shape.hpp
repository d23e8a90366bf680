// The tree with the most accepted tokens, where acceptance depends only on the rank of a child among its siblings.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The parents of a tree's nodes, and how many of its tokens are expected to be accepted.
struct SequoiaShape {
  /// Node k follows node parents[k], or the context where that is −1. Breadth first. For TreeShape.
  std::vector<Index> parents;
  double expected_accepted = 0;
};

/// The largest tree that is planned.
inline constexpr Index largest_sequoia = 4096;

namespace detail {

/// The largest expected number of accepted tokens below one node, by budget of nodes and by levels: T(n, d) of the paper.
class SequoiaTable {
 public:
  SequoiaTable(std::span<const double> acceptance_by_rank, Index nodes, Index depth)
      : acceptance_(
            acceptance_by_rank.first(std::min(acceptance_by_rank.size(), static_cast<std::size_t>(nodes)))),
        nodes_(static_cast<std::size_t>(nodes)),
        value_(nodes_ + 1) {
    Index levels = 0;
    while (levels < std::min(depth, nodes) && add_level()) ++levels;
  }

  double value() const { return value_.back(); }
  /// The parents of the best tree's nodes, without nodes that add nothing.
  std::vector<Index> parents() const {
    // How many nodes and levels go below the context (place 0) and below node k (place k + 1).
    std::vector<Index> budgets{static_cast<Index>(nodes_)}, depths{static_cast<Index>(levels_)}, parents;
    for (std::size_t b = 0; b < budgets.size(); ++b) {
      auto left = static_cast<std::size_t>(budgets[b]);
      const auto levels = static_cast<std::size_t>(depths[b]);
      for (std::size_t rank = 0; levels > 0 && rank < acceptance_.size(); ++rank) {
        const Index below = plans_[place(levels - 1, rank, left)] - 1;
        if (below < 0) break;
        parents.push_back(static_cast<Index>(b) - 1);
        budgets.push_back(below);
        depths.push_back(static_cast<Index>(levels) - 1);
        left -= static_cast<std::size_t>(below) + 1;
      }
    }
    return parents;
  }

 private:
  // Adds a level. False: the level makes no difference, so no further level would.
  bool add_level() {
    ++levels_;
    plans_.resize(levels_ * acceptance_.size() * (nodes_ + 1));
    std::vector<double> younger(nodes_ + 1), value(nodes_ + 1);
    for (std::size_t rank = acceptance_.size(); rank-- > 0;) {
      for (std::size_t n = 0; n <= nodes_; ++n) value[n] = best(rank, n, younger);
      std::swap(value, younger);
    }
    if (younger == value_) {
      --levels_;
      return false;
    }
    value_ = std::move(younger);
    return true;
  }

  // C(n, d, rank) of the paper: the largest value of n nodes as a child of this rank and its younger siblings. `below` nodes
  // go below the child. 0 if no such child pays.
  double best(std::size_t rank, std::size_t n, const std::vector<double>& younger) {
    double best = 0;
    for (std::size_t below = 0; below < n; ++below) {
      const double value = acceptance_[rank] * (1 + value_[below]) + younger[n - 1 - below];
      if (!(value > best)) continue;
      best = value;
      plans_[place(levels_ - 1, rank, n)] = static_cast<std::int32_t>(below + 1);
    }
    return best;
  }

  // Where the plan for a child of this rank is, if it and its younger siblings have n nodes.
  std::size_t place(std::size_t level, std::size_t rank, std::size_t n) const {
    return (level * acceptance_.size() + rank) * (nodes_ + 1) + n;
  }

  std::span<const double> acceptance_;
  std::size_t nodes_;
  std::size_t levels_ = 0;
  std::vector<double> value_;  // by budget, for levels_ levels
  // One more than how many nodes go below a child; 0: there is no such child. By levels below its node.
  std::vector<std::int32_t> plans_;
};

inline void check_sequoia(std::span<const double> acceptance_by_rank, Index nodes, Index depth) {
  if (nodes < 0 || nodes > largest_sequoia)
    invalid_argument("nodes = ", nodes, " is outside 0..", largest_sequoia);
  if (depth < 0) invalid_argument("depth = ", depth, " is negative");
  constexpr double rounding = 1e-9;
  double sum = 0;
  for (std::size_t k = 0; k < acceptance_by_rank.size(); ++k) {
    if (!(acceptance_by_rank[k] >= 0 && acceptance_by_rank[k] <= 1))
      invalid_argument("acceptance_by_rank[", k, "] = ", acceptance_by_rank[k], " is outside [0, 1]");
    sum += acceptance_by_rank[k];
  }
  if (sum > 1 + rounding)
    invalid_argument("acceptance_by_rank sums to ", sum, ", but one child is accepted at most");
}

}  // namespace detail

/// Returns the shape with the most expected accepted tokens, of at most `nodes` nodes and at most `depth` levels.
/// acceptance_by_rank[k] is the probability that the accepted child of a node is its k-th; it is equal for all nodes.
///
///   Tree{TreeShape(sequoia_shape(acceptance_by_rank, 16).parents), WithoutReplacement{}}
///
/// Source: Chen et al., "Sequoia: Scalable, Robust, and Hardware-aware Speculative Decoding" (2024), arXiv:2402.12374,
/// section 4.1. Nodes that add nothing are left out, so the tree may be smaller than `nodes`.
/// Throws: InvalidArgument where a probability is outside [0, 1], the probabilities sum to more than 1, nodes is
/// outside 0..largest_sequoia, or depth is negative.
/// Cost: time nodes² · ranks · depth / 2, memory 4 · nodes · ranks · depth bytes. Only ranks and levels that make a
/// difference count. A fraction of a second for 256 nodes: call it once.
inline SequoiaShape sequoia_shape(std::span<const double> acceptance_by_rank, Index nodes,
                                  Index depth = unlimited) {
  detail::check_sequoia(acceptance_by_rank, nodes, depth);
  const detail::SequoiaTable table(acceptance_by_rank, nodes, depth);
  return {table.parents(), table.value()};
}

}  // namespace specdec

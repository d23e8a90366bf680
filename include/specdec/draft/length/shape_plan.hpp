// A shape that a draft length considers: a trunk, and other tokens beside it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A trunk (the path of eldest children), and other tokens, none deeper than the trunk's last token. Without other tokens it
/// is a line.
struct ShapePlan {
  Index trunk = 0;
  /// Token trunk + i follows token others[i], or the context (−1). The tokens of the trunk are the first ones.
  std::vector<Index> others = {};

  Index size() const { return trunk + std::ssize(others); }

  TreeShape tree() const {
    std::vector<Index> parents(static_cast<std::size_t>(trunk));
    for (Index k = 0; k < trunk; ++k) parents[static_cast<std::size_t>(k)] = k - 1;
    detail::append(parents, others);
    return TreeShape(detail::view_of(parents));
  }

  friend bool operator==(const ShapePlan&, const ShapePlan&) = default;
};

namespace detail {

/// The largest size of a family's shapes.
/// Throws: std::invalid_argument where `nodes` is outside 1..256, or `depth` is outside 1..deepest. The message calls the
/// depth `name`.
class LargestShape {
 public:
  LargestShape(Index nodes, const char* name, Index depth, Index deepest) : nodes_(nodes), depth_(depth) {
    if (nodes < 1 || nodes > 256) invalid_argument("most_nodes = ", nodes, " is outside 1..256");
    if (depth < 1 || depth > deepest) invalid_argument(name, " = ", depth, " is outside 1..", deepest);
  }

  DraftLimits within(Index most) const {
    const Index nodes = std::min(most, nodes_);
    return {.nodes = nodes, .depth = std::min(nodes, depth_)};
  }

 private:
  Index nodes_, depth_;
};

/// Grows a plan, each time by the token that adds most. Knows how many tokens a step with the plan is expected to emit.
/// `Chances` is the Learner of a family of shapes. No allocation, except where a plan is larger than ever before.
template <class Chances>
class GrowingPlan {
 public:
  void begin(const Chances& chances, Index trunk) {
    plan_.others.clear();
    add_trunk(chances, trunk);
    open_all(chances);
  }
  void begin(const Chances& chances, const ShapePlan& plan) {
    plan_.others.clear();
    append(plan_.others, plan.others);
    add_trunk(chances, plan.trunk);
    for (const Index parent : plan_.others) add_child(chances, parent);
    open_all(chances);
  }

  const ShapePlan& plan() const { return plan_; }
  double tokens() const { return tokens_; }
  /// The expected tokens that the best further token would add; 0 if there is none.
  double gain() const { return open_.empty() ? 0 : open_.front().gain; }

  /// Adds the best further token.
  /// Pre: gain() > 0.
  void add(const Chances& chances) {
    std::pop_heap(open_.begin(), open_.end());
    const Index parent = open_.back().parent;
    open_.pop_back();
    plan_.others.push_back(parent);
    add_child(chances, parent);
    open(chances, parent);
    open(chances, plan_.size() - 1);
  }

 private:
  struct Node {
    Index depth = 0, children = 0;
    double reached = 1;
  };
  // A token that may be added, after `parent`.
  struct Open {
    double gain = 0;
    Index parent = 0;
    friend auto operator<=>(const Open&, const Open&) = default;
  };

  Node& node(Index k) { return nodes_[static_cast<std::size_t>(k + 1)]; }

  void add_trunk(const Chances& chances, Index trunk) {
    plan_.trunk = trunk;
    nodes_.assign(1, Node{});
    tokens_ = 1;
    for (Index k = 0; k < trunk; ++k) add_child(chances, k - 1);
  }

  double next_child(const Chances& chances, Index parent) {
    const Node& above = node(parent);
    return chances.reached(above.reached, above.depth, above.children, parent < plan_.trunk);
  }

  void add_child(const Chances& chances, Index parent) {
    const double reached = next_child(chances, parent);
    ++node(parent).children;
    nodes_.push_back({node(parent).depth + 1, 0, reached});
    tokens_ += reached;
  }

  void open_all(const Chances& chances) {
    open_.clear();
    if constexpr (Chances::branches)
      for (Index k = -1; k < plan_.size(); ++k) open(chances, k);
  }
  // From now on the parent's next child may be added.
  void open(const Chances& chances, Index parent) {
    if (node(parent).depth >= plan_.trunk) return;
    const double gain = next_child(chances, parent);
    if (!(gain > 0)) return;
    open_.push_back({gain, parent});
    std::push_heap(open_.begin(), open_.end());
  }

  ShapePlan plan_;
  std::vector<Node> nodes_;  // the context first
  std::vector<Open> open_;   // a heap
  double tokens_ = 1;
};

}  // namespace detail
}  // namespace specdec

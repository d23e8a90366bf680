// The shape of a drafted tree that is known before anything is drawn.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {

/// The shape of a tree: each node's parent, with nodes numbered breadth first. So the nodes of a level have consecutive
/// numbers, and so have the children of a node; the first n nodes are a tree for every n.
///
///   TreeShape::of_widths({4, 2, 1})    4 tokens after the context, 2 after each of them, 1 after each of these
///   TreeShape::linear(5)               no branches
///   TreeShape{-1, -1, 0, 0, 1}         by hand: node k follows node parents[k], or the context
///
/// Throws: InvalidArgument where parents[k] is outside −1..k−1, a width is below 1, a size is negative, or the tree is
/// larger than longest_draft.
class TreeShape {
 public:
  /// Has no node.
  TreeShape() : TreeShape(std::span<const Index>()) {}

  /// By hand. Nodes in another order are renumbered breadth first; siblings keep their order.
  explicit TreeShape(std::span<const Index> parents) {
    detail::check_drafted("the number of nodes", std::ssize(parents));
    for (Index k = 0; k < std::ssize(parents); ++k) detail::check_parent(k, detail::at(parents, k));
    number(parents);
  }
  TreeShape(std::initializer_list<Index> parents)
      : TreeShape(std::span<const Index>(parents.begin(), parents.size())) {}

  /// A move copies, so that a drafter that was moved from still has a valid shape.
  TreeShape(const TreeShape&) = default;
  TreeShape& operator=(const TreeShape&) = default;
  ~TreeShape() = default;

  /// widths[d] children after each node of depth d. The context has depth 0.
  static TreeShape of_widths(std::span<const Index> widths) {
    std::vector<Index> parents;
    Index from = -1, to = 0;  // the level above
    for (std::size_t d = 0; d < widths.size(); ++d) {
      const Index width = widths[d];
      if (width < 1) detail::invalid_argument("widths[", d, "] = ", width, " is not positive");
      if (width > (longest_draft - std::ssize(parents)) / (to - from))
        detail::invalid_argument("widths[", d, "] = ", width, " makes a tree of more than ", longest_draft,
                                 " tokens, the longest draft");
      for (Index node = from; node < to; ++node)
        for (Index child = 0; child < width; ++child) parents.push_back(node);
      from = to;
      to = std::ssize(parents);
    }
    return TreeShape(detail::view_of(parents));
  }
  static TreeShape of_widths(std::initializer_list<Index> widths) {
    return of_widths(std::span<const Index>(widths.begin(), widths.size()));
  }

  static TreeShape linear(Index size) {
    detail::check_drafted("size", size);
    std::vector<Index> parents;
    detail::make_line(parents, size);
    return TreeShape(detail::view_of(parents));
  }

  Index size() const { return std::ssize(parents_); }
  /// The length of the longest path.
  Index depth() const {
    Index depth = 0;
    for (Index end = 0; end < size(); end = first_child(end)) ++depth;
    return depth;
  }
  std::span<const Index> parents() const& { return detail::view_of(parents_); }
  std::span<const Index> parents() const&& = delete;

  // In the next two functions k is a node, or −1 for the context.

  Index children(Index k) const { return first_child(k + 1) - first_child(k); }
  /// The number of the node's first child; the others follow. Without children: the number that the first would have.
  Index first_child(Index k) const {
    return std::lower_bound(parents_.begin(), parents_.end(), k) - parents_.begin();
  }

  /// How many nodes are within the limits. They are the first nodes.
  Index size_within(const DraftLimits& limits) const {
    Index end = 0;  // of a level: the next level ends with the first child of the node there
    for (Index d = 0; d < limits.depth && end < size(); ++d) end = first_child(end);
    return std::clamp<Index>(limits.nodes, 0, end);
  }

  friend bool operator==(const TreeShape&, const TreeShape&) = default;

 private:
  // Renumbers the nodes by ascending number of their parent: the context's children, then the first child's, and so on.
  void number(std::span<const Index> parents) {
    const TokenTreeView tree(parents);
    std::vector<Index> first(parents.size() + 1), next(parents.size());
    detail::link_children(tree, tree.size(), first.data(), next.data(), [](Index) { return true; });

    std::vector<Index> given;  // the given numbers, in the order of the new ones
    const auto append_children = [&](Index node, Index new_number) {
      for (Index k = detail::at(first, node + 1); k >= 0; k = detail::at(next, k)) {
        given.push_back(k);
        parents_.push_back(new_number);
      }
    };
    given.reserve(parents.size());
    append_children(-1, -1);
    for (std::size_t k = 0; k < given.size(); ++k) append_children(given[k], static_cast<Index>(k));
  }

  std::vector<Index> parents_;  // ascending
};

}  // namespace specdec

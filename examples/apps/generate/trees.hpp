// The kinds of draft trees that can be chosen, and their shapes.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <string_view>
#include <utility>

#include "generate/any_drafter.hpp"
#include "generate/drafters.hpp"
#include "generate/pair.hpp"
#include "generate/sampled.hpp"
#include "generate/tree_rules.hpp"
#include "generate/tree_shapes.hpp"

namespace generate {

template <class Strategy>
using RowsBy = RowsOf<specdec::ModelDrafter<SampledModel, Strategy>>;

using TreeDrafter =
    AnyDrafter<true, RowsBy<specdec::Tree<specdec::Likeliest>>, RowsBy<specdec::Tree<specdec::Independent>>,
               RowsBy<specdec::Tree<specdec::WithoutReplacement>>,
               RowsBy<specdec::Tree<specdec::DrawnThenLikeliest>>, RowsBy<specdec::Spares>,
               specdec::OneHotRows>;

// ---- Kinds ------------------------------------------------------------------------------------------

/// What sets the size of a tree: the widths of its levels, or its number of tokens.
enum class Size { widths, nodes };

struct Tree;

/// A kind of trees that can be chosen.
struct TreeKind {
  std::string_view option;  ///< its name for --tree
  std::string_view title;
  Siblings siblings;
  Size size;
  /// At temperature 0 the likeliest tokens are drafted.
  std::unique_ptr<TreeDrafter> (*make)(Model& draft, const Tree&, double temperature);
};

/// The largest tree that a step drafts.
struct Tree {
  const TreeKind* kind;
  Index nodes;               ///< the number of tokens
  Index depth;               ///< the number of levels, and of sequential calls of the draft model
  specdec::TreeShape shape;  ///< unused if the tree takes its shape as it grows
};

extern const std::array<TreeKind, 8> tree_kinds;

inline const TreeKind& tree_kind_named(std::string_view option) {
  return *std::ranges::find(tree_kinds, option, &TreeKind::option);
}

inline Tree tree_of(const TreeKind& kind, specdec::TreeShape shape) {
  return {&kind, shape.size(), shape.depth(), std::move(shape)};
}

inline Tree tree_of(const TreeKind& kind, const Widths& widths) {
  return tree_of(kind, kind.siblings == Siblings::trunk ? trunk_shape(widths) : full_shape(widths));
}

/// A tree of a kind that takes its shape as it grows.
inline Tree tree_of(const TreeKind& kind, Index nodes, Index depth) { return {&kind, nodes, depth, {}}; }

/// The largest tree that may grow by its rows: `depth` levels and 64 nodes, which should be enough for any machine. The shape
/// is for trees that get fewer children by their rows.
inline Tree largest_tree(const TreeKind& kind, Index depth) {
  constexpr Index nodes = 64;
  return {&kind, nodes, depth, kind.size == Size::widths ? usual_shape(depth, nodes) : specdec::TreeShape()};
}

/// The default tree of `depth` levels.
inline Tree usual_tree(const TreeKind& kind, Index depth) {
  if (kind.size == Size::nodes) return tree_of(kind, usual_nodes, depth);
  return tree_of(kind, kind.siblings == Siblings::trunk ? usual_trunk(depth) : usual_shape(depth));
}

}  // namespace generate

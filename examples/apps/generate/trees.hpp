// The kinds of draft trees that can be chosen, and their shapes.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <specdec/more/drafters.hpp>
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

template <class D>
std::unique_ptr<TreeDrafter> erased_tree(D drafter) {
  return erased_as<TreeDrafter>(std::move(drafter));
}

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

/// The model whose likeliest tokens a tree takes.
inline auto choosing_model(Model& model, double temperature) {
  return sampled(model, choosing_temperature(temperature));
}

inline std::unique_ptr<TreeDrafter> likeliest_drafter(Model& draft, const Tree& tree, double temperature) {
  return erased_tree(
      specdec::ModelDrafter{choosing_model(draft, temperature),
                            specdec::Tree{specdec::TreeShape(tree.shape), specdec::Likeliest{}}});
}

/// A drafter that learns from the text. It uses no draft model and no temperature.
template <class D>
std::unique_ptr<TreeDrafter> text_drafter(Model&, const Tree&, double) {
  return erased_tree(D{});
}

inline constexpr std::array<TreeKind, 8> tree_kinds{{
    {"spares", "spares", Siblings::trunk, Size::widths,
     [](Model& draft, const Tree& tree, double temperature) {
       if (temperature == 0) return likeliest_drafter(draft, tree, 0);
       return erased_tree(specdec::ModelDrafter{sampled(draft, temperature),
                                                specdec::Spares{tree.depth, spares_of(tree.shape)}});
     }},
    {"without-replacement", "no repeats", Siblings::drawn, Size::widths,
     [](Model& draft, const Tree& tree, double temperature) {
       return erased_tree(specdec::ModelDrafter{
           sampled(draft, temperature),
           specdec::Tree{specdec::TreeShape(tree.shape), specdec::WithoutReplacement{}}});
     }},
    {"drawn-first", "drawn first", Siblings::drawn, Size::widths,
     [](Model& draft, const Tree& tree, double temperature) {
       return erased_tree(specdec::ModelDrafter{
           sampled(draft, temperature),
           specdec::Tree{specdec::TreeShape(tree.shape), specdec::DrawnThenLikeliest{}}});
     }},
    {"independent", "independent", Siblings::drawn, Size::widths,
     [](Model& draft, const Tree& tree, double temperature) {
       return erased_tree(
           specdec::ModelDrafter{sampled(draft, temperature),
                                 specdec::Tree{specdec::TreeShape(tree.shape), specdec::Independent{}}});
     }},
    {"likeliest", "likeliest", Siblings::chosen, Size::widths, likeliest_drafter},
    {"confident", "confident", Siblings::chosen, Size::nodes,
     [](Model& draft, const Tree& tree, double temperature) {
       const specdec::ConfidentTree wanted{.width = 8, .depth = tree.depth, .nodes = tree.nodes};
       return erased_tree(specdec::ModelDrafter{choosing_model(draft, temperature), wanted});
     }},
    {"drawn-confident", "drawn confident", Siblings::drawn, Size::nodes,
     [](Model& draft, const Tree& tree, double temperature) {
       const Index width = std::max<Index>(tree.nodes / std::max<Index>(tree.depth, 1), 1);
       return erased_tree(specdec::ModelDrafter{
           sampled(draft, temperature), specdec::DrawnConfidentTree{.width = width, .depth = tree.depth}});
     }},
    {"suffix", "suffix automaton", Siblings::chosen, Size::nodes,
     text_drafter<specdec::SuffixDrafter<specdec::Branching>>},
}};

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

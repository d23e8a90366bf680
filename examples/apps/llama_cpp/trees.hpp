// The trees that generate_gguf drafts: their kinds, with the names that `generate` uses, and the room they need.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <utility>

#include "../generate/tree_rules.hpp"
#include "../generate/tree_shapes.hpp"

namespace gguf {

using generate::Siblings;
using specdec::Index;

/// A kind of trees that can be chosen.
struct TreeKind {
  std::string_view option;  ///< its name for --tree
  Siblings siblings;
  bool by_model;  ///< whether the draft model drafts it; otherwise it is looked up in the text
};

inline constexpr std::array<TreeKind, 6> tree_kinds{{{"spares", Siblings::trunk, true},
                                                     {"without-replacement", Siblings::drawn, true},
                                                     {"independent", Siblings::drawn, true},
                                                     {"likeliest", Siblings::chosen, true},
                                                     {"confident", Siblings::chosen, true},
                                                     {"suffix", Siblings::chosen, false}}};

inline const TreeKind& tree_kind_named(std::string_view option) {
  return *std::ranges::find(tree_kinds, option, &TreeKind::option);
}

/// The room that a model needs for a tree.
struct Room {
  Index tokens = 0;  ///< after its context
  Index leaves = 1;
};

/// The room for the nodes that have children.
inline Room room_of_parents(const specdec::TreeShape& shape) {
  Room room{0, 0};
  for (Index node = 0; node < shape.size(); ++node) {
    if (shape.children(node) == 0) continue;
    ++room.tokens;
    const Index first = shape.first_child(node), last = first + shape.children(node);
    Index parents = 0;
    for (Index child = first; child < last; ++child) parents += shape.children(child) > 0;
    room.leaves += parents == 0;
  }
  room.leaves = std::max<Index>(room.leaves, 1);
  return room;
}

inline Room room_of(const specdec::TreeShape& shape) {
  Room room{shape.size(), 0};
  for (Index node = 0; node < shape.size(); ++node) room.leaves += shape.children(node) == 0;
  return room;
}

/// Drafts a tree of at most `depth` levels by looking up the context in the earlier text.
class FromText {
 public:
  explicit FromText(Index depth) : depth_(depth) {}

  template <specdec::RandomSource Source>
  auto draft(std::span<const specdec::Token> context, specdec::DraftLimits limits, Source& source) {
    limits.depth = std::min(limits.depth, depth_);
    return drafter_.draft(context, limits, source);
  }
  void truncate(Index length) { drafter_.truncate(length); }

 private:
  Index depth_;
  specdec::SuffixDrafter<specdec::Branching> drafter_;
};

/// The largest tree that a step drafts, of `depth` levels.
class Tree {
 public:
  Tree(const TreeKind& kind, Index depth) : kind_(&kind), depth_(depth) {
    if (kind.siblings == Siblings::trunk) shape_ = generate::usual_trunk(depth);
    else if (has_shape()) shape_ = generate::usual_shape(depth);
  }

  const TreeKind& kind() const { return *kind_; }
  bool is(std::string_view option) const { return kind_->option == option; }
  Index depth() const { return depth_; }
  Index nodes() const { return has_shape() ? shape_.size() : std::max(generate::usual_nodes, depth_); }
  /// Unused if the tree takes its shape as it grows.
  const specdec::TreeShape& shape() const { return shape_; }
  specdec::ConfidentTree confident() const { return {.width = 8, .depth = depth_, .nodes = nodes()}; }

  Room of_target() const {
    if (has_shape()) return room_of(shape_);
    return {nodes(), nodes()};
  }
  /// The draft model is fed every node that gets children; in a confident tree, every node that might get children.
  Room of_draft() const {
    if (has_shape()) return room_of_parents(shape_);
    const Index most = confident().width * (depth_ - 1);
    return {most, std::max<Index>(most, 1)};
  }

 private:
  bool has_shape() const { return !is("confident") && kind_->by_model; }

  const TreeKind* kind_;
  Index depth_;
  specdec::TreeShape shape_;
};

/// Calls f with the drafter of a tree by a draft model. `drawing` is the model with the rows to draw from, `choosing` with
/// the rows to take the likeliest tokens from. The rows differ if `drawing` has only one token in a row.
template <class Model, class F>
auto with_model_drafter(const Tree& tree, Model drawing, Model choosing, bool draws, F&& f) {
  if (tree.is("confident")) return f(specdec::ModelDrafter{std::move(choosing), tree.confident()});
  if (tree.is("likeliest") || !draws)
    return f(specdec::ModelDrafter{std::move(choosing), specdec::Tree{tree.shape(), specdec::Likeliest{}}});
  if (tree.is("spares"))
    return f(specdec::ModelDrafter{std::move(drawing),
                                   specdec::Spares{tree.depth(), generate::spares_of(tree.shape())}});
  if (tree.is("independent"))
    return f(specdec::ModelDrafter{std::move(drawing), specdec::Tree{tree.shape(), specdec::Independent{}}});
  return f(
      specdec::ModelDrafter{std::move(drawing), specdec::Tree{tree.shape(), specdec::WithoutReplacement{}}});
}

}  // namespace gguf

// Trees of a given shape.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/strategies/rated_children.hpp"
#include "specdec/draft/strategies/siblings.hpp"
#include "specdec/draft/strategies/strategy.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// How many of the shape's first nodes are within the limits, where the model has room for `inner` tokens of a tree. The model
/// takes in only the nodes with children. Negative `inner`: there is no room even for the context.
inline Index nodes_with_room(const TreeShape& shape, const DraftLimits& limits, Index inner) {
  if (inner < 0) return 0;
  const Index size = std::clamp<Index>(limits.nodes, 0, shape.size_within({.depth = limits.depth}));
  for (Index k = 0, fed = -1; k < size; ++k) {
    const Index parent = shape.parents()[static_cast<std::size_t>(k)];
    if (parent == fed) continue;
    fed = parent;
    if (inner-- < 1) return k;
  }
  return size;
}

}  // namespace detail

/// Drafts trees of a given shape, one level after the other.
///
///   ModelDrafter drafter{small, Tree{TreeShape::of_widths({4, 2, 1}), WithoutReplacement{}}};
///
/// Siblings are drawn (Independent, WithoutReplacement) or chosen (Likeliest). Limits keep the first nodes of the shape.
/// If a row has too few tokens, its node has fewer children than in the shape, and none if no token has a positive
/// probability. A stop token has no children (DraftLimits::ends_at). Near the end of a bounded context fewer nodes get
/// children: see ModelDrafter.
/// Where siblings are drawn, a draft length that rates draws (EarlyStoppingLength, or one of your own: DraftLength) chooses,
/// level by level, how many of the shape's children each node gets, and whether there is another level: before they are drawn,
/// by the rows so far. Then the limits are numbers of drawn tokens and levels, and the shape may be larger.
/// Source: SpecInfer, arXiv:2305.09781 (trees of drafts); Jeon et al., arXiv:2402.14160, and Chen et al.,
/// arXiv:2402.12374 (siblings without replacement).
/// Random: one draw per drawn token, by ascending number.
/// Cost: one model call for each level of the tree. The first call takes in the context, each other call all nodes of a
/// level that have children. Where a draft length rates draws, also an argmax of each row.
template <class Siblings>
class Tree {
 public:
  static constexpr bool drafts_trees = true, branches = true;

  Tree(const TreeShape& shape, Siblings siblings) : shape_(shape), siblings_(std::move(siblings)) {}

  const TreeShape& shape() const& { return shape_; }
  const TreeShape& shape() const&& = delete;

  template <class Q, bool stable>
  class Growth;

 private:
  TreeShape shape_;
  Siblings siblings_;
};

/// Grows level by level: the model takes in the tokens of a level, and their children come from the rows after them.
template <class Siblings>
template <class Q, bool stable>
class Tree<Siblings>::Growth {
  using Rows = StoredRows<Q, stable>;
  using Row = typename Siblings::template Row<typename Rows::Stored>;

 public:
  void begin(Tree& strategy, const DraftLimits& limits, Index room) {
    strategy_ = &strategy;
    limits_ = limits;
    room_ = room;
    most_ = detail::nodes_with_room(shape(), limits, room);
    tree_.clear();
    rows_.clear();
    places_.clear();
    numbers_.clear();
    rated_.clear();
    after_.clear();
    fed_.clear();
    levels_ = fed_before_ = 0;
    // Rows of siblings may be views of its tokens.
    tree_.reserve(static_cast<std::size_t>(std::clamp<Index>(limits.nodes, 0, shape().size())));
    level_.clear();
    if (most_ > 0) level_.push_back(-1);
  }
  void end() { level_.clear(); }

  bool next() const { return !level_.empty(); }
  DraftWish wish() const {
    const auto before = static_cast<std::size_t>(fed_before_);
    return {.tokens = fed_.tokens().subspan(before), .parents = fed_.parents().subspan(before)};
  }

  /// Adds the children of the level, and moves on to those of them that are to have children.
  template <class Output, class C, class KeepDrafting>
  void take(const Output& output, C& chance, const KeepDrafting& keep_drafting) {
    const Index first = after_.size(), next = tree_.size();
    for (Index i = 0; i < std::ssize(level_); ++i) after_.add(output.row(i));
    ++levels_;
    if (!grow_rated(output, keep_drafting, first, next, chance)) grow_shape(first, next, chance);
    list_level();
  }

  Draft<RowSpan<Row>> draft(Index vocab_size) const {
    return {tree_.tokens(), RowSpan<Row>(rows_, vocab_size), tree_.parents()};
  }

 private:
  const TreeShape& shape() const { return strategy_->shape(); }

  // The node's number in the shape; −1 for the context.
  Index place(Index k) const { return k < 0 ? -1 : places_[static_cast<std::size_t>(k)]; }

  // How many children node k may have, by the shape.
  Index children(Index k) const { return shape().children(place(k)); }

  template <class C>
  void grow_shape(Index first, Index next, C& chance) {
    const auto wanted = [this](Index k) {  // as far as there is room
      return children(k) > 0 ? std::min(most_ - shape().first_child(place(k)), children(k)) : 0;
    };
    for (std::size_t i = 0; i < level_.size(); ++i)
      grow(level_[i], wanted(level_[i]), after_[first + static_cast<Index>(i)], chance);
    level_.clear();
    for (Index k = next; k < tree_.size(); ++k)
      if (!ends_at(k) && wanted(k) > 0) level_.push_back(k);
  }

  // If the draft length rates draws.
  template <class Output, class KeepDrafting, class C>
  bool grow_rated([[maybe_unused]] const Output& output, [[maybe_unused]] const KeepDrafting& keep_drafting,
                  [[maybe_unused]] Index first, [[maybe_unused]] Index next, [[maybe_unused]] C& chance) {
    constexpr bool drawn = !std::same_as<Row, OneHotRow>;
    if constexpr (drawn && requires { keep_drafting.rates(); }) {
      if (!keep_drafting.rates()) return false;
      grow_level(output, keep_drafting, first, chance);
      choose_level(keep_drafting, next);
      return true;
    } else {
      return false;
    }
  }

  template <class Output, class KeepDrafting, class C>
  void grow_level(const Output& output, const KeepDrafting& keep_drafting, Index first, C& chance) {
    rated_.begin_level();
    // The model's own rows: a copy may not know what it was before hooks.
    for (std::size_t i = 0; i < level_.size(); ++i)
      if (ends_at(after_[first + static_cast<Index>(i)])) rated_.leave_out();
      else rated_.consider(keep_drafting, level_[i], output.row(static_cast<Index>(i)), children(level_[i]));
    rated_.choose(keep_drafting, limits_.nodes, levels_);
    for (std::size_t i = 0; i < level_.size(); ++i) {
      const Index node = static_cast<Index>(i), before = tree_.size();
      grow(level_[i], rated_.chosen(node), after_[first + node], chance);
      rated_.add(keep_drafting, node, tree_.size() - before);
    }
  }

  template <class KeepDrafting>
  void choose_level(const KeepDrafting& keep_drafting, Index next) {
    level_.clear();
    if (levels_ == limits_.depth || tree_.size() == limits_.nodes) return;
    for (Index k = next; k < tree_.size(); ++k)
      if (!ends_at(k) && children(k) > 0 && std::ssize(level_) < room_ - fed_.size()) level_.push_back(k);
    rated_.choose_leaves(keep_drafting, level_, limits_.nodes, levels_);
  }

  // What the model takes in for the level.
  void list_level() {
    fed_before_ = fed_.size();
    for (const Index k : level_) {
      const Index parent = tree_.parent(k);
      numbers_[static_cast<std::size_t>(k)] =
          fed_.append(tree_.token(k), parent < 0 ? -1 : numbers_[static_cast<std::size_t>(parent)]);
    }
  }

  // Whether a path ends with node k of the level that was drawn last.
  bool ends_at(Index k) const { return limits_.ends_at(tree_.token(k), levels_ - 1); }
  // Whether a node has no children because its row is a dead end.
  bool ends_at(const typename Rows::Stored& q) const {
    return detail::is_dead_end(detail::NamedRow(q, "draft", tree_.size()));
  }

  // Adds up to `count` children of node k; q is the row after the node.
  template <class C>
  void grow(Index k, Index count, const typename Rows::Stored& q, C& chance) {
    if (count < 1 || ends_at(q)) return;
    strategy_->siblings_.grow(q, count, k, chance, tree_, rows_);
    const Index child = shape().first_child(place(k));
    for (Index i = 0; std::ssize(places_) < tree_.size(); ++i) {
      places_.push_back(child + i);
      numbers_.push_back(-1);
    }
  }

  Tree* strategy_ = nullptr;
  DraftLimits limits_;
  Index room_ = 0;  // for drafted tokens in the model
  Index most_ = 0;  // nodes of the shape that there is room for
  TokenTree tree_;
  std::vector<Row> rows_;
  std::vector<Index> places_;    // each token's number in the shape
  std::vector<Index> numbers_;   // each token's number in fed_; −1: it is not there
  Rows after_;                   // the rows after the context and the tokens that have children
  Index levels_ = 0;             // how many levels there are
  std::vector<Index> level_;     // the nodes whose children come next
  TokenTree fed_;                // what the model takes in of the tree
  Index fed_before_ = 0;         // how many of these tokens it took in before the level
  detail::RatedChildren rated_;  // for a draft length that rates draws
};

}  // namespace specdec

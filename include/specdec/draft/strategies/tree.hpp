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
#include "specdec/lists.hpp"
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
/// Siblings are drawn (Independent, WithoutReplacement), chosen (Likeliest), or one is drawn and the others are chosen
/// (DrawnThenLikeliest: at temperatures from 0.3 to 0.8 most are accepted). Limits keep the first nodes of the shape. If a row has
/// too few tokens, its node has fewer children than in the shape, and none if no token has a positive probability. A stop token has
/// no children (DraftLimits::ends_at). Near the end of a bounded context fewer nodes get children: see ModelDrafter.
/// Where siblings are drawn, a draft length that rates draws (EarlyStoppingLength, or one of your own: DraftLength) chooses,
/// level by level, how many of the shape's children each node gets, and whether there is another level: before they are drawn, by
/// the rows so far. Then the limits are numbers of drawn tokens and levels, and the shape may be larger.
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
    detail::clear(tree_, rows_, places_, nodes_, fed_, after_, rated_);
    levels_ = 0;
    // Rows of siblings may be views of its tokens.
    tree_.reserve(static_cast<std::size_t>(std::clamp<Index>(limits.nodes, 0, shape().size())));
    if (most_ > 0) nodes_.push_back(-1);
  }
  void end() { detail::resize(nodes_, after_.size()); }

  bool next() const { return std::ssize(nodes_) > after_.size(); }
  DraftWish wish() const {
    const Index before = std::max<Index>(after_.size() - 1, 0);
    return {.tokens = detail::after(fed_.tokens(), before), .parents = detail::after(fed_.parents(), before)};
  }

  /// Adds the children of the level, and moves on to those of them that are to have children.
  template <class Output, class C, class KeepDrafting>
  void take(const Output& output, C& chance, const KeepDrafting& keep_drafting) {
    const Index first = after_.size(), next = tree_.size();
    for (Index i = first; i < std::ssize(nodes_); ++i) after_.add(output.row(i - first));
    ++levels_;
    constexpr bool drawn = !std::same_as<Row, OneHotRow>;
    if constexpr (drawn && requires { keep_drafting.rates(); })
      if (keep_drafting.rates()) {
        grow_level(output, keep_drafting, first, chance);
        return choose_level(keep_drafting, next);
      }
    grow_shape(first, next, chance);
  }

  Draft<RowSpan<Row>> draft(Index vocab_size) const {
    return {tree_.tokens(), RowSpan<Row>(rows_, vocab_size), tree_.parents()};
  }

 private:
  const TreeShape& shape() const { return strategy_->shape_; }

  // The node's number in the shape; −1 for the context.
  Index place(Index k) const { return k < 0 ? -1 : detail::at(places_, k); }

  // How many children node k may have, by the shape.
  Index children(Index k) const { return shape().children(place(k)); }

  template <class C>
  void grow_shape(Index first, Index next, C& chance) {
    const auto wanted = [this](Index k) {  // as far as there is room
      return children(k) > 0 ? std::min(most_ - shape().first_child(place(k)), children(k)) : 0;
    };
    for (Index i = first; i < after_.size(); ++i) grow(i, wanted(detail::at(nodes_, i)), chance);
    for (Index k = next; k < tree_.size(); ++k)
      if (!ends_at(k) && wanted(k) > 0) feed(k);
  }

  // If the draft length rates draws, as the next function.
  template <class Output, class KeepDrafting, class C>
  void grow_level(const Output& output, const KeepDrafting& keep_drafting, Index first, C& chance) {
    rated_.begin_level();
    // The model's own rows: a copy may not know what it was before hooks.
    for (Index i = first; i < after_.size(); ++i) {
      const Index k = detail::at(nodes_, i);
      if (ends_at(after_[i])) rated_.leave_out();
      else rated_.consider(keep_drafting, k, output.row(i - first), children(k));
    }
    rated_.choose(keep_drafting, limits_.nodes, levels_);
    for (Index i = first; i < after_.size(); ++i) {
      const Index before = tree_.size();
      grow(i, rated_.chosen(i - first), chance);
      rated_.add(keep_drafting, i - first, tree_.size() - before);
    }
  }

  template <class KeepDrafting>
  void choose_level(const KeepDrafting& keep_drafting, Index next) {
    if (levels_ == limits_.depth || tree_.size() == limits_.nodes) return;
    Index room = room_ - fed_.size();
    for (Index k = next; k < tree_.size(); ++k)
      if (!ends_at(k) && children(k) > 0 && room-- > 0) rated_.add_leaf(k);
    for (const Index k : rated_.choose_leaves(keep_drafting, limits_.nodes, levels_)) feed(k);
  }

  // Node k is to have children: the model takes it in next.
  void feed(Index k) {
    const auto parent = std::lower_bound(nodes_.begin(), nodes_.end(), tree_.parent(k));
    fed_.append(tree_.token(k), parent - nodes_.begin() - 1);
    nodes_.push_back(k);
  }

  // Whether a path ends with node k of the level that was drawn last.
  bool ends_at(Index k) const { return limits_.ends_at(tree_.token(k), levels_ - 1); }
  // Whether a node has no children because its row is a dead end.
  bool ends_at(const typename Rows::Stored& q) const {
    return detail::is_dead_end(detail::NamedRow(q, "draft", tree_.size()));
  }

  // Adds up to `count` children of node nodes_[i].
  template <class C>
  void grow(Index i, Index count, C& chance) {
    if (count < 1 || ends_at(after_[i])) return;
    const Index k = detail::at(nodes_, i);
    strategy_->siblings_.grow(after_[i], count, k, chance, tree_, rows_);
    for (Index child = shape().first_child(place(k)); std::ssize(places_) < tree_.size(); ++child)
      places_.push_back(child);
  }

  Tree* strategy_ = nullptr;
  DraftLimits limits_;
  Index room_ = 0;  // for drafted tokens in the model
  Index most_ = 0;  // nodes of the shape that there is room for
  TokenTree tree_;
  std::vector<Row> rows_;
  std::vector<Index> places_;  // each token's number in the shape
  std::vector<Index> nodes_;   // the context, and the tokens that have children, or whose children come next
  TokenTree fed_;              // these tokens, as the model takes them in
  Rows after_;                 // the row after each of nodes_, as far as the model took them in
  Index levels_ = 0;           // how many levels there are
  detail::RatedChildren rated_;  // for a draft length that rates draws
};

}  // namespace specdec

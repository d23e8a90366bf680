// Trees of a given shape.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "specdec/draft/drafter.hpp"
#include "specdec/draft/strategies/siblings.hpp"
#include "specdec/draft/strategies/strategy.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// How many nodes of the shape fit, where the model has room for `inner` tokens of a tree. The model takes in only the nodes
/// with children. Negative `inner`: there is no room even for the context.
inline Index nodes_with_room(const TreeShape& shape, const DraftLimits& limits, Index inner) {
  const Index size = shape.size_within(limits);
  if (inner < 0) return 0;
  Index cached = 0, last = -1;
  for (Index k = 0; k < size; ++k) {
    const Index parent = shape.parents()[static_cast<std::size_t>(k)];
    if (parent == last) continue;
    if (cached == inner) return k;
    ++cached;
    last = parent;
  }
  return size;
}

}  // namespace detail

/// Drafts trees of a given shape, one level after the other.
///
///   ModelDrafter drafter{small, Tree{TreeShape::of_widths({4, 2, 1}), WithoutReplacement{}}};
///
/// Siblings are drawn (Independent, WithoutReplacement) or chosen (Likeliest). Limits keep the first nodes of the shape. To
/// let a draft length choose the shape (CostOptimalLength with TreeShapes), pass std::cref(policy). If a row has too few
/// tokens, its node has fewer children than in the shape. Near the end of a bounded context fewer nodes get children: see
/// ModelDrafter.
/// Source: SpecInfer, arXiv:2305.09781 (trees of drafts); Jeon et al., arXiv:2402.14160, and Chen et al.,
/// arXiv:2402.12374 (siblings without replacement).
/// Random: one draw per drawn token, by ascending number.
/// Cost: one model call for each level of the tree. The first call takes in the context, each other call all nodes of a
/// level that have children.
template <class Siblings, class Shape = TreeShape>
class Tree {
 public:
  static constexpr bool drafts_trees = true, branches = true;

  Tree(Shape shape, Siblings siblings) : shape_(std::move(shape)), siblings_(std::move(siblings)) {}

  /// The given shape, or the policy's present shape.
  const TreeShape& shape() const& {
    if constexpr (std::same_as<Shape, TreeShape>) return shape_;
    else return shape_.get().shape();
  }
  const TreeShape& shape() const&& = delete;

  template <Distribution Q, bool stable>
  class Growth;

 private:
  Shape shape_;
  Siblings siblings_;
};

template <class Siblings>
Tree(TreeShape, Siblings) -> Tree<Siblings>;
template <class Policy, class Siblings>
Tree(std::reference_wrapper<Policy>, Siblings) -> Tree<Siblings, std::reference_wrapper<Policy>>;

/// Grows level by level: the model takes in the tokens of a level, and their children come from the rows after them.
template <class Siblings, class Shape>
template <Distribution Q, bool stable>
class Tree<Siblings, Shape>::Growth {
  using Rows = StoredRows<Q, stable>;
  using Row = typename Siblings::template Row<typename Rows::Stored>;

 public:
  void begin(Tree& strategy, const DraftLimits& limits, Index room) {
    strategy_ = &strategy;
    most_ = detail::nodes_with_room(shape(), limits, room);
    tokens_.clear();
    rows_.clear();
    parents_.clear();
    places_.clear();
    numbers_.clear();
    after_.clear();
    next_ = -1;
    cached_ = 0;
    tokens_.reserve(static_cast<std::size_t>(most_));  // rows of siblings may be views of tokens_
  }
  void end() { most_ = 0; }

  /// Moves on to the nodes of the next level that are to have children.
  bool next() {
    level_.clear();
    level_tokens_.clear();
    level_parents_.clear();
    if (most_ < 1) return false;
    const Index end = std::ssize(tokens_);
    for (Index k = next_; k < end; ++k)
      if (children(place(k)) > 0) add_to_level(k);
    next_ = end;
    return !level_.empty();
  }
  DraftWish wish() const {
    return {.tokens = detail::view_of(level_tokens_), .parents = detail::view_of(level_parents_)};
  }

  /// The children of the level.
  template <class Output, class C, class KeepDrafting>
  void take(const Output& output, C& chance, const KeepDrafting&) {
    const Index first = after_.size(), size = std::ssize(level_);
    for (Index i = 0; i < size; ++i) after_.add(output.row(i));
    for (std::size_t i = 0; i < level_.size(); ++i) {
      if (level_[i] >= 0) numbers_[static_cast<std::size_t>(level_[i])] = cached_++;
      grow(level_[i], after_[first + static_cast<Index>(i)], chance);
    }
  }

  Draft<RowSpan<Row>> draft(Index vocab_size) const {
    return {tokens_, RowSpan<Row>(rows_, vocab_size), parents_};
  }

 private:
  const TreeShape& shape() const { return strategy_->shape(); }

  // The node's number in the shape; −1 for the context.
  Index place(Index k) const { return k < 0 ? -1 : places_[static_cast<std::size_t>(k)]; }

  // How many children a node of the shape gets, as far as there is room.
  Index children(Index place) const {
    return std::clamp<Index>(most_ - shape().first_child(place), 0, shape().children(place));
  }

  void add_to_level(Index k) {
    level_.push_back(k);
    if (k < 0) return;
    const auto at = static_cast<std::size_t>(k);
    level_tokens_.push_back(tokens_[at]);
    level_parents_.push_back(parents_[at] < 0 ? -1 : numbers_[static_cast<std::size_t>(parents_[at])]);
  }

  // How many tokens the path to a node has, the node included.
  Index depth(Index k) const {
    Index depth = 0;
    for (; k >= 0; k = parents_[static_cast<std::size_t>(k)]) ++depth;
    return depth;
  }

  // Adds the children of node k; q is the row after the node.
  template <class C>
  void grow(Index k, const typename Rows::Stored& q, C& chance) {
    strategy_->siblings_.grow(q, children(place(k)), depth(k), chance, tokens_, rows_);
    for (Index child = shape().first_child(place(k)); parents_.size() < tokens_.size(); ++child) {
      parents_.push_back(k);
      places_.push_back(child);
      numbers_.push_back(-1);
    }
  }

  Tree* strategy_ = nullptr;
  Index most_ = 0;  // nodes of the shape that there is room for
  std::vector<Token> tokens_;
  std::vector<Row> rows_;
  std::vector<Index> parents_;
  std::vector<Index> places_;   // each token's number in the shape
  std::vector<Index> numbers_;  // each token's number in the model's cache; −1: not cached
  Rows after_;                  // the rows after the context and the tokens that have children
  Index next_ = -1;             // the first node of the next level
  Index cached_ = 0;
  std::vector<Index> level_;
  std::vector<Token> level_tokens_;
  std::vector<Index> level_parents_;
};

}  // namespace specdec

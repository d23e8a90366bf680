// A tree of a given shape that is being drafted, whoever is asked for the rows behind its tokens.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/chance/keyed.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// The shape that a drafter was given, or that its policy has now.
template <class Shape>
const TreeShape& shape_of(const Shape& shape) {
  if constexpr (std::same_as<Shape, TreeShape>) return shape;
  else return shape.get().shape();
}

/// How many nodes of the shape fit into a model that has room for `inner` tokens of a tree: it takes in those that have
/// children. Negative room is none for the context itself.
inline Index nodes_with_room(const TreeShape& shape, const TreeLimits& limits, Index inner) {
  const Index size = shape.size_within(limits);
  if (inner < 0) return 0;
  Index taken_in = 0, last = -1;
  for (Index k = 0; k < size; ++k) {
    const Index parent = shape.parents()[static_cast<std::size_t>(k)];
    if (parent == last) continue;
    if (taken_in == inner) return k;
    ++taken_in;
    last = parent;
  }
  return size;
}

/// Grows level by level. The levels say which tokens a model takes in; by the rows behind these they get their children.
///
///   tree.begin(shape, most);
///   while (tree.next_level()) {
///     for (...) tree.take(row);       // behind the context at first, then behind each of level_tokens()
///     tree.grow(siblings, chance);
///   }
///
/// No allocation in steady state.
template <class Behind, class Siblings>
class GrowingTree {
 public:
  using Row = typename Siblings::template Row<typename Behind::Stored>;

  /// A tree of the first `most` nodes of the shape, which has to live as long as it grows.
  void begin(const TreeShape& shape, Index most) {
    shape_ = &shape;
    most_ = most;
    tokens_.clear();
    rows_.clear();
    parents_.clear();
    places_.clear();
    numbers_.clear();
    behind_.clear();
    next_ = -1;
    taken_in_ = 0;
    tokens_.reserve(static_cast<std::size_t>(most));  // which rows of siblings may be views of
  }
  /// It does not grow any more.
  void end() { most_ = 0; }

  /// The nodes of the next level that are to have children. False where there are none.
  bool next_level() {
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

  /// Whether it is the level of the context.
  bool at_context() const { return level_.front() < 0; }
  /// How many rows are wanted.
  Index level_size() const { return std::ssize(level_); }
  std::span<const Token> level_tokens() const { return level_tokens_; }
  /// By their numbers in what the model has taken in of the tree.
  std::span<const Index> level_parents() const { return level_parents_; }

  /// The row behind the next node of the level.
  template <class Q>
  void take(const Q& row) {
    behind_.add(row);
  }

  /// The children of the level.
  template <class C>
  void grow(Siblings& siblings, C& chance) {
    const Index row = behind_.size() - level_size();
    for (std::size_t i = 0; i < level_.size(); ++i) {
      if (level_[i] >= 0) numbers_[static_cast<std::size_t>(level_[i])] = taken_in_++;
      grow(level_[i], behind_[row + static_cast<Index>(i)], siblings, chance);
    }
  }

  TreeDraft<RowSpan<Row>> draft(Index vocab_size) const {
    return {tokens_, RowSpan<Row>(rows_, vocab_size), parents_};
  }

 private:
  // Of a node in the shape, or of the context.
  Index place(Index k) const { return k < 0 ? -1 : places_[static_cast<std::size_t>(k)]; }

  // Of a node of the shape, as far as there is room.
  Index children(Index place) const {
    return std::clamp<Index>(most_ - shape_->first_child(place), 0, shape_->children(place));
  }

  void add_to_level(Index k) {
    level_.push_back(k);
    if (k < 0) return;
    const auto at = static_cast<std::size_t>(k);
    level_tokens_.push_back(tokens_[at]);
    level_parents_.push_back(parents_[at] < 0 ? -1 : numbers_[static_cast<std::size_t>(parents_[at])]);
  }

  // How many tokens there are on the way to a node, that included.
  Index depth(Index k) const {
    Index depth = 0;
    for (; k >= 0; k = parents_[static_cast<std::size_t>(k)]) ++depth;
    return depth;
  }

  // The children of a node, behind which the row q stands.
  template <class C>
  void grow(Index k, const typename Behind::Stored& q, Siblings& siblings, C& chance) {
    auto&& here = behind(chance, depth(k));
    siblings.grow(q, children(place(k)), here, tokens_, rows_);
    for (Index child = shape_->first_child(place(k)); parents_.size() < tokens_.size(); ++child) {
      parents_.push_back(k);
      places_.push_back(child);
      numbers_.push_back(-1);
    }
  }

  const TreeShape* shape_ = nullptr;
  Index most_ = 0;  // nodes of the shape that there is room for
  std::vector<Token> tokens_;
  std::vector<Row> rows_;
  std::vector<Index> parents_;
  std::vector<Index> places_;   // of each token in the shape
  std::vector<Index> numbers_;  // of each token in what the model has taken in, −1: not there
  Behind behind_;               // the rows behind the context and the tokens that have children
  Index next_ = -1;             // the first node of the next level
  Index taken_in_ = 0;
  std::vector<Index> level_;
  std::vector<Token> level_tokens_;
  std::vector<Index> level_parents_;
};

}  // namespace specdec::detail

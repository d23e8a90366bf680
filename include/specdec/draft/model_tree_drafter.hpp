// Drafts trees of a given shape with a small model.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/branching_model.hpp"
#include "specdec/draft/siblings.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/draft/tree_shape.hpp"
#include "specdec/error.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/row_span.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Drafts a tree with a model that takes in trees (TreeModel), one call a level, and reports the very rows it drew
/// from, given the elder siblings.
///
///   ModelTreeDrafter drafter{small, TreeShape::of_widths({4, 2, 1}), WithoutReplacement{}};
///
/// Siblings are drawn Independent or WithoutReplacement, or are the Likeliest tokens, which are chosen. Limits leave
/// the first nodes of the shape; one that a policy chooses (CostOptimalTree) is handed in as std::cref(policy). A node
/// has fewer children than in the shape where the row behind it has no more tokens.
/// Source: SpecInfer, arXiv:2305.09781 (trees of drafts); Jeon et al., arXiv:2402.14160, and Chen et al.,
/// arXiv:2402.12374 (siblings without replacement).
/// A model passed as an lvalue is referred to and must outlive the drafter; an rvalue is moved in. Drafters that
/// refer to one model, and copies of a drafter, may take turns: whoever takes over feeds its context anew.
/// The model's vocabulary may be smaller or larger than the target's. Tokens of the context that the model does
/// not know are shown to it as token 0, which costs acceptance, never exactness. Where its context is bounded
/// (context_size) the tree has no more nodes with children than that has room for, in the end no node.
/// Random: one draw per token that is drawn, by ascending number. Cost: as many calls of the model as the tree has
/// levels; the first also takes in what the model has not seen of the context (a path of the last tree that the
/// context went on with it keeps), the others all nodes of a level that have children. No allocation in steady state.
template <class M, class Siblings, class Shape = TreeShape>
class ModelTreeDrafter {
  using DraftModel = detail::BranchingModel<M>;
  using Behind = typename DraftModel::Rows;
  using Row = typename Siblings::template Row<typename Behind::Stored>;

 public:
  ModelTreeDrafter(M&& model, const Shape& shape, Siblings siblings)
      : model_(std::forward<M>(model)), shape_(shape), siblings_(std::move(siblings)) {}

  /// Throws: std::invalid_argument on an empty context, and where the model returns rows of another shape
  /// than asked for.
  template <RandomSource Source>
  TreeDraft<RowSpan<Row>> draft(std::span<const Token> context, const TreeLimits& limits, Source& source) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    auto&& chance = as_chance(source);
    clear(room(context, limits));
    if (most_ > 0) {
      take_in(model_.begin(context), 1);
      grow(-1, behind_[0], chance);
    }
    for (Index from = 0, to = std::ssize(tokens_); from < to; from = to, to = std::ssize(tokens_)) {
      if (!grow_level(from, to, chance)) break;
    }
    return {tokens_, RowSpan<Row>(rows_, model_.vocab_size()), parents_};
  }

  /// The model, where others may refer to it, too.
  template <class Visit>
    requires detail::MayBeShared<M>
  void each_identity(const Visit& visit) const {
    model_.each_identity(visit);
  }

  void truncate(Index length) { model_.truncate(length); }

  const TreeShape& shape() const& {
    if constexpr (std::same_as<Shape, TreeShape>) return shape_;
    else return shape_.get().shape();
  }
  const TreeShape& shape() const&& = delete;

 private:
  // How many nodes of the shape fit: the model takes in those that have children.
  Index room(std::span<const Token> context, const TreeLimits& limits) const {
    const Index size = shape().size_within(limits), inner = model_.room_for_tree(context);
    if (inner < 0) return 0;
    Index taken_in = 0, last = -1;
    for (Index k = 0; k < size; ++k) {
      const Index parent = shape().parents()[static_cast<std::size_t>(k)];
      if (parent == last) continue;
      if (taken_in == inner) return k;
      ++taken_in;
      last = parent;
    }
    return size;
  }

  // The rows of siblings may be views of tokens_, which must not move.
  void clear(Index most) {
    most_ = most;
    tokens_.clear();
    rows_.clear();
    parents_.clear();
    places_.clear();
    numbers_.clear();
    behind_.clear();
    tokens_.reserve(static_cast<std::size_t>(most));
  }

  // Nodes from..to-1 are a level. Those with children go into the model, and get them. False where none has any.
  template <class C>
  bool grow_level(Index from, Index to, C& chance) {
    level_.clear();
    level_tokens_.clear();
    level_parents_.clear();
    for (Index k = from; k < to; ++k) {
      const auto at = static_cast<std::size_t>(k);
      if (children(places_[at]) == 0) continue;
      level_.push_back(k);
      level_tokens_.push_back(tokens_[at]);
      level_parents_.push_back(parents_[at] < 0 ? -1 : numbers_[static_cast<std::size_t>(parents_[at])]);
    }
    if (level_.empty()) return false;
    const Index number = model_.fed(), row = behind_.size();
    take_in(model_.extend(level_tokens_, level_parents_), std::ssize(level_));
    for (std::size_t i = 0; i < level_.size(); ++i) {
      numbers_[static_cast<std::size_t>(level_[i])] = number + static_cast<Index>(i);
      grow(level_[i], behind_[row + static_cast<Index>(i)], chance);
    }
    return true;
  }

  template <class Output>
  void take_in(const Output& output, Index asked) {
    const auto rows = distributions(output);
    for (Index i = 0; i < asked; ++i) behind_.add(model_.row(rows, i, asked));
  }

  // The children of node k, or of the context, behind which the row q stands.
  template <class C>
  void grow(Index k, const typename Behind::Stored& q, C& chance) {
    const Index place = k < 0 ? -1 : places_[static_cast<std::size_t>(k)];
    siblings_.grow(q, children(place), chance, tokens_, rows_);
    for (Index child = shape().first_child(place); parents_.size() < tokens_.size(); ++child) {
      parents_.push_back(k);
      places_.push_back(child);
      numbers_.push_back(-1);
    }
  }

  // Of a node of the shape, as far as there is room.
  Index children(Index place) const {
    return std::clamp<Index>(most_ - shape().first_child(place), 0, shape().children(place));
  }

  DraftModel model_;
  Shape shape_;
  Siblings siblings_;
  Index most_ = 0;  // nodes of the shape that there is room for
  std::vector<Token> tokens_;
  std::vector<Row> rows_;
  std::vector<Index> parents_;
  std::vector<Index> places_;   // of each token in the shape
  std::vector<Index> numbers_;  // of each token in the model's tree, −1: not there
  Behind behind_;               // the rows behind the context and the tokens that have children
  std::vector<Index> level_;
  std::vector<Token> level_tokens_;
  std::vector<Index> level_parents_;
};

template <class M, class Siblings>
ModelTreeDrafter(M&&, const TreeShape&, Siblings) -> ModelTreeDrafter<M, Siblings>;

template <class M, class Policy, class Siblings>
ModelTreeDrafter(M&&, std::reference_wrapper<Policy>, Siblings)
    -> ModelTreeDrafter<M, Siblings, std::reference_wrapper<Policy>>;

}  // namespace specdec

// Drafts trees of a given shape with a small model.
#pragma once

#include <functional>
#include <span>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/branching_model.hpp"
#include "specdec/draft/strategies/growing_tree.hpp"
#include "specdec/draft/strategies/siblings.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Drafts a tree with a model that takes trees, one call a level, and reports the very rows it drew
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
  using Tree = detail::GrowingTree<typename DraftModel::Rows, Siblings>;

 public:
  ModelTreeDrafter(M&& model, const Shape& shape, Siblings siblings)
      : model_(std::forward<M>(model)), shape_(shape), siblings_(std::move(siblings)) {}

  /// Throws: std::invalid_argument on an empty context, and where the model returns rows of another shape
  /// than asked for.
  template <RandomSource Source>
  TreeDraft<RowSpan<typename Tree::Row>> draft(std::span<const Token> context, const TreeLimits& limits,
                                               Source& source) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    auto&& chance = as_chance(source);
    tree_.begin(shape(), detail::nodes_with_room(shape(), limits, model_.room_for_tree(context)));
    while (tree_.next_level()) {
      if (tree_.at_context()) take_in(model_.begin(context));
      else take_in(model_.extend(tree_.level_tokens(), tree_.level_parents()));
      tree_.grow(siblings_, chance);
    }
    return tree_.draft(model_.vocab_size());
  }

  /// The model, where others may refer to it, too.
  template <class Visit>
    requires detail::MayBeShared<M>
  void each_identity(const Visit& visit) const {
    model_.each_identity(visit);
  }

  void truncate(Index length) { model_.truncate(length); }

  const TreeShape& shape() const& { return detail::shape_of(shape_); }
  const TreeShape& shape() const&& = delete;

 private:
  template <class Output>
  void take_in(const Output& output) {
    const auto rows = distributions(output);
    for (Index i = 0; i < tree_.level_size(); ++i) tree_.take(model_.row(rows, i, tree_.level_size()));
  }

  DraftModel model_;
  Shape shape_;
  Siblings siblings_;
  Tree tree_;
};

template <class M, class Siblings>
ModelTreeDrafter(M&&, const TreeShape&, Siblings) -> ModelTreeDrafter<M, Siblings>;

template <class M, class Policy, class Siblings>
ModelTreeDrafter(M&&, std::reference_wrapper<Policy>, Siblings)
    -> ModelTreeDrafter<M, Siblings, std::reference_wrapper<Policy>>;

}  // namespace specdec

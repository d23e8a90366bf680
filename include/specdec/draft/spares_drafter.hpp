// Drafts a line of tokens, and at each of them what else the model thought likely.
#pragma once

#include <functional>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft_model.hpp"
#include "specdec/draft/strategies/growing_spares.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Trunk and spares: drafts autoregressively with a model, the trunk, and beside each drawn token chooses the likeliest
/// other ones of its row, the spares, for which no further call is needed.
///
///   SparesDrafter drafter{small, 4, {2, 1}};    // 4 tokens; 2 spares beside the first, 1 beside each of the others
///   SparesDrafter drafter{small, 4, {2, 1}, 3}; // and behind the likeliest spare of the first a trunk of 3
///
/// A drawn token is the eldest of its siblings and reports the very row it was drawn from; spares follow, the likeliest
/// first, of equals the lower id first, and report one-hot rows. spares[d] is for depth d, the last entry for all
/// depths beyond it; where fewer tokens have any probability, there are fewer, and nothing else takes their place. The
/// second trunk stands behind the likeliest spare of the first token, if there is one, and has no spares. Limits take away
/// the deepest tokens first, of a level that of the second trunk, then the unlikeliest spares.
/// Where a policy chooses (CostOptimalSpares), it is handed in as std::cref(policy): of its shape() the eldest children are
/// the trunk, their siblings spares.
/// The model may be any Model: it takes in one trunk after the other. One passed as an lvalue is referred to and must
/// outlive the drafter; an rvalue is moved in. Drafters that refer to one model, and copies of a drafter, may take turns: whoever
/// takes over feeds its context anew. The model's vocabulary may be smaller or larger than the target's. Tokens of the
/// context that the model does not know are shown to it as token 0, which costs acceptance, never exactness. Where its
/// context is bounded (context_size) trunks are no longer than that has room for, in the end there is none.
/// Throws: std::invalid_argument where a trunk or a number of spares is negative, or all make more than longest_draft
/// tokens.
/// Random: one draw per token of a trunk, by ascending number: the first token, the second trunk, the rest of the trunk.
/// Cost: a call of the model for each, and a pass over its row where it has spares; the first call also takes in what
/// the model has not seen of the context. No allocation in steady state.
template <class M, class Policy = void>
class SparesDrafter {
  using DraftModel = detail::DraftModel<M>;
  // Of the second trunk the model forgets the rows before the draft is made.
  using Tree = detail::GrowingSpares<typename DraftModel::Rows, StoredRows<typename DraftModel::Row, false>>;
  static constexpr bool follows_policy = !std::is_void_v<Policy>;

 public:
  SparesDrafter(M&& model, std::reference_wrapper<const Policy> policy)
    requires follows_policy
      : model_(std::forward<M>(model)), policy_(&policy.get()) {}

  SparesDrafter(M&& model, Index trunk, std::vector<Index> spares, Index second_trunk = 0)
    requires(!follows_policy)
      : model_(std::forward<M>(model)), plan_(trunk, std::move(spares), second_trunk) {}

  /// Throws: std::invalid_argument on an empty context, and where the model returns rows of another shape
  /// than asked for.
  template <RandomSource Source>
  TreeDraft<RowSpan<typename Tree::Row>> draft(std::span<const Token> context, const TreeLimits& limits,
                                               Source& source) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    auto&& chance = as_chance(source);
    if constexpr (follows_policy) plan_.take(policy_->shape());
    tree_.begin(plan_, limits, model_.room(context));
    if (tree_.next()) begin(context);
    while (tree_.next()) {
      if (tree_.anew()) go_back_to(context);
      if (tree_.at_context()) grow(model_.forward(model_.unseen(context)), chance);
      else grow(take_in(tree_.token()), chance);
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

 private:
  // Where the context has gone on with a spare, the model has taken in the trunk.
  void begin(std::span<const Token> context) {
    model_.take();
    if (const Index agreed = taken_in_.agreed(context); agreed != unlimited) model_.truncate(agreed);
    taken_in_.begin(context.size());
  }

  void go_back_to(std::span<const Token> context) {
    model_.truncate(std::ssize(context));
    taken_in_.begin(context.size());
  }

  decltype(auto) take_in(Token token) {
    taken_in_.reserve();
    decltype(auto) output = model_.forward(std::span(&token, 1));
    taken_in_.add(token);
    return output;
  }

  template <class Output, class C>
  void grow(const Output& output, C& chance) {
    tree_.grow(model_.row(distributions(output)), chance);
  }

  DraftModel model_;
  const Policy* policy_ = nullptr;
  detail::SparesPlan plan_;
  Tree tree_;
  detail::TakenIn taken_in_;
};

template <class M>
SparesDrafter(M&&, Index, std::vector<Index>) -> SparesDrafter<M>;
template <class M>
SparesDrafter(M&&, Index, std::vector<Index>, Index) -> SparesDrafter<M>;
template <class M, class Policy>
SparesDrafter(M&&, std::reference_wrapper<Policy>) -> SparesDrafter<M, std::remove_const_t<Policy>>;

}  // namespace specdec

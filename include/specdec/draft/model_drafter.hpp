// Drafts with a small model.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft_model.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/named_row.hpp"

namespace specdec {

/// Drafts autoregressively with a model, and reports the very rows it drew from.
///
/// Source: Leviathan et al., arXiv:2211.17192, Alg. 1, lines 1–3 (the guesses of the approximation model).
/// A model passed as an lvalue is referred to and must outlive the drafter; an rvalue is moved in. Drafters that
/// refer to one model, and copies of a drafter, may take turns: whoever takes over feeds its context anew.
/// The model's vocabulary may be smaller or larger than the target's. Tokens of the context that the model does
/// not know are shown to it as token 0, which costs acceptance, never exactness. Where its context is bounded
/// (context_size) it proposes as many tokens as that has room for, in the end none.
/// Random: one draw per token. Cost: γ calls of the model; the first also takes in what the model has not
/// seen of the context (after full acceptance that is x_γ as well as Y). No allocation in steady state.
template <class M>
class ModelDrafter {
  using DraftModel = detail::DraftModel<M>;
  using Row = typename DraftModel::Row;
  using Rows = typename DraftModel::Rows;

 public:
  explicit ModelDrafter(M&& model) : model_(std::forward<M>(model)) {}

  /// Throws: std::invalid_argument on an empty context, and where the model returns rows of another shape
  /// than asked for.
  template <RandomSource Source>
  Draft<RowSpan<typename Rows::Stored>> draft(std::span<const Token> context, Index gamma, Source& source) & {
    return draft(context, gamma, source, [](const Row&, Index) { return true; });
  }

  /// Drafts, and ends the draft where goes_on(row, i) says no to the row that token i would be drawn from.
  template <RandomSource Source, std::predicate<const Row&, Index> GoesOn>
  Draft<RowSpan<typename Rows::Stored>> draft(std::span<const Token> context, Index gamma, Source& source,
                                              GoesOn&& goes_on) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    auto&& chance = as_chance(source);
    tokens_.clear();
    rows_.clear();
    const Index most = std::min(gamma, model_.room(context));
    if (most > 0) model_.take();
    for (Index i = 0; i < most; ++i) {
      const auto& output =
          model_.forward(i == 0 ? model_.unseen(context) : std::span<const Token>(tokens_).last(1));
      const auto q = model_.row(distributions(output));
      if (!goes_on(q, i)) break;
      const detail::NamedRow name(q, "draft", i);
      tokens_.push_back(chance.draw(name));
      rows_.add(name);
    }
    return {tokens_, rows_.first(rows_.size(), model_.vocab_size())};
  }

  /// The model, where others may refer to it, too.
  template <class Visit>
    requires detail::MayBeShared<M>
  void each_identity(const Visit& visit) const {
    model_.each_identity(visit);
  }

  void truncate(Index length) { model_.truncate(length); }

 private:
  DraftModel model_;
  std::vector<Token> tokens_;
  Rows rows_;
};

template <class M>
ModelDrafter(M&&) -> ModelDrafter<M>;

}  // namespace specdec

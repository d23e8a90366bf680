// Drafts with a small model.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/model/known_tokens.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/row_span.hpp"
#include "specdec/rows/stored_rows.hpp"

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
  static_assert(detail::sized_and_truncatable<std::remove_reference_t<M>>());
  static_assert(Model<std::remove_reference_t<M>>,
                "the draft model is no specdec::Model: its forward(tokens, rows) returns rows of "
                "probabilities (a model "
                "of logits goes into a ProcessedModel)");

  using Output = std::remove_cvref_t<decltype(std::declval<std::remove_reference_t<M>&>().forward(
      std::span<const Token>{}, Index{1}))>;
  using Row = RowOf<decltype(distributions(std::declval<const Output&>()))>;
  using Rows = StoredRows<Row, has_stable_rows<std::remove_reference_t<M>>>;

 public:
  explicit ModelDrafter(M&& model) : model_(std::forward<M>(model)), turns_(detail::Turns::of<M>(model_)) {}

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
    const Index most = std::min(gamma, room(context));
    if (most > 0) take_model();
    for (Index i = 0; i < most; ++i) {
      const auto& output = forward(i == 0 ? unseen(context) : std::span<const Token>(tokens_).last(1));
      const auto rows = distributions(output);
      check(rows);
      const auto q = rows.row(0);
      if (!goes_on(q, i)) break;
      tokens_.push_back(chance.draw(detail::NamedRow(q, "draft", i)));
      rows_.add(q);
    }
    return {tokens_, rows_.first(rows_.size(), model_.vocab_size())};
  }

  /// The model, where others may refer to it, too.
  template <class Visit>
    requires detail::MayBeShared<M>
  void each_identity(const Visit& visit) const {
    detail::each_identity_of_model(model_, has_stable_rows<std::remove_reference_t<M>>, visit);
  }

  void truncate(Index length) {
    if (!turn_.lasts(turns_)) return;
    seen_ = std::clamp<Index>(length, 0, seen_);
    model_.truncate(seen_);
  }

 private:
  // Which somebody else has used, or nobody yet.
  void take_model() {
    if (turn_.lasts(turns_)) return;
    turn_.take(turns_);
    truncate(0);
  }

  // A row of another size would be read, or kept, out of bounds.
  template <class Matrix>
  void check(const Matrix& rows) const {
    if (rows.rows() != 1 || rows.row(0).vocab_size() != model_.vocab_size())
      detail::invalid_argument("the draft model returned ", rows.rows(), " rows over ",
                               rows.rows() > 0 ? rows.row(0).vocab_size() : 0,
                               " tokens, expected 1 row over its vocabulary of ", model_.vocab_size());
  }

  // How many tokens can follow: the last of them need not enter the model's context.
  Index room(std::span<const Token> context) const {
    const Index size = static_cast<Index>(context.size()), most = context_size(model_);
    return size <= most ? most - size + 1 : 0;
  }

  // What the model has to take in before it can guess: at least the last token, whose row is wanted.
  std::span<const Token> unseen(std::span<const Token> context) {
    if (seen_ >= static_cast<Index>(context.size())) truncate(static_cast<Index>(context.size()) - 1);
    return context.subspan(static_cast<std::size_t>(seen_));
  }

  decltype(auto) forward(std::span<const Token> tokens) {
    decltype(auto) output =
        model_.forward(detail::known_tokens(tokens, model_.vocab_size(), known_), Index{1});
    seen_ += static_cast<Index>(tokens.size());
    return output;
  }

  M model_;
  detail::Turns turns_;
  detail::Turn turn_;
  Index seen_ = 0;  // length of the model's context
  std::vector<Token> tokens_;
  std::vector<Token> known_;
  Rows rows_;
};

template <class M>
ModelDrafter(M&&) -> ModelDrafter<M>;

}  // namespace specdec

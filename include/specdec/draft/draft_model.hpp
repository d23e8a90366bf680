// A model that drafts: whose turn it is, what it has seen of the context, and what it returns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// How many tokens can follow the context where each is drawn from a row of its own call: the last of them need not enter
/// the model's context.
template <class M>
Index room_behind(std::span<const Token> context, const M& model) {
  const Index size = std::ssize(context), most = context_size(model);
  return size <= most ? most - size + 1 : 0;
}

/// Refuses a draft model's rows, of which `rows` are over `size` tokens each, where others were asked for: they would be
/// read, or kept, out of bounds.
inline void check_model_rows(Index rows, Index size, Index asked, Index vocab_size) {
  if (rows != asked || size != vocab_size)
    invalid_argument("the draft model returned ", rows, " rows over ", size, " tokens, expected ", asked,
                     asked == 1 ? " row" : " rows", " over its vocabulary of ", vocab_size);
}

/// Refuses another number of rows than a draft model was asked for.
template <class Matrix>
void check_row_count(const Matrix& rows, Index asked, Index vocab_size) {
  if (rows.rows() != asked)
    check_model_rows(rows.rows(), rows.rows() > 0 ? Index{rows.row(0).vocab_size()} : Index{0}, asked,
                     vocab_size);
}

/// Row i of as many as a draft model was asked for.
template <class Matrix>
auto row_of_model(const Matrix& rows, Index i, Index asked, Index vocab_size) {
  check_row_count(rows, asked, vocab_size);
  auto row = rows.row(i);
  check_model_rows(asked, row.vocab_size(), asked, vocab_size);
  return row;
}

/// The rows of a draft model's call that one draft of it wished for.
template <class Matrix>
class RowsOfDraftModel {
 public:
  /// From row `first` on, of a call that `asked` rows were wanted of.
  RowsOfDraftModel(const Matrix& rows, Index first, Index asked, Index vocab_size)
      : rows_(rows), first_(first), asked_(asked), vocab_size_(vocab_size) {}

  /// Throws: std::invalid_argument where the model returned rows of another shape.
  auto row(Index i) const { return row_of_model(rows_, first_ + i, asked_, vocab_size_); }

 private:
  const Matrix& rows_;
  Index first_, asked_, vocab_size_;
};

/// A model that a drafter for one text calls token by token. The model's context holds the first tokens of the context that is
/// drafted for, and then drafted ones. Every forward is one call of the model, whose output lives until the next.
template <class M>
class DraftModel {
 public:
  using Value = std::remove_reference_t<M>;
  static_assert(sized_and_truncatable<Value>());
  static_assert(Model<Value>,
                "the draft model is no specdec::Model: its forward(tokens, rows) returns rows of "
                "probabilities (a model of logits goes into a ProcessedModel)");

  explicit DraftModel(M&& model) : model_(std::forward<M>(model)), turns_(Turns::of<M>(model_)) {}

  Index vocab_size() const { return model_.vocab_size(); }

  Index room(std::span<const Token> context) const { return room_behind(context, model_); }

  /// Begins anew where somebody else has used the model, or nobody yet: then true.
  bool take() {
    if (has_turn()) return false;
    turn_.take(turns_);
    truncate(0);
    return true;
  }

  /// What the model has to take in before it can guess: at least the last token, whose row is wanted.
  std::span<const Token> unseen(std::span<const Token> context) {
    if (seen_ >= static_cast<Index>(context.size())) truncate(static_cast<Index>(context.size()) - 1);
    return context.subspan(static_cast<std::size_t>(seen_));
  }

  /// The row after the last of the tokens.
  decltype(auto) forward(std::span<const Token> tokens) {
    decltype(auto) output = model_.forward(tokens, Index{1});
    seen_ += static_cast<Index>(tokens.size());
    return output;
  }

  template <class Matrix>
  auto row(const Matrix& rows) const {
    return row_of_model(rows, 0, 1, vocab_size());
  }

  void truncate(Index length) {
    if (!has_turn()) return;
    seen_ = std::clamp<Index>(length, 0, seen_);
    model_.truncate(seen_);
  }

  /// The model, where others may refer to it, too.
  std::vector<const void*> identities() const { return shared_identities<M>(model_); }

 private:
  bool has_turn() const { return turn_.lasts(turns_); }

  M model_;
  Turns turns_;
  Turn turn_;
  Index seen_ = 0;
};

}  // namespace specdec::detail

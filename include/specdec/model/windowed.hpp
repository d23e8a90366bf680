// Draft models whose context is shorter than the text.
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/model/gathered_rows.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Shows a model the beginning of the context and the latest of it, and reports a context without end: so a draft
/// model whose context is short drafts for texts of any length.
///
///   ModelDrafter drafter{Windowed{model, 4, 508}};                  // of a context of 512
///   ModelDrafter drafter{Windowed{model, 4, 508, 127}};             // which begins anew every 127 tokens
///   ProcessedModel draft{Windowed{engine, 4, 508}, chain, hook};    // where the calls return logits
///
/// Of a context of n tokens the model is shown the first `first`, and behind them, as if they followed, those from number
/// first + k·stride on, with the least k >= 0 that leaves `last` of them at most: all, up to first + last tokens. Where the
/// window begins depends on n alone, hence each row on the context alone, however it came about, as lossless
/// drafting demands. As a target, what is written is by the law of the windowed model, not of the model.
/// Outside a ProcessedModel it is shown probabilities and inside one logits; a hook sees the whole context where it
/// is outside, as above, and what the model is shown where it is inside.
/// A model passed as an lvalue is referred to and must outlive this; an rvalue is moved in. Give it with an empty
/// context.
/// Throws: std::invalid_argument where first < 0, last < 1, stride is outside 1..last or first + last are more tokens than
/// the model's context holds; for rows outside 1..tokens.size(), and where the model returns rows of another shape than
/// asked for; what the model throws. After a throw of forward() the context is as before.
/// Cost: while the window stays, a call is one of the model's with the same tokens; where it begins anew the model takes in
/// up to `last` tokens, which, once in `stride` tokens, is (last − stride)/stride more for each. A call whose rows are from both
/// sides of such a place is two of the model's, or more. A copy of each row. No allocation in steady state.
/// Example: examples/short_memory.cpp.
template <class M>
class Windowed {
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::sized_and_truncatable<Bare>());
  using Output =
      std::remove_cvref_t<decltype(std::declval<Bare&>().forward(std::span<const Token>{}, Index{1}))>;
  static_assert(
      Probabilities<Output>,
      "the model is no specdec::Model: its forward(tokens, rows) returns rows of probabilities or of logits");

 public:
  /// The window begins anew when it is full, with half of it.
  Windowed(M&& model, Index first, Index last)
      : Windowed(std::forward<M>(model), first, last, std::max<Index>(last - last / 2, 1)) {}

  Windowed(M&& model, Index first, Index last, Index stride)
      : model_(std::forward<M>(model)), first_(first), last_(last), stride_(stride), begin_(first) {
    if (first < 0) detail::invalid_argument("first = ", first, " is negative");
    if (last < 1) detail::invalid_argument("last = ", last, " is less than 1");
    if (stride < 1 || stride > last)
      detail::invalid_argument("stride = ", stride, " is outside 1..", last, ", the tokens of the window");
    if (const Index most = specdec::context_size(model_); last > most || first > most - last)
      detail::invalid_argument("first + last = ", first, " + ", last, " is more than ", most,
                               ", the tokens that the model's context holds");
  }

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return unlimited; }

  /// What the model alone was fed with is not known here.
  static constexpr bool keeps_context = true;

  /// The model, where others may refer to it, too.
  const void* identity() const
    requires detail::MayBeShared<M>
  {
    return detail::identity(model_);
  }

  auto forward(std::span<const Token> tokens, Index rows) & {
    if (rows < 1 || rows > std::ssize(tokens))
      detail::invalid_argument("rows = ", rows, " is outside 1..", tokens.size(), ", the number of tokens");
    const Index before = std::ssize(text_);
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    try {
      rows_.begin(rows, vocab_size());
      const Index size = std::ssize(text_);
      for (Index length = size - rows + 1; length <= size;) length = take_rows(length, size);
    } catch (...) {
      truncate(before);
      throw;
    }
    return std::as_const(rows_).all();
  }

  void truncate(Index length) {
    length = std::clamp<Index>(length, 0, std::ssize(text_));
    text_.resize(static_cast<std::size_t>(length));
    if (length <= first_) held_ = std::min(held_, length);
    else held_ = std::min(held_, std::max(first_, shown(length, begin_)));
    model_.truncate(held_);
  }

 private:
  // Where the window of the first `length` tokens begins.
  Index begin(Index length) const {
    const Index beyond = length - first_ - last_;
    return beyond <= 0 ? first_ : first_ + (beyond + stride_ - 1) / stride_ * stride_;
  }

  // How many of the first `length` tokens are shown behind the beginning and in a window from number `begin` on.
  Index shown(Index length, Index begin) const { return length - begin + first_; }

  // The rows behind the first `length` tokens, and those behind more, up to `size`, whose window begins at the same
  // place, in one call. How many tokens the first row that is then still wanted is behind.
  Index take_rows(Index length, Index size) {
    move_to(begin(length));
    const Index end = std::min(size, begin_ + last_), rows = end - length + 1;
    fed_.clear();
    for (Index i = held_; i < shown(end, begin_); ++i)
      fed_.push_back(text_[static_cast<std::size_t>(i < first_ ? i : i - first_ + begin_)]);
    decltype(auto) output = model_.forward(std::span<const Token>(fed_), rows);
    rows_.add(output, rows);
    held_ += std::ssize(fed_);
    return end + 1;
  }

  void move_to(Index begin) {
    if (begin == begin_) return;
    begin_ = begin;
    if (held_ <= first_) return;
    held_ = first_;
    model_.truncate(first_);
  }

  M model_;
  Index first_, last_, stride_;
  std::vector<Token> text_;  // the context
  Index begin_;              // where in it the window begins
  Index held_ = 0;           // how many tokens the model's context holds, of the beginning and the window
  std::vector<Token> fed_;
  detail::GatheredRows<Output> rows_;
};

template <class M>
Windowed(M&&, Index, Index) -> Windowed<M>;
template <class M>
Windowed(M&&, Index, Index, Index) -> Windowed<M>;

}  // namespace specdec

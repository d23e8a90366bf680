// Draft models whose context is shorter than the text.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Shows a model only the first and the latest tokens of the context, so that a draft model with a short context drafts for
/// texts of any length. A wrapper (see model/feeds.hpp), with a window for each text.
///
///   ModelDrafter drafter{Windowed{model, 4, 508}};                  // for a model with a context of 512 tokens
///   ModelDrafter drafter{Windowed{model, 4, 508, 127}};             // the window moves on by 127 tokens at a time
///   ProcessedModel draft{Windowed{engine, 4, 508}, chain, hook};    // if the model returns logits
///
/// The model is shown the first `first` tokens of the context, and directly after them the window. The window has the tokens from
/// number first + k·stride on, with the smallest k >= 0 such that they are at most `last` tokens. So the model sees a context of
/// up to first + last tokens as a whole. The window's beginning depends only on the length of the context. So each row depends
/// only on the context, however it was fed, as lossless drafting demands. If a Windowed is the target, the text has the
/// distribution of the windowed model, not of the model alone. A hook of a ProcessedModel around a Windowed, as above, sees the
/// whole context. A hook of a ProcessedModel inside a Windowed sees only the tokens that the model is shown.
/// Throws: also InvalidArgument if first < 0, last < 1, stride is outside 1..last, or the model's context holds fewer
/// than first + last tokens.
/// Cost: while the window stays, a call takes one call of the model with its own tokens. When the window moves, once in
/// `stride` tokens, the model is fed up to `last` tokens: (last − stride)/stride more for each token of the text. A call
/// takes two or more calls of the model if wanted rows lie before and after a move. With many texts, one such text causes
/// the calls, and the other texts wait. Each row is copied.
/// Example: examples/write/short_memory.cpp.
template <class M>
class Windowed : public detail::WrapsModel<Windowed<M>, M, false> {
  using Base = detail::WrapsModel<Windowed, M, false>;
  friend typename Base::Functions;
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::can_be_wrapped<Bare>());
  using Output = std::remove_cvref_t<detail::OutputOf<Bare>>;
  static_assert(Probabilities<Output>);  // or rows of logits

  struct Text : detail::FedText {
    explicit Text(Index tokens_before) : first(tokens_before), begin(tokens_before) {}

    Index first;       // how many tokens come before the window
    Index begin;       // the token that the window begins with
    Index cached = 0;  // how many of the first tokens and of the window the model has cached
    std::vector<Token> fed;
    Index wanted = 0;  // how many tokens stand before the next row of the call
    Index place = 0;   // the place of that row among the rows of the call

    // How many tokens of a context of `length` the model is shown.
    Index shown(Index length) const { return length - begin + first; }
    detail::KeptContext truncate(Index length) {
      length = detail::FedText::truncate(length).length;
      return {cached = std::min(cached, length <= first ? length : std::max(first, shown(length)))};
    }
  };

 public:
  /// When the window is full, it begins anew with half of its tokens.
  Windowed(M&& model, Index first, Index last)
      : Windowed(std::forward<M>(model), first, last, std::max<Index>(last - last / 2, 1)) {}

  Windowed(M&& model, Index first, Index last, Index stride)
      : Base(std::forward<M>(model)), first_(first), last_(last), stride_(stride) {
    if (first < 0) detail::invalid_argument("first = ", first, " is negative");
    if (last < 1) detail::invalid_argument("last = ", last, " is less than 1");
    if (stride < 1 || stride > last)
      detail::invalid_argument("stride = ", stride, " is outside 1..", last, ", the tokens of the window");
    if (const Index most = Base::context_size(); last > most || first > most - last)
      detail::invalid_argument("first + last = ", first, " + ", last, " is more than ", most,
                               ", the tokens that the model's context holds");
  }

  Index context_size() const { return unlimited; }

  /// This does not know tokens that the model was fed directly.
  static constexpr bool keeps_context = true;

 private:
  Text begin_text(Index) const { return Text(first_); }

  auto rows_after(std::span<const BatchFeed> feeds, std::span<const BatchFeed>) {
    begin_call(feeds);
    while (begin_round(feeds)) take_rows(this->inner().forward(detail::view_of(round_)));
    return rows_.in_places(this->vocab_size());
  }

  // Where the window begins in a context of `length` tokens.
  Index begin(Index length) const {
    const Index beyond = length - first_ - last_;
    return beyond <= 0 ? first_ : first_ + (beyond + stride_ - 1) / stride_ * stride_;
  }

  void begin_call(std::span<const BatchFeed> feeds) {
    rows_.clear();
    Index place = 0;
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.at(feed.sequence);
      // A part of a prompt wants no row. The model is fed the tokens that it would be shown for the last row.
      text.wanted = text.length() + 1 - std::max<Index>(feed.rows, feed.tokens.empty() ? 0 : 1);
      text.place = place;
      place += feed.rows;
    }
  }

  // Prepares the next call of the model: for each text, the rows whose windows begin at one place. False if none is left.
  bool begin_round(std::span<const BatchFeed> feeds) {
    round_.clear();
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.at(feed.sequence);
      if (text.wanted > text.length()) continue;
      move_to(begin(text.wanted), feed.sequence, text);
      const Index end = std::min(text.length(), text.begin + last_), rows = end - text.wanted + 1;
      text.fed.clear();
      for (Index i = text.cached; i < text.shown(end); ++i)
        text.fed.push_back(detail::at(text.tokens(), i < first_ ? i : i - first_ + text.begin));
      round_.push_back(
          {{.tokens = text.fed, .from = text.cached, .rows = feed.rows == 0 ? 0 : rows}, feed.sequence});
      text.wanted = end + 1;
    }
    return !round_.empty();
  }

  void move_to(Index begin, Index sequence, Text& text) {
    if (begin == text.begin) return;
    text.begin = begin;
    if (text.cached <= first_) return;
    text.cached = first_;
    this->inner().keep(sequence, first_);
  }

  void take_rows(const Output& output) {
    const auto rows =
        detail::checked_rows(output, detail::rows_of(detail::view_of(round_)), this->vocab_size());
    Index row = 0;
    for (const BatchFeed& feed : round_) {
      Text& text = texts_.at(feed.sequence);
      for (const Index end = row + feed.rows; row < end; ++row)
        detail::in_row("model", row, [&] { rows_.add(rows.row(row), text.place++); });
      text.cached += std::ssize(feed.tokens);
    }
  }

  Index first_, last_, stride_;
  detail::FedTexts<Text> texts_;
  std::vector<BatchFeed> round_;
  // Copies, even of stable rows: those live until their positions are truncated away, which may be before the next call.
  StoredRows<detail::RowAsStored<Output>, false> rows_;
};

template <class M>
Windowed(M&&, Index, Index) -> Windowed<M>;
template <class M>
Windowed(M&&, Index, Index, Index) -> Windowed<M>;

}  // namespace specdec

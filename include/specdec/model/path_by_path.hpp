// Trees of tokens for models whose calls do not branch.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
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
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Lets any model take trees. Feeds branch after branch, and cuts the context back between them. A wrapper: see model/feeds.hpp.
///
///   PathByPath target{model};
///   ProcessedModel target{PathByPath{engine}, chain, processor};    // if the model returns logits
///
/// Each row is the model's own row after the context and the tokens on the way. For tests, and for models with cheap calls:
/// each branch of a tree costs a call. With many texts, each call feeds one branch of each tree.
/// Put the ProcessedModel with a processor outside, as above: then the processor sees the tree. Inside, it would see each
/// branch as a text. Then a call for a row after a refused token must also want the row before that token.
/// Throws: also InvalidArgument on a token outside the vocabulary, and in keep(path) if `path` is no path of the tree.
/// After a throw open trees, too, are as before.
/// Cost: a call of the model for each branch that leads to a wanted row. The call feeds only tokens that the branch before
/// does not share. With many texts, the tree with the most of these branches decides how many calls. Each row is copied,
/// also after a line, so that all rows have one type. Tokens that lead to no wanted row are not fed. keep() may keep tokens
/// that the model has not cached: the next call feeds them.
template <class M>
class PathByPath : public detail::WrapsModel<PathByPath<M>, M, true> {
  using Base = detail::WrapsModel<PathByPath, M, true>;
  friend typename Base::Functions;
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::can_be_wrapped<Bare>());
  using Output = std::remove_cvref_t<detail::OutputOf<Bare>>;
  static_assert(Probabilities<Output>,
                "the model's forward() returns no rows, of probabilities or of logits: see specdec::Model "
                "and specdec::BatchModel");

  struct Text : detail::FedText {
    Index cached = 0;                    // how many tokens of the context the model has cached
    std::vector<Index> cached_way = {};  // the tree's cached tokens: a way from the context
    std::vector<Index> way = {};         // to the end of the branch that is fed

    // For one call: the ends of the branches to feed (−1 for a line), how many of them have been fed, the first token of the
    // tree whose row is wanted, and the place of that row among the rows of the call.
    std::vector<Index> ends = {};
    std::size_t next = 0;
    Index first = 0, place = 0;

    void add(std::span<const Token> tokens, std::span<const Index> parents) {
      const std::size_t size = static_cast<std::size_t>(tree().size()) + parents.size();
      way.reserve(size);
      cached_way.reserve(size);
      ends.reserve(size + 1);
      detail::FedText::add(tokens, parents);
    }
    detail::KeptContext keep(std::span<const Index> path) {
      cached += detail::common_length(path, cached_way);
      cached_way.clear();
      detail::FedText::keep(path);
      return {cached};
    }
    detail::KeptContext truncate(Index length) {
      cached_way.clear();
      return {cached = std::min(cached, detail::FedText::truncate(length).length)};
    }
    // The model may have cached some of the tokens before it failed.
    detail::KeptContext forget_from(Index node) {
      detail::FedText::forget_from(node);
      return leave(std::lower_bound(cached_way.begin(), cached_way.end(), node) - cached_way.begin());
    }
    // The first `kept` of the tree's cached tokens stay cached.
    detail::KeptContext leave(Index kept) {
      detail::resize(cached_way, kept);
      return {cached + kept};
    }
  };

 public:
  explicit PathByPath(M&& model) : Base(std::forward<M>(model)) {}

  /// This does not know tokens that the model was fed directly.
  static constexpr bool keeps_context = true;
  static constexpr bool adopts = can_adopt<Bare>;

 private:
  static Text begin_text(Index) { return {}; }

  auto rows_after(std::span<const BatchFeed> feeds, std::span<const BatchFeed>) {
    for (const BatchFeed& feed : feeds) detail::check_tokens("tokens", feed.tokens, this->vocab_size());
    begin_call(feeds);
    while (begin_round(feeds)) take_rows(this->inner().forward(detail::view_of(round_)));
    return rows_.in_places(this->vocab_size());
  }

  void adopt_text(Index sequence, std::span<const Token> tokens) {
    this->inner().adopt(sequence, tokens);
    texts_.adopt(sequence, tokens, begin_text).cached = std::ssize(tokens);
  }

  void begin_call(std::span<const BatchFeed> feeds) {
    rows_.clear();
    Index place = 0;
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.at(feed.sequence);
      text.first = text.tree().size() - feed.rows;
      text.place = place;
      text.next = 0;
      find_ends(feed, text);
      place += feed.rows;
    }
  }
  // A line is one branch, which is fed although no row is wanted: a part of a prompt.
  void find_ends(const BatchFeed& feed, Text& text) {
    text.ends.clear();
    if (text.tree().empty() && !feed.tokens.empty()) text.ends.push_back(-1);
    if (text.tree().empty() || feed.rows == 0) return;
    depth_first_.reserve(static_cast<std::size_t>(text.tree().size()));
    depth_first_(text.tree().view(), feed.rows, [&](Index end) { text.ends.push_back(end); });
  }

  // Takes the next branch of each tree. False if no tree has one left.
  bool begin_round(std::span<const BatchFeed> feeds) {
    round_.clear();
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.at(feed.sequence);
      if (text.next < text.ends.size()) round_.push_back(branch(feed, text, text.ends[text.next++]));
    }
    return !round_.empty();
  }

  // The uncached tokens on the way to `end`. The wanted rows stand after the tree's last tokens, so also after the way's last.
  BatchFeed branch(const BatchFeed& feed, Text& text, Index end) {
    text.tree().view().path_to(end, text.way);
    const Index common = detail::common_length(text.way, text.cached_way);
    if (common < std::ssize(text.cached_way)) this->inner().keep(feed.sequence, text.leave(common).length);
    const Index from = text.cached + common;
    const auto first = std::lower_bound(text.way.begin() + common, text.way.end(), text.first);
    return {{.tokens = detail::after(text.up_to(end), from),
             .from = from,
             .rows = end < 0 ? feed.rows : text.way.end() - first},
            feed.sequence};
  }

  // The model has cached the branches.
  void take_rows(const Output& output) {
    for (const BatchFeed& feed : round_) {
      Text& text = texts_.at(feed.sequence);
      text.cached = text.length();
      text.cached_way = text.way;
    }
    const auto rows =
        detail::checked_rows(output, detail::rows_of(detail::view_of(round_)), this->vocab_size());
    Index row = 0;
    for (const BatchFeed& feed : round_) {
      const Text& text = texts_.at(feed.sequence);
      for (Index i = 0; i < feed.rows; ++i, ++row)
        detail::in_row("model", row, [&] { rows_.add(rows.row(row), place(text, i, feed.rows)); });
    }
  }

  // The place of the i-th of the last `rows` rows on the way.
  static Index place(const Text& text, Index i, Index rows) {
    if (text.way.empty()) return text.place + i;
    return text.place + detail::at(text.way, std::ssize(text.way) - rows + i) - text.first;
  }

  detail::FedTexts<Text> texts_;
  std::vector<BatchFeed> round_;
  detail::DepthFirst depth_first_;
  // Copies, even of stable rows: those live until their positions are truncated away, which may be before the next call.
  StoredRows<detail::RowAsStored<Output>, false> rows_;
};

template <class M>
PathByPath(M&&) -> PathByPath<M>;

}  // namespace specdec

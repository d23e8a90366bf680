// Many sequences for models that have one context.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Makes a BatchModel of any Model that can be copied. Each sequence has a copy; the copies are called one after another.
///
///   ModelPerSequence target{model};    // each sequence gets a copy of the model
///
/// For tests, for models whose copies share their weights, and to measure what one call for all would gain. Takes trees if the
/// model does. If the model returns numbers (probabilities or logits), it returns numbers, too, and ProcessedModel can wrap it.
/// The model is moved in or copied, and begins with an empty context. It can fork(from, to) if the model copies_context.
/// Throws: InvalidArgument if a feed does not begin where its sequence's context ends, or wants more rows than it has tokens;
/// InvalidCall if it has no parents while a tree is open. Then no model is called. InvalidArgument if the model returns rows of
/// the wrong shape; what the model throws.
/// Cost: a call of a model for each feed.
/// Memory: a model for each sequence.
template <Model M>
  requires std::copy_constructible<M>
class ModelPerSequence {
  static_assert(detail::can_be_wrapped<M>());
  using Output = std::remove_cvref_t<detail::OutputOf<M>>;
  using Row = detail::RowAsStored<Output>;
  // A matrix that the model returned by value: the rows of the call are views of it.
  using StoredOutput = std::unique_ptr<const Output>;

 public:
  static constexpr bool reads_again = true;  // a copy's context can be cut back to any length

  explicit ModelPerSequence(M prototype) : prototype_(std::move(prototype)) { prototype_.truncate(0); }

  Index vocab_size() const { return prototype_.vocab_size(); }
  Index context_size() const { return specdec::context_size(prototype_); }
  Index reach() const { return specdec::reach(prototype_); }

  auto forward(std::span<const BatchFeed> feeds) & {
    outputs_.clear();
    rows_.clear();
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      const Text* const text = texts_.find(feeds[k].sequence);
      detail::check_feed(feeds[k], k, text ? text->length : 0, text ? text->nodes : 0);
    }
    std::size_t fed = 0;
    const auto feed_all = [&] {
      for (; fed < feeds.size(); ++fed) feed(feeds[fed]);
    };
    detail::undo_on_error(feed_all, [&] {
      // The last model may have taken its tokens in, too: the error may have been its rows.
      for (std::size_t i = 0; i <= fed; ++i) keep(feeds[i].sequence, feeds[i].from);
    });
    if constexpr (NumberMatrix<Output>) return detail::NumberRows<Row>(rows_, vocab_size());
    else return RowSpan<Row>(rows_, vocab_size());
  }

  void keep(Index sequence, Index length) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return;
    text->model.keep(sequence, length);
    text->length = std::clamp<Index>(length, 0, text->length);
    text->nodes = 0;
  }
  void keep(Index sequence, std::span<const Index> path)
    requires takes_trees<M>
  {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return;
    text->model.keep(sequence, path);
    text->length += std::ssize(path);
    text->nodes = 0;
  }

  void release(Index sequence) { texts_.erase(sequence); }

  /// Copies the model of `from`: see BatchModel.
  void fork(Index from, Index to)
    requires copies_context<M>
  {
    const Text* const text = texts_.find(from);
    if (text == nullptr) return;
    Text& twin = texts_.make(to, *text);
    twin.nodes = 0;
    if constexpr (takes_trees<M>) twin.model.keep(to, std::span<const Index>{});
  }

  Index size() const { return texts_.size(); }

 private:
  struct Text {
    explicit Text(const M& prototype) : model(M(prototype)) {}
    detail::OverFeeds<M> model;
    Index length = 0, nodes = 0;  // of its context, and of the tree that is open after it
  };

  void feed(const BatchFeed& feed) {
    Text& text = texts_.make(feed.sequence, prototype_);
    take_rows(text.model.forward(std::span<const BatchFeed>(&feed, 1)), feed);
    (feed.parents.empty() ? text.length : text.nodes) += std::ssize(feed.tokens);
  }

  template <class Rows>
  void take_rows(Rows&& output, const BatchFeed& feed) {
    if (feed.rows == 0) return;
    const Output* kept = nullptr;
    if constexpr (std::is_lvalue_reference_v<Rows>) kept = &output;
    else kept = outputs_.emplace_back(std::make_unique<const Output>(std::forward<Rows>(output))).get();
    const auto rows = detail::rows_as_stored(*kept);
    Index size = vocab_size();  // RowSpan checks that of distributions
    if constexpr (NumberMatrix<Output>) size = rows.cols();
    detail::check_shape("model", rows.rows(), size, feed.rows, vocab_size());
    for (Index i = 0; i < feed.rows; ++i) rows_.push_back(rows.row(i));
  }

  M prototype_;
  detail::PerSequence<Text> texts_;
  std::vector<StoredOutput> outputs_;
  std::vector<Row> rows_;  // of the last call
};

}  // namespace specdec

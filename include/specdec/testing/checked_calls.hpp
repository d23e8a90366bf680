// Calls of a model that is checked, and the rows that it should return.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "specdec/eigen.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/testing/seen_row.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing::detail {

/// A model for one text or for many, called by feeds. Its rows are copied. The model is its own measure: the row after a
/// context is the one that it gives if the context is fed alone, token by token.
template <class M>
class CheckedCalls {
 public:
  static constexpr bool one_text = specdec::detail::has_one_context<M>;
  using Row = Eigen::RowVectorXd;

  explicit CheckedCalls(M& model) : calls_(model) {}

  Index vocab_size() const { return calls_.model().vocab_size(); }
  void keep(Index sequence, Index length) {
    if (length == 0) fed_ = false;
    calls_.keep(sequence, length);
  }
  void keep(Index sequence, std::span<const Index> path) { calls_.keep(sequence, path); }

  /// The rows of one call.
  std::vector<Row> forward(std::span<const BatchFeed> feeds) {
    fed_ = true;
    decltype(auto) output = calls_.forward(feeds);
    const auto rows = distributions(output);
    const Index wanted = specdec::detail::rows_of(feeds), size = vocab_size();
    specdec::detail::check_shape("model", rows.rows(), specdec::detail::row_size(rows), wanted, size);
    std::vector<Row> out;
    for (Index i = 0; i < wanted; ++i) {
      const auto row = rows.row(i);
      out.emplace_back(size);
      for (Index x = 0; x < size; ++x) out.back()[x] = row.probability(static_cast<Token>(x));
    }
    return out;
  }

  /// Empties the context of a model for one text, if anything was fed.
  void empty() {
    if (one_text && fed_) keep(0, 0);
  }
  /// A sequence that nobody has fed yet; of a model for one text its only one, emptied.
  CheckedSequence fresh() {
    empty();
    return {.number = one_text ? 0 : next_number_++};
  }
  /// Forgets the sequence; the only one of a model for one text stays.
  void release(const CheckedSequence& sequence) {
    if constexpr (!one_text) calls_.release(sequence.number);
  }
  /// Feeds token i of a text, whose first i tokens the sequence holds, and returns the row after it.
  Row feed_one(const CheckedSequence& sequence, std::span<const Token> text, std::size_t i) {
    const BatchFeed feed{{.tokens = text.subspan(i, 1), .from = static_cast<Index>(i), .rows = 1},
                         sequence.number};
    return forward(std::span(&feed, 1)).front();
  }
  /// The rows after each token of a text, which is fed alone, token by token.
  std::vector<Row> rows_alone(std::span<const Token> text) {
    const CheckedSequence sequence = fresh();
    std::vector<Row> out;
    for (std::size_t i = 0; i < text.size(); ++i) out.push_back(feed_one(sequence, text, i));
    release(sequence);
    return out;
  }

  /// The row after a context by the measure of all: fed alone, token by token.
  const Row& expected(const std::vector<Token>& context) {
    if (!expected_.contains(context)) {
      const std::vector<Row> rows = rows_alone(context);
      for (std::size_t i = 0; i < rows.size(); ++i)
        expected_[std::vector<Token>(context.begin(), context.begin() + static_cast<std::ptrdiff_t>(i) + 1)] =
            rows[i];
    }
    return expected_[context];
  }

  /// Forgets the expected rows: rows of a large vocabulary take much memory.
  void forget_expected() { expected_.clear(); }

 private:
  specdec::detail::OverFeeds<M&> calls_;
  Index next_number_ = 0;
  bool fed_ = false;  // since it was emptied
  std::map<std::vector<Token>, Row> expected_ = {};
};

}  // namespace specdec::testing::detail

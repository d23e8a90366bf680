// One call of a model for many texts: its feeds, and whose the rows are that it returns. And tokens that the model knows.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/rows/kinds/row_range.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The tokens, with token 0 in place of each id outside the vocabulary, for a model with a smaller vocabulary. This costs
/// acceptance, never exactness. Returns `tokens` itself if all ids are inside, else a copy that lies in `replaced`.
inline std::span<const Token> tokens_in_vocabulary(std::span<const Token> tokens, Index vocab_size,
                                                   std::vector<Token>& replaced) {
  Token largest = 0;
  for (const Token x : tokens) largest = std::max(largest, x);
  if (largest < vocab_size) return tokens;
  replaced.clear();
  for (const Token x : tokens) replaced.push_back(x < vocab_size ? x : 0);
  return view_of(replaced);
}

/// The feeds of a call. The model returns the rows of the first feed, then the rows of the second, and so on.
class Call {
 public:
  void clear() {
    feeds_.clear();
    firsts_.clear();
    rows_ = 0;
  }
  void add(const Feed& feed, Index sequence) {
    feeds_.push_back({feed, sequence});
    firsts_.push_back(std::exchange(rows_, rows_ + feed.rows));
  }

  bool empty() const { return feeds_.empty(); }
  std::span<const BatchFeed> feeds() const { return view_of(feeds_); }
  /// The number of the first row of feed k.
  Index first_of(Index k) const { return at(firsts_, k); }
  /// Throws unless the model returned as many rows as the feeds ask for. The message calls it `model`.
  void check_rows(const char* model, const auto& all) const {
    if (all.rows() != rows_)
      invalid_argument("the ", model, " returned ", Index{all.rows()}, " rows, expected ", rows_);
  }
  /// The rows of feed k, of all rows of the call.
  auto rows_of(const auto& all, Index k) const { return RowRange(all, at(firsts_, k), at(feeds_, k).rows); }

 private:
  std::vector<BatchFeed> feeds_;
  std::vector<Index> firsts_;  // of the rows of each feed
  Index rows_ = 0;             // of all feeds
};

}  // namespace specdec::detail

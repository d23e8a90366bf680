// The columns of a matrix that one rank holds.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/row_cache.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The kind of number that a rank gives about its part of a row, before normalisation.
enum class RankWeight {
  mass,       // rows of probabilities: their sum
  logarithm,  // rows that normalise themselves (logits): the logarithm of the normaliser
  largest,    // rows with all probability on the largest logit: that logit
};

/// Whether this part of a row has no token that can be drawn. This is no error. A part with NaN is not empty.
template <Distribution R>
bool has_no_token(const R& row) {
  const auto nan = [&](Token x) {
    if constexpr (NormalisesItself<R>) return std::isnan(static_cast<double>(row.logits()[x]));
    else return false;
  };
  for (Token x = 0; x < row.vocab_size(); ++x)
    if (possible(row, x) || nan(x)) return false;
  return true;
}

/// The rows of a matrix over tokens first, first + 1, ... Rows that normalise themselves, such as logits, are distributions
/// over these tokens alone.
template <DistributionMatrix M>
class RankColumns {
  static constexpr bool normalises_itself = NormalisesItself<RowOf<M>>;

 public:
  using Row = RowOf<M>;

  RankColumns(const M& matrix, Index first) : rows_(matrix), first_(first) {}

  Index rows() const { return rows_.matrix().rows(); }
  Index first() const { return first_; }
  Index count() const {
    if constexpr (has_vocab_size<M>) return rows() > 0 ? rows_.matrix().vocab_size() : 0;
    else return rows() > 0 ? rows_[0].vocab_size() : 0;
  }
  bool hold(Token x) const { return x >= first_ && x < first_ + count(); }
  const Row& row(Index i) const { return rows_[i]; }

  RankWeight kind_of_weight(Index i) const {
    if constexpr (normalises_itself)
      return rows_[i].is_argmax() ? RankWeight::largest : RankWeight::logarithm;
    else return RankWeight::mass;
  }
  double weight(Index i) const {
    const Row& row = rows_[i];
    if constexpr (!normalises_itself) return sum(i, first_, count());
    else if (has_no_token(row)) return -std::numeric_limits<double>::infinity();
    else return row.is_argmax() ? static_cast<double>(row.largest()) : row.log_sum_exp().value;
  }

  /// The number that compares the likeliest tokens x of all parts: the probability in the whole row; for rows that normalise
  /// themselves the logit, since equal logits can get different probabilities when parts are rounded.
  double height(Index i, Token x) const {
    if constexpr (normalises_itself) return static_cast<double>(rows_[i].logits()[x]);
    else return static_cast<double>(rows_[i].probability(x));
  }
  /// Tokens that can be drawn have a larger height().
  static constexpr double least_height = normalises_itself ? -std::numeric_limits<double>::infinity() : 0.0;

  /// The probability in the rank's own part; 0 for tokens elsewhere.
  double probability(Index i, Token x) const {
    return hold(x) ? static_cast<double>(rows_[i].probability(static_cast<Token>(x - first_))) : 0.0;
  }
  /// The sum over the tokens start..start + count − 1 that this rank holds.
  double sum(Index i, Index start, Index count) const {
    const Index from = std::clamp<Index>(start - first_, 0, this->count()),
                to = std::clamp<Index>(start + count - first_, 0, this->count());
    return from < to ? static_cast<double>(rows_[i].sum(from, to - from)) : 0.0;
  }

 private:
  RowCache<M> rows_;
  Index first_;
};

}  // namespace specdec::detail

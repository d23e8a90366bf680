// The columns of a matrix that one rank holds.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
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

/// The total probability of each rank's columns in each row.
class RankMasses {
 public:
  void resize(Index rows, Index ranks) {
    ranks_ = ranks;
    detail::resize(masses_, rows * ranks);
    detail::resize(kinds_, rows);
  }

  /// Sets the masses of row i; weight_of(r) is the number that rank r gave.
  /// Throws: InvalidDistribution if a part sums to less than 0, or if all parts sum to more than `most`, or to no finite
  /// number. A row whose parts all sum to 0 is a dead end (rows/read/dead_end.hpp).
  template <class WeightOf>
  void take(Index i, RankWeight kind, const WeightOf& weight_of, double most) {
    detail::at(kinds_, i) = kind;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double largest = -infinity, all = 0;
    for (Index r = 0; r < ranks_; ++r) largest = std::max(largest, weight_of(r));
    for (Index r = 0; r < ranks_; ++r) {
      const double w = weight_of(r);
      double& mass = detail::at(row(i), r);
      if (kind == RankWeight::mass) mass = w;
      else if (w == -infinity) mass = 0;  // and −inf − (−inf) is NaN
      else if (kind == RankWeight::logarithm || std::isnan(w)) mass = std::exp(w - largest);
      else mass = w == largest && all == 0 ? 1.0 : 0.0;  // the lowest id among equals
      if (mass < 0) invalid_distribution("the part of rank ", r, " sums to ", mass);
      all += mass;
    }
    if (!(all >= 0) || !(all <= std::numeric_limits<double>::max()))
      invalid_distribution("the ranks' parts sum to ", all);
    if (kind == RankWeight::mass && all > most)
      invalid_distribution("the ranks' parts sum to ", all, ", which is more than 1");
    if (kind != RankWeight::mass && all > 0)
      for (double& mass : row(i)) mass /= all;
  }

  /// Sets all masses of row i to 0.
  void clear(Index i) { std::ranges::fill(row(i), 0.0); }

  /// Whether no rank has any mass in row i.
  bool is_dead_end(Index i) const {
    return std::ranges::none_of(row(i), [](double mass) { return mass > 0; });
  }

  double of(Index i, Index rank) const { return detail::at(row(i), rank); }

  /// The factor from the rank's own probabilities to the whole row's.
  double share(Index i, Index rank) const { return normalised_alone(i) ? of(i, rank) : 1.0; }

  /// The rank that draws for a number u in [0, 1). A row that sums to less than 1 is treated as normalised.
  Index owner(Index i, double u) const {
    u = wrap(i, u);
    Index owner = -1;  // if rounding puts u beyond all parts, the last rank with mass
    for (Index r = 0; r < ranks_; ++r) {
      if (of(i, r) > 0) owner = r;
      u -= of(i, r);
      if (u < 0 && owner == r) break;
    }
    return owner;
  }

  /// The number to pass to the sampler of the owner's part.
  double inside(Index i, Index owner, double u) const {
    u = wrap(i, u);
    for (Index r = 0; r < owner; ++r) u -= of(i, r);
    const double most = of(i, owner) * (1 - 0x1p-52);
    u = std::clamp(u, 0.0, most);
    return normalised_alone(i) ? u / of(i, owner) : u;
  }

 private:
  // A u at or above the total mass is uniform there; it is rescaled to [0, total mass).
  double wrap(Index i, double u) const {
    double all = 0;
    for (const double mass : row(i)) all += mass;
    return u < all ? u : (u - all) / (1 - all) * all;
  }

  std::span<double> row(Index i) {
    return std::span(masses_).subspan(static_cast<std::size_t>(i * ranks_), static_cast<std::size_t>(ranks_));
  }
  std::span<const double> row(Index i) const { return detail::part(masses_, i * ranks_, ranks_); }
  bool normalised_alone(Index i) const { return detail::at(kinds_, i) != RankWeight::mass; }

  Index ranks_ = 0;
  std::vector<double> masses_;
  std::vector<RankWeight> kinds_;
};

}  // namespace specdec::detail

// Sparse rows: a list of tokens and their probabilities, such as top-k leaves behind.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/prefix_sampler.hpp"

namespace specdec {
namespace detail {

/// The first k of a sparse row with support(k) >= x; support_size() where there is none.
template <SparseRowLike R>
Index lower_bound(const R& row, Index x) {
  Index first = 0, count = row.support_size();
  while (count > 0) {
    const Index half = count / 2;
    if (static_cast<Index>(row.support(first + half)) < x) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

/// Ids out of order would be read out of bounds.
inline void check_ascending(Index least, Token x) {
  if (x < least) throw InvalidDistribution(message("the ids of a sparse row do not ascend at ", x));
}

/// Ids are taken on trust until one of them is the answer.
inline void check_id(Token x, Index vocab_size) {
  if (x < 0 || x >= vocab_size)
    throw InvalidDistribution(message("id ", x, " is outside the vocabulary 0..", vocab_size - 1));
}

/// The support of a sparse row as a row of its own: position k in place of token support(k).
template <SparseRowLike R>
class Positions {
 public:
  explicit Positions(const R& row) : row_(row) {}
  Index vocab_size() const { return row_.support_size(); }
  double probability(Token k) const { return row_.weight(k); }
  double sum(Index start, Index count) const {
    double sum = 0;
    for (Index k = start; k < start + count; ++k) sum += row_.weight(k);
    return sum;
  }

 private:
  R row_;
};

/// The inverse distribution function of a sparse row: that of its positions.
template <class R>  // a SparseRowLike, complete only by the time of a draw
class SparseSampler {
 public:
  explicit SparseSampler(const R& row) : row_(row), draw_(Positions<R>(row)) {}

  Token operator()(double u) {
    const Token x = row_.support(draw_(u));
    check_id(x, row_.vocab_size());
    return x;
  }

 private:
  R row_;
  PrefixSampler<Positions<R>> draw_;
};

}  // namespace detail

/// A row of probabilities given for some tokens only, by ascending id; the others have probability 0. The
/// probabilities must sum to 1 like any row's. Ids may be of any integral type.
///
/// Throws std::invalid_argument: ids and probabilities of different number. That ids ascend and lie in the
/// vocabulary is taken on trust where that costs O(k): see validate(). Cost: a look-up takes log k steps, a
/// draw at most k; nothing depends on the size of the vocabulary.
template <Real S, std::integral Id = Token>
class SparseRow {
 public:
  SparseRow(std::span<const Id> ids, std::span<const S> probabilities, Index vocab_size)
      : ids_(ids), probabilities_(probabilities), vocab_size_(vocab_size) {
    if (ids.size() != probabilities.size())
      detail::invalid_argument("a sparse row has ", ids.size(), " ids, but ", probabilities.size(),
                               " probabilities");
  }

  static constexpr bool constant_time_probability = true;  // all but: a binary search

  Index vocab_size() const { return vocab_size_; }
  Index support_size() const { return std::ssize(ids_); }
  /// An id that no Token can hold is told as the largest, which no vocabulary has.
  Token support(Index k) const {
    const Id id = ids_[static_cast<std::size_t>(k)];
    return std::in_range<Token>(id) ? static_cast<Token>(id) : std::numeric_limits<Token>::max();
  }
  double weight(Index k) const {
    return static_cast<double>(static_cast<Arithmetic<S>>(probabilities_[static_cast<std::size_t>(k)]));
  }

  double probability(Token x) const {
    const Index k = detail::lower_bound(*this, x);
    return k < support_size() && support(k) == x ? weight(k) : 0.0;
  }

  double sum(Index start, Index count) const {
    double sum = 0;
    for (Index k = detail::lower_bound(*this, start); k < support_size() && support(k) < start + count; ++k)
      sum += weight(k);
    return sum;
  }

  detail::SparseSampler<SparseRow> sampler() const { return detail::SparseSampler<SparseRow>(*this); }

  /// Lowest id among equals. Throws InvalidDistribution on NaN and where no token has positive probability.
  Token argmax() const {
    Index best = -1;
    for (Index k = 0; k < support_size(); ++k) {
      if (!(weight(k) >= 0)) throw InvalidDistribution(detail::message("a probability is ", weight(k)));
      if (weight(k) > (best < 0 ? 0.0 : weight(best))) best = k;
    }
    if (best < 0) throw InvalidDistribution("no token has positive probability");
    detail::check_id(support(best), vocab_size_);
    return support(best);
  }

 private:
  std::span<const Id> ids_;
  std::span<const S> probabilities_;
  Index vocab_size_;
};

}  // namespace specdec

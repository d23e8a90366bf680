// The concepts of rows and of matrices of rows: what a verifier may ask of them.
//
// A row is a probability distribution over the vocabulary. It answers two questions. What is the probability of this token?
// Which token does this uniform number draw? No rule of the library needs more, because a race (chance/race.hpp) replaces
// residuals. So a verifier takes dense probabilities, logits, sparse lists, one-hot rows, or rows on another machine.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <type_traits>
#include <utility>

#include "specdec/eigen.hpp"
#include "specdec/rows/traits.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// One distribution over tokens 0..vocab_size()-1. Cheap to copy: a view, not a container.
///
///   vocab_size()      number of tokens; all other tokens have probability 0
///   probability(x)    the probability of token x, 0 <= x < vocab_size()
///   sampler()         the inverse distribution function: called with u uniform on [0, 1) it returns a token, never one of
///                     probability 0. It throws InvalidDistribution if the row has no mass or holds NaN. It may be called
///                     many times, and may keep what it has read of the row for later draws. The row outlives it
template <class R>
concept Distribution = std::copy_constructible<R> && detail::HasVocabSize<R> && detail::HasProbability<R> &&
                       detail::HasSampler<R>;

/// The probability of a token; 0 if the token lies outside the row's vocabulary.
template <class R>
double probability(const R& row, Token x) {
  if constexpr (detail::AnswersAnyId<R>) return row.probability(x);
  else return x < row.vocab_size() ? static_cast<double>(row.probability(x)) : 0.0;
}

/// The natural logarithm of a token's probability; −inf if the probability is 0. It calls the row's own log_probability(x)
/// if there is one, which stays finite where the probability underflows; else it takes the logarithm of the probability.
template <class R>
double log_probability(const R& row, Token x) {
  if constexpr (detail::TellsLogProbability<R>) return row.log_probability(x);
  else return std::log(probability(row, x));
}

/// Whether a token may have a probability above 0. It calls the row's own possible(x) if there is one: cheaper than the
/// probability, but it may answer yes for a token of probability 0.
template <class R>
bool possible(const R& row, Token x) {
  if (x >= row.vocab_size()) return false;
  if constexpr (detail::TellsPossible<R>) return row.possible(x);
  else return row.probability(x) != 0;
}

/// A hint that token x will be looked up soon, for rows that have a prefetch(x).
template <class R>
void prefetch(const R& row, Token x) {
  if constexpr (detail::Prefetches<R>)
    if (x < row.vocab_size()) row.prefetch(x);
}

/// A list of rows: row(i) is the distribution after i drafted tokens. Cheap to copy.
/// A matrix without vocab_size() fits any vocabulary: one-hot rows are such a matrix.
template <class M>
concept DistributionMatrix =
    std::copy_constructible<M> && detail::HasRows<M> && requires(const M& matrix, Index i) {
      { matrix.row(i) } -> Distribution;
    };

/// The row type of a matrix.
template <class M>
using RowOf = std::remove_cvref_t<decltype(std::declval<const M&>().row(Index{}))>;

namespace detail {

/// A segment in memory of its own.
template <class Scalar = double>
using Segment = Eigen::Array<Scalar, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size>;

/// A segment as contiguous floats or doubles: the segment itself if it is contiguous already, else a copy.
template <class Given>
decltype(auto) side_by_side(const Given& segment) {
  using Stored = typename Given::Scalar;
  using Scalar = std::conditional_t<std::same_as<Stored, float>, float, double>;
  constexpr bool lies_so = [] {
    if constexpr ((Given::Flags & Eigen::DirectAccessBit) == 0) return false;
    else return std::same_as<Stored, Scalar> && Given::InnerStrideAtCompileTime == 1;
  }();
  if constexpr (lies_so) return (segment);
  else return Segment<Scalar>(segment.template cast<Scalar>());
}

/// A segment of doubles for rows of the types R..., on which it depends so that only programs with such rows compile it.
template <class... R>
using GatheredSegment =
    Segment<decltype((0.0 + ... + static_cast<double>(std::declval<const R&>().probability(Token{}))))>;

/// An Eigen expression that is computed wherever it is read, such as 2 * p.
template <class M>
concept ComputedExpression =
    std::derived_from<M, Eigen::DenseBase<M>> && (M::Flags & Eigen::DirectAccessBit) == 0;

/// Compiles only if M is a DistributionMatrix, or nothing that looks like one; the error names the concept. An Eigen
/// expression, which has cols(), is not meant to be one, but must lie in memory.
template <class M>
consteval bool fits_rows() {
  static_assert(!ComputedExpression<M>,
                "an Eigen expression has no numbers in memory: evaluate it first, as in (2 * p).eval()");
  if constexpr (
      requires(const M& matrix, Index i) { matrix.row(i); } &&
      !requires(const M& matrix) { matrix.cols(); }) {
    static_assert(Distribution<RowOf<M>>, "the rows of the matrix are no specdec::Distribution");
    static_assert(DistributionMatrix<M>, "the matrix of rows is no specdec::DistributionMatrix");
  }
  return true;
}

}  // namespace detail
}  // namespace specdec

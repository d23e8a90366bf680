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
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// One requirement each: a concept is the conjunction of its requirements, and a fits_... function says which one is missing.
template <class T>
concept HasVocabSize = requires(const T& it) {
  { it.vocab_size() } -> Count;
};
template <class R>
concept HasProbability = requires(const R& row, Token x) {
  { row.probability(x) } -> std::convertible_to<double>;
};
template <class R>
concept HasSampler = requires(const R& row, double u) {
  { row.sampler()(u) } -> std::same_as<Token>;
};
template <class M>
concept HasRows = requires(const M& matrix) {
  { matrix.rows() } -> Count;
};

}  // namespace detail

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

/// A row that also has argmax(): its most probable token, the lowest id among equals. Greedy decoding needs it.
template <class R>
concept ArgmaxRow = requires(const R& row) {
  { row.argmax() } -> std::same_as<Token>;
};

/// A row that can be summed in pieces: sum(start, count) is the mass of `count` tokens from `start` on.
template <class R>
concept SummableRow =
    detail::HasVocabSize<R> && detail::HasProbability<R> && requires(const R& row, Index i) {
      { row.sum(i, i) } -> std::convertible_to<double>;
    };

/// The most tokens that a SegmentedRow is asked for in one call. A segment of this size stays in the innermost cache.
inline constexpr Index max_segment_size = 1024;

namespace detail {

/// A segment in memory of its own.
template <class Scalar = double>
using Segment = Eigen::Array<Scalar, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size>;

/// A segment of doubles for rows of the types R.... It depends on these types so that it is compiled only for programs that
/// use such rows.
template <class... R>
using GatheredSegment =
    Segment<decltype((0.0 + ... + static_cast<double>(std::declval<const R&>().probability(Token{}))))>;

}  // namespace detail

/// A row that returns segments of up to max_segment_size tokens as Eigen arrays or expressions. Arithmetic over the row is
/// then fused and vectorised.
template <class R>
concept SegmentedRow = requires(const R& row, Index i) {
  { row.segment(i, i).sum() };
};

/// A row that lists the tokens that may have mass. The tokens support(0) < support(1) < ... have the probabilities
/// listed(0), listed(1), .... All other tokens have probability 0.
template <class R>
concept ListedRow = requires(const R& row, Index k) {
  { row.support_size() } -> detail::Count;
  { row.support(k) } -> std::convertible_to<Token>;
  { row.listed(k) } -> std::convertible_to<double>;
};

namespace detail {

/// A row that is spread over ranks: each rank has only a part of it. To sum over the row, each rank sums over its own part,
/// and only one number is exchanged. spread() offers these calls; all ranks make them together:
///
///   spread().sum(start, end, f)          sums over the tokens start..end − 1. Each rank that has some of these tokens calls
///                                        f(part, from, to): from..to − 1 are their places in the rank's part, and part(row)
///                                        is the rank's part of a row. Returns the sum of all results
///   spread().draw(u, row)                the token that u of [0, 1) draws from the row
///   spread().first_to_arrive(row, f)     each rank calls f(its part of the row, first token of the part), which returns an
///                                        Arrival. Returns the token that arrives first on any rank
///
/// A row that is computed from spread rows, such as a residual, offers the spread() of one of them. It also offers
/// made_of(part): the row computed from this rank's parts of these rows.
template <class R>
concept SpreadRow = requires(const R& row) { row.spread(); };

}  // namespace detail

/// The probability of a token; 0 if the token lies outside the row's vocabulary.
template <class R>
double probability(const R& row, Token x) {
  if constexpr (requires { R::answers_any_id; }) return row.probability(x);
  else return x < row.vocab_size() ? static_cast<double>(row.probability(x)) : 0.0;
}

/// The natural logarithm of a token's probability; −inf if the probability is 0. It calls the row's own log_probability(x)
/// if there is one, which stays finite where the probability underflows; else it takes the logarithm of the probability.
template <class R>
double log_probability(const R& row, Token x) {
  if constexpr (requires { row.log_probability(x); }) return row.log_probability(x);
  else return std::log(probability(row, x));
}

/// Whether a token may have a probability above 0. It calls the row's own possible(x) if there is one: cheaper than the
/// probability, but it may answer yes for a token of probability 0.
template <class R>
bool possible(const R& row, Token x) {
  if (x >= row.vocab_size()) return false;
  if constexpr (requires { row.possible(x); }) return row.possible(x);
  else return row.probability(x) != 0;
}

/// A hint that token x will be looked up soon, for rows that have a prefetch(x).
template <class R>
void prefetch(const R& row, Token x) {
  if constexpr (requires { row.prefetch(x); })
    if (x < row.vocab_size()) row.prefetch(x);
}

/// Whether every look-up is cheap, even the first one. The row type says so with a static member of this name. Rows of
/// logits do not say so: their first look-up reads the whole row.
template <class R>
inline constexpr bool constant_time_probability = [] {
  if constexpr (requires { R::constant_time_probability; })
    return static_cast<bool>(R::constant_time_probability);
  else return false;
}();

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

/// Compiles only if R is a Distribution; the error names the missing function.
template <class R>
consteval bool fits_row() {
  if constexpr (!Distribution<R>) {
    static_assert(std::copy_constructible<R>, "the row cannot be copied: see specdec::Distribution");
    static_assert(
        HasVocabSize<R>,
        "the row has no vocab_size() const that returns the number of tokens: see specdec::Distribution");
    static_assert(HasProbability<R>,
                  "the row has no probability(specdec::Token x) const that returns a double: see "
                  "specdec::Distribution");
    static_assert(
        HasSampler<R>,
        "the row has no sampler() const that maps a double to a specdec::Token: see specdec::Distribution");
  }
  return true;
}

/// An Eigen expression that is computed wherever it is read, such as 2 * p.
template <class M>
concept ComputedExpression =
    std::derived_from<M, Eigen::DenseBase<M>> && (M::Flags & Eigen::DirectAccessBit) == 0;

/// Compiles only if M is a DistributionMatrix, or nothing that looks like one; the error names the missing function. An
/// Eigen expression, which has cols(), is not meant to be one, but must lie in memory.
template <class M>
consteval bool fits_rows() {
  static_assert(!ComputedExpression<M>,
                "an Eigen expression has no numbers in memory: evaluate it first, as in (2 * p).eval()");
  constexpr bool looks_like_rows =
      requires(const M& matrix, Index i) { matrix.row(i); } && !requires(const M& matrix) { matrix.cols(); };
  if constexpr (looks_like_rows && !DistributionMatrix<M>) {
    static_assert(std::copy_constructible<M>,
                  "the matrix of rows cannot be copied: see specdec::DistributionMatrix");
    static_assert(HasRows<M>,
                  "the matrix of rows has no rows() const that returns how many there are: see "
                  "specdec::DistributionMatrix");
    fits_row<RowOf<M>>();
  }
  return true;
}

}  // namespace detail

/// Whether a matrix has vocab_size(). The target's matrix must have it.
template <class M>
inline constexpr bool has_vocab_size = detail::HasVocabSize<M>;

}  // namespace specdec

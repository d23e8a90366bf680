// What a verifier may ask of a row, and what it may ask of a matrix of rows.
//
// A row is a probability distribution over the vocabulary, seen through two questions: what probability has
// this token, and which token does this uniform number draw? No rule of the library needs more (algorithms
// that replace residuals by a race are why), so dense probabilities, logits, sparse lists, one-hot rows, or
// rows that live on another machine can all stand behind the same five lines of a verifier.
#pragma once

#include <cmath>
#include <concepts>
#include <type_traits>
#include <utility>

#include "specdec/types.hpp"

namespace specdec {

/// One distribution over tokens 0..vocab_size()-1. Cheap to copy: a view, not a container.
///
///   vocab_size()      number of tokens; those beyond it have probability 0
///   probability(x)    the probability of token x, 0 <= x < vocab_size()
///   sampler()         the inverse distribution function: called with u uniform on [0, 1) it gives a token, never one of
///                     probability 0, and throws InvalidDistribution where the row has no mass or holds NaN. It may be
///                     asked many times, and what it has learnt of the row serves the later draws. The row outlives it
template <class R>
concept Distribution = std::copy_constructible<R> && requires(const R& row, Token x, double u) {
  { row.vocab_size() } -> detail::Count;
  { row.probability(x) } -> std::convertible_to<double>;
  { row.sampler()(u) } -> std::same_as<Token>;
};

/// A row that also knows its most probable token, the lowest id among equals: what greedy decoding asks.
template <class R>
concept ArgmaxRow = requires(const R& row) {
  { row.argmax() } -> std::same_as<Token>;
};

/// A row that can be summed piecewise: sum(start, count) is the mass of `count` tokens from `start` on.
template <class R>
concept SummableRow = requires(const R& row, Token x, Index i) {
  { row.vocab_size() } -> detail::Count;
  { row.probability(x) } -> std::convertible_to<double>;
  { row.sum(i, i) } -> std::convertible_to<double>;
};

/// The most tokens that a SegmentedRow is asked for at a time: a stretch that stays in the innermost cache.
inline constexpr Index max_segment_size = 1024;

namespace detail {

/// A segment in memory of its own.
template <class Scalar = double>
using Segment = Eigen::Array<Scalar, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size>;

}  // namespace detail

/// A row that hands out pieces of itself, of up to max_segment_size tokens, as Eigen arrays or expressions, so
/// that arithmetic over it is fused and vectorised.
template <class R>
concept SegmentedRow = requires(const R& row, Index i) {
  { row.segment(i, i).sum() };
};

/// A row that lists the tokens that may have mass: support(0) < support(1) < ... have the probabilities
/// listed(0), listed(1), ..., and all others have none.
template <class R>
concept ListedRow = requires(const R& row, Index k) {
  { row.support_size() } -> detail::Count;
  { row.support(k) } -> std::convertible_to<Token>;
  { row.listed(k) } -> std::convertible_to<double>;
};

namespace detail {

/// A row of which only a part is here, as of rows spread over ranks: the others who read it have the rest. What is summed over
/// such a row each of them sums over its own part, so that one number crosses. spread() offers that; all of them ask together:
///
///   spread().sum(start, end, f)          Σ f(part, from, to) over all parts that have any of tokens start..end − 1: to this
///                                        part they are from..to − 1. part(row) is what is here of any row
///   spread().draw(u, row)                the token that u of [0, 1) draws from the row
///   spread().first_to_arrive(row, f)     the token of the first of all arrivals f(part of the row, its first token)
///
/// A row that is made of such rows offers the spread() of one of them, and made_of(part): itself, made of part(row) in place
/// of each row that it is made of.
template <class R>
concept SpreadRow = requires(const R& row) { row.spread(); };

}  // namespace detail

/// The probability of a token that may lie beyond the row's vocabulary, where there is none.
template <class R>
double probability(const R& row, Token x) {
  if constexpr (requires { R::answers_any_id; }) return row.probability(x);
  else return x < row.vocab_size() ? static_cast<double>(row.probability(x)) : 0.0;
}

/// The natural logarithm of a token's probability, −inf where that is 0: by the row's own log_probability(x), which is finite
/// where the probability underflows, or of what it gives the token.
template <class R>
double log_probability(const R& row, Token x) {
  if constexpr (requires { row.log_probability(x); }) return row.log_probability(x);
  else return std::log(probability(row, x));
}

/// Whether a token may have a probability above 0: by the row's own possible(x), where that is cheaper than
/// the probability and may say yes too often.
template <class R>
bool possible(const R& row, Token x) {
  if (x >= row.vocab_size()) return false;
  if constexpr (requires { row.possible(x); }) return row.possible(x);
  else return row.probability(x) != 0;
}

/// A hint that the row will be asked about x soon, for rows that have a prefetch(x).
template <class R>
void prefetch(const R& row, Token x) {
  if constexpr (requires { row.prefetch(x); })
    if (x < row.vocab_size()) row.prefetch(x);
}

/// Whether a look-up is cheap from the first on, as the row type says with a static member of this name. Rows
/// of logits do not: their first one reads the row.
template <class R>
inline constexpr bool constant_time_probability = [] {
  if constexpr (requires { R::constant_time_probability; })
    return static_cast<bool>(R::constant_time_probability);
  else return false;
}();

/// Rows that follow one another: row(i) is the distribution after i drafted tokens. Cheap to copy.
/// A matrix without vocab_size() fits any vocabulary (one-hot rows do).
template <class M>
concept DistributionMatrix = std::copy_constructible<M> && requires(const M& matrix, Index i) {
  { matrix.rows() } -> detail::Count;
  { matrix.row(i) } -> Distribution;
};

/// Whether a matrix tells the size of its vocabulary, as that of a target must.
template <class M>
inline constexpr bool has_vocab_size = requires(const M& matrix) {
  { matrix.vocab_size() } -> detail::Count;
};

/// The row type of a matrix.
template <class M>
using RowOf = std::remove_cvref_t<decltype(std::declval<const M&>().row(Index{}))>;

}  // namespace specdec

// What a row, a matrix of rows or a sampler may offer, each with a name. All code asks by these names.
//
// A row must have vocab_size(), probability() and sampler(): see specdec::Distribution. All else is optional, and makes
// something faster or possible. A row that wraps another one says with RowAdaptor (rows/row_adaptor.hpp) what it passes on.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <span>

#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

// ---- What each row must have

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

}  // namespace detail

// ---- Ways to read a whole row

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

/// A row that returns segments of up to max_segment_size tokens as Eigen expressions: arithmetic is then fused and vectorised.
template <class R>
concept SegmentedRow = requires(const R& row, Index i) {
  { row.segment(i, i).sum() };
};

/// The most tokens that a SegmentedRow is asked for in one call. A segment of this size stays in the innermost cache.
inline constexpr Index max_segment_size = 1024;

/// A row that lists the tokens that may have mass. The tokens support(0) < support(1) < ... have the probabilities
/// listed(0), listed(1), .... All other tokens have probability 0.
template <class R>
concept ListedRow = requires(const R& row, Index k) {
  { row.support_size() } -> detail::Count;
  { row.support(k) } -> std::convertible_to<Token>;
  { row.listed(k) } -> std::convertible_to<double>;
};

// ---- Single tokens

/// Whether every look-up is cheap, even the first one. The row type says so with a static member of this name. Rows of
/// logits do not say so: their first look-up reads the whole row.
template <class R>
inline constexpr bool constant_time_probability =
    requires { requires static_cast<bool>(R::constant_time_probability); };

namespace detail {

/// probability(x) is 0 for an id above the vocabulary, and need not be guarded.
template <class R>
concept AnswersAnyId = requires { R::answers_any_id; };
/// log_probability(x): the natural logarithm, finite where the probability underflows.
template <class R>
concept TellsLogProbability = requires(const R& row, Token x) { row.log_probability(x); };
/// possible(x): whether token x may have mass. Cheaper than its probability.
template <class R>
concept TellsPossible = requires(const R& row, Token x) { row.possible(x); };
/// prefetch(x): token x will be looked up soon.
template <class R>
concept Prefetches = requires(const R& row, Token x) { row.prefetch(x); };

// ---- What a row knows of itself as a whole

/// The rounding error of a small probability of the row. The row type tells it by a static member of this name; else it is 0.
template <class R>
inline constexpr double rounding_of_small = [] {
  if constexpr (requires { R::rounding_of_small; }) return static_cast<double>(R::rounding_of_small);
  else return 0.0;
}();
/// The relative rounding error of the row's numbers, by the static member `rounding`; else 0.
template <class R>
inline constexpr double relative_rounding = [] {
  if constexpr (requires { R::rounding; }) return static_cast<double>(R::rounding);
  else return 0.0;
}();
/// is_dead_end(): whether no token has a positive probability, without a pass that a draw would not need.
template <class R>
concept KnowsDeadEnd = requires(const R& row) { row.is_dead_end(); };
/// refuse_draw() throws what a draw from a dead end throws.
template <class R>
concept RefusesDraws = KnowsDeadEnd<R> && requires(const R& row) { row.refuse_draw(); };
/// largest_probability(): the row that it wraps knows how to find it.
template <class R>
concept KnowsLargestProbability = requires(const R& row) { row.largest_probability(); };
/// known_stretch(): the length of the stretches with a known sum, which start at its multiples; 0 if no sums are known.
template <class R>
concept KnowsStretches = requires(const R& row) { row.known_stretch(); };
/// unprocessed(): the row before temperature, cuts and hooks.
template <class R>
concept KnowsUnprocessed = requires(const R& row) { row.unprocessed(); };
/// give_away(): the row holds a token that was drawn already, for one sampler, and loses it now.
template <class R>
concept HoldsDrawnToken = requires(const R& row) { row.give_away(); };
/// held() is a variant: the kind of the row is known at run time only.
template <class R>
concept RowOfSomeKind = requires(const R& row) { row.held().index(); };
/// over(copy) is the row over a copy of its logits.
template <class R>
concept MovesToCopy = requires(const R& row) { row.over(row.logits().data()); };
/// anew(logits) is a View, a row of its own over other logits.
template <class R, class View, class Scalar>
concept BeginsAnew = requires(const R& row, const Scalar* logits) {
  { row.anew(logits) } -> std::same_as<View>;
};
/// log_sum_exp(), where not is_argmax(): the row is normalised over its logits(), whichever part of a row these are.
template <class R>
concept NormalisesItself = requires(const R& row) {
  row.log_sum_exp();
  row.is_argmax();
};
/// named(f) calls f(); errors get the row's name.
template <class R>
concept HasName = requires(const R& row, void (*f)()) { row.named(f); };
/// unnamed(): the row that has got a name.
template <class R>
concept WrappedInName = HasName<R> && requires(const R& row) { row.unnamed(); };
/// A row without its name.
template <class R>
constexpr const auto& unnamed(const R& row) {
  if constexpr (WrappedInName<R>) return row.unnamed();
  else return row;
}

// ---- Rows that live elsewhere

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
template <class R, class Part>
concept MadeOfParts = requires(const R& row, const Part& part) { row.made_of(part); };
/// settle(w, q, numbers of one address): a row that ends races by sums in an order of its own.
template <class P, class Q, class Pair>
concept SettlesRaces =
    requires(const P& p, const Q& q, const Pair& pair) { unnamed(p).settle(1.0, unnamed(q), pair); };

// ---- Matrices, copies and samplers

template <class M>
concept HasRows = requires(const M& matrix) {
  { matrix.rows() } -> Count;
};
/// probabilities(tokens, out): the probability of tokens[i] in row i, for all i in one call; for the rows from `first` on.
template <class M>
inline constexpr bool looks_up_together =
    requires(const M& matrix, TokenIds tokens, std::span<double> out) { matrix.probabilities(tokens, out); };
template <class M>
concept LooksUpFromAnyRow = requires(const M& matrix, TokenIds tokens, std::span<double> out, Index first) {
  matrix.probabilities(tokens, out, first);
};
/// uniform(like): a RowCopy that also writes rows in which all tokens are equally likely.
template <class Copy, class R, class View>
concept MakesUniform = requires(Copy& copy, const R& like) {
  { copy.uniform(like) } -> std::same_as<View>;
};
/// draw(uniform): a sampler that may take several random numbers for a draw, to read less of the row.
template <class S, class Uniform>
concept DrawsWithSeveral = requires(S& sampler, const Uniform& uniform) { sampler.draw(uniform); };

}  // namespace detail

/// Whether a matrix has vocab_size(). The target's matrix must have it.
template <class M>
inline constexpr bool has_vocab_size = detail::HasVocabSize<M>;

}  // namespace specdec

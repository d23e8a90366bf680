// Now and then, the sum of a row that is judged: for rows that were cut and not normalised again.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

#ifdef NDEBUG
inline Index verifications_per_check = 0;
#else
inline Index verifications_per_check = 64;
#endif
inline thread_local Index verifications = 0;

/// How much the rounding of stored numbers may change the sum of a row. The row type tells its rounding.
template <class R>
double rounding_of_sum(Index vocab_size) {
  return static_cast<double>(vocab_size) * rounding_of_small<R> + relative_rounding<R>;
}

/// Rows of stored probabilities. (Logits are normalised by what is read of them, and rows over ranks are summed together.)
template <class R>
concept CheckedRow = constant_time_probability<R> && !SpreadRow<R>;

/// A row without mass passes: it is an error where something is drawn from it (see dead_end.hpp). So does NaN: a row after an
/// impossible token may hold it, and it is an error where a decision reads it. A row that was copied or mapped may be of another
/// type than the numbers were stored in, so 1 % is allowed, more than any rounding of halves and bfloat16. The sum is taken number by
/// number: a second caller of the row's own sum() would keep compilers from inlining it where draws need it.
template <CheckedRow R>
void check_sum(const R& row) {
  double sum = 0;
  if constexpr (ListedRow<R>) {
    for (Index k = 0; k < row.support_size(); ++k) sum += row.listed(k);
  } else {
    for (Index x = 0; x < row.vocab_size(); ++x) sum += row.probability(static_cast<Token>(x));
  }
  if (sum != 0 && std::abs(sum - 1) > 1e-2 + rounding_of_sum<R>(row.vocab_size()))
    invalid_distribution("the probabilities sum to ", sum);
}

/// Checks the sum of a row that may be of one of several kinds, where its kind is one that is checked.
template <class R>
void check_sum_of_kind(const R& row) {
  if constexpr (RowOfSomeKind<R>) row.ask([](const auto& held) { check_sum_of_kind(held); });
  else if constexpr (CheckedRow<R>) check_sum(row);
}

template <class Matrix>
inline constexpr bool has_sums = CheckedRow<RowOf<Matrix>> || RowOfSomeKind<RowOf<Matrix>>;

template <class Matrix>
void check_sum_of(const char* name, const Matrix& rows, Index number) {
  if constexpr (has_sums<Matrix>) {
    if (rows.rows() == 0) return;
    const Index i = number % rows.rows();
    in_row(name, i, [&] { check_sum_of_kind(rows.row(i)); });
  }
}

inline bool checks_sums() { return verifications_per_check != 0; }

/// Called once for each verification if checks_sums(). Checks target rows and draft rows in turn.
template <class Target, class Draft>
void check_a_sum(const Target& target, const Draft& draft, bool needs_draft) {
  if constexpr (has_sums<Target> || has_sums<Draft>) {
    const Index number = verifications++;
    if (number % verifications_per_check != 0) return;
    const Index check = number / verifications_per_check;
    if (check % 2 == 0) check_sum_of("target", target, check / 2);
    else if (needs_draft) check_sum_of("draft", draft, check / 2);
  }
}

}  // namespace detail

/// From now on, one verification in `verifications` sums a row; 0: none. Returns the number before: 64, or 0 with NDEBUG, at first.
///
/// A verification reads only the numbers that it needs, so a row that was cut and not normalised is judged without an error,
/// and the text is wrong. This check finds such rows in all that a backend returns, at the price of a pass over a row now and
/// then. Each thread counts its verifications, and checks the first one. Target rows and draft rows take turns, and the rows of a
/// matrix, too. It looks at rows of probabilities: logits always sum to 1. It does not look at rows over ranks: see validate().
///
/// The verification throws InvalidDistribution, with the row's matrix, its number and its sum, if this is neither 0 nor 1 within
/// 1 % and the rounding of stored numbers. (A sum of 0, and NaN, are errors where a decision reads them.)
/// Pre: no other thread verifies. Compile all files of a program with NDEBUG, or all without.
/// Throws: InvalidArgument if `verifications` is negative.
/// Cost: none where it is 0, but for reading that number. Else a pass over a row, once in so many verifications.
inline Index check_every(Index verifications) {
  if (verifications < 0) detail::invalid_argument("verifications = ", verifications, " is negative");
  detail::verifications = 0;
  return std::exchange(detail::verifications_per_check, verifications);
}

}  // namespace specdec

// A full check of every entry of every row, for rows from code that you do not trust.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <string_view>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/sum_check.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

template <Distribution R>
void validate_row(const R& row, Index vocab_size, double tolerance) {
  if (row.vocab_size() != vocab_size)
    invalid_distribution("a vocabulary of ", row.vocab_size(), ", where the matrix has one of ", vocab_size);
  check_list(row);
  double sum = 0;
  for (Index x = 0; x < vocab_size; ++x) {
    const double p = row.probability(static_cast<Token>(x));
    if (!(p >= 0) || !std::isfinite(p)) invalid_distribution("the probability of token ", x, " is ", p);
    sum += p;
  }
  if (!(std::abs(sum - 1) <= tolerance + rounding_of_sum<R>(vocab_size)))
    invalid_distribution("the probabilities sum to ", sum);
}

}  // namespace detail

/// Checks that every row holds finite, non-negative probabilities that sum to 1 within `tolerance`. Rounding of numbers
/// stored as half or bfloat16 is allowed for. If a row lists its tokens, the ids must ascend and lie in the vocabulary.
///
/// The verifiers do not call this: they check in O(γ) only the numbers that they use. They notice a row that does not sum to 1
/// only where they draw from it, and not always there. (check_every() sums a row now and then.) Call it for rows from code that
/// you do not trust, or while a backend is new. The error message calls the matrix `name`.
/// Throws: InvalidDistribution if the check fails; InvalidArgument unless tolerance >= 0.
/// Cost: one pass over all rows.
template <Probabilities M>
  requires has_vocab_size<DistributionsOf<M>>
void validate(const M& matrix, std::string_view name = "probabilities", double tolerance = 1e-3) {
  if (!(tolerance >= 0)) detail::invalid_argument("tolerance = ", tolerance, " is no number >= 0");
  const auto rows = distributions(matrix);
  for (Index i = 0; i < rows.rows(); ++i)
    detail::in_row(name, i, [&] { detail::validate_row(rows.row(i), rows.vocab_size(), tolerance); });
}

}  // namespace specdec

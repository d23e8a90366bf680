// A list of tokens that the caller gives as a row: what is checked of it, and its argmax.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"

namespace specdec::inline v0_2_0::detail {

/// Throws if a probability of a list is negative or NaN, or if all do not sum to 1 within 1e-3, as after a cut without
/// renormalisation. A list that sums to 0 passes: it is a dead end (rows/read/dead_end.hpp). `advice` ends the message.
/// Cost: O(k) for a list of k tokens.
template <ListedRow R>
void check_sum(const R& row, const char* advice) {
  const Index size = row.support_size();
  double sum = 0;
  for (Index k = 0; k < size; ++k) {
    if (!(row.listed(k) >= 0))
      invalid_distribution("the probability of token ", row.support(k), " is ", row.listed(k));
    sum += row.listed(k);
  }
  if (sum != 0 &&
      !(std::abs(sum - 1) <= 1e-3 + static_cast<double>(size) * rounding_of_small<R> + relative_rounding<R>))
    invalid_distribution("the probabilities of a list of ", size, " tokens sum to ", sum, ": ", advice);
}

/// Throws if a list has more tokens than its vocabulary, or if that is negative.
inline void check_list_size(Index tokens, Index vocab_size) {
  if (vocab_size < 0) invalid_argument("a list has a vocabulary of ", vocab_size, " tokens");
  if (tokens > vocab_size) invalid_argument("a list has ", tokens, " tokens of a vocabulary of ", vocab_size);
}

/// The most probable token of a list, which may be in any order: the lowest id among equals.
/// Throws: InvalidDistribution on a number that is negative or NaN, and if no token has positive probability.
template <ListedRow R>
Token likeliest_of(const R& row) {
  Token likeliest = -1;
  double most = 0;
  for (Index k = 0; k < row.support_size(); ++k) {
    const Token x = row.support(k);
    const double p = row.listed(k);
    if (!(p >= 0)) invalid_distribution("the probability of token ", x, " is ", p);
    if (p < most || p == 0 || (p == most && x > likeliest)) continue;
    likeliest = x;
    most = p;
  }
  if (!(most > 0)) invalid_distribution("no token has positive probability");
  check_id(likeliest, row.vocab_size());
  return likeliest;
}

}  // namespace specdec::detail

// The largest probability of a row.
// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/each_segment.hpp"

namespace specdec::inline v0_2_0::detail {

/// The most probable token of any row, the lowest id among equals, and its probability.
/// Throws: InvalidDistribution on a number that is no probability, and if no token has positive probability.
/// Cost: one pass over the row.
template <Distribution R>
std::pair<Token, double> find_likeliest(const R& row) {
  std::pair<Token, double> likeliest{-1, 0};
  each_segment(row, [&](const auto& ids, const auto& p) {
    for (Index k = 0; k < p.size(); ++k) {
      const auto one = static_cast<double>(p[k]);
      if (!is_probability(one)) invalid_distribution("the probability of token ", ids(k), " is ", one);
      if (one > likeliest.second) likeliest = {ids(k), one};
    }
  });
  if (likeliest.first < 0) invalid_distribution("no token has positive probability");
  return likeliest;
}

/// The largest probability of any row: a draft length reads the draft model's confidence from rows without argmax(), too. A row
/// that wraps another may know how to find it in the other row; it then has largest_probability().
/// Throws: InvalidDistribution on a number that is no probability, and if no token has positive probability.
/// Cost: an argmax, where the row has it. Else one pass over the row.
template <Distribution R>
double largest_probability(const R& row) {
  if constexpr (KnowsLargestProbability<R>) {
    return row.largest_probability();
  } else if constexpr (ArgmaxRow<R>) {
    const Token x = row.argmax();
    const auto p = static_cast<double>(row.probability(x));
    if (!is_probability(p)) invalid_distribution("the probability of token ", x, " is ", p);
    return p;
  } else {
    return find_likeliest(row).second;
  }
}

}  // namespace specdec::detail

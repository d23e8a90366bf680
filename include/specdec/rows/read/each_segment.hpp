// Reads a whole row. A row lists the tokens that may have mass (ListedRow), or offers segments (SegmentedRow), or answers for one
// token at a time. So a new type of row works with entropies, copies and audits at full speed.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>

#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"

namespace specdec::inline v0_2_0::detail {

/// Calls visit(x, p(x)) for the tokens that may have mass, by ascending id.
/// Throws: InvalidDistribution if the ids of a list do not ascend.
template <Distribution R, class Visit>
void each_token(const R& row, Visit&& visit) {
  if constexpr (ListedRow<R>) {
    Index least = 0;
    for (Index k = 0; k < row.support_size(); ++k) {
      const Token x = row.support(k);
      check_ascending(row, k, least);
      least = Index{x} + 1;
      visit(x, static_cast<double>(row.listed(k)));
    }
  } else {
    for (Index x = 0; x < row.vocab_size(); ++x)
      visit(static_cast<Token>(x), static_cast<double>(row.probability(static_cast<Token>(x))));
  }
}

/// Calls visit(ids, p) for one stretch of the row after the other. p is an Eigen array or expression; p[k] is the
/// probability of token ids(k). Tokens that a row does not list are left out: their probability is 0.
/// Throws: InvalidDistribution if the ids of a list do not ascend.
template <Distribution R, class Visit>
void each_segment(const R& row, Visit&& visit) {
  if constexpr (SegmentedRow<R> && !ListedRow<R>) {
    for (Index start = 0; start < row.vocab_size(); start += max_segment_size) {
      const auto& p = row.segment(start, std::min<Index>(max_segment_size, row.vocab_size() - start));
      visit([start](Index k) { return static_cast<Token>(start + k); }, p);
    }
  } else {
    std::array<Token, max_segment_size> ids;
    GatheredSegment<R> p(max_segment_size);
    Index count = 0;
    const auto hand_out = [&] {
      if (count > 0) visit([&](Index k) { return at(ids, k); }, p.head(count));
      count = 0;
    };
    each_token(row, [&](Token x, double p_x) {
      at(ids, count) = x;
      p[count] = p_x;
      if (++count == max_segment_size) hand_out();
    });
    hand_out();
  }
}

}  // namespace specdec::detail

// Dead ends: rows in which no token has a positive probability.
//
// A chain, a processor or a grammar may forbid every token after some text. The row there is a dead end: all its probability
// belongs to a token outside the vocabulary, which nobody drafts: a text that reaches the row fails. So the row can be read, and
// gives each token the probability 0. A drafted token is rejected there, and a race of weight w is won with probability w, as by
// that other token. An error is only a draw from the row, or a race that is won there: the text that the target alone would write
// fails there, too. The mass must not be given to other tokens, and a dead end that is only drafted does not matter.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/each_segment.hpp"

namespace specdec::inline v0_2_0::detail {

/// Whether the row is known to be a dead end. False for a row with NaN, and for rows that are spread over ranks.
/// Cost: rows of logits are normalised, which a draw needs anyway. Of other rows the stretches up to the
/// first positive probability are summed; lists, and rows that cannot be summed, are read.
template <Distribution R>
bool is_dead_end(const R& row) {
  if constexpr (WrappedInName<R>) {
    return row.named([&] { return is_dead_end(row.unnamed()); });
  } else if constexpr (KnowsDeadEnd<R>) {
    return row.is_dead_end();
  } else if constexpr (SpreadRow<R>) {
    return false;
  } else {
    if constexpr (SummableRow<R> && !ListedRow<R>) {
      constexpr Index stretch = 64;
      for (Index x = 0; x < row.vocab_size(); x += stretch)
        if (static_cast<double>(row.sum(x, std::min<Index>(stretch, row.vocab_size() - x))) != 0)
          return false;
    }
    // A list with ids out of order is an error here, not a dead end.
    bool zeros = true;
    each_segment(row, [&](const auto&, const auto& p) { zeros = zeros && (p.array() == 0).all(); });
    return zeros;
  }
}

}  // namespace specdec::detail

// Which tokens of a long context an attention reads.
// Source: Xiao et al., "Efficient Streaming Language Models with Attention Sinks", arXiv:2309.17453, section 3.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <limits>

#include "transformer/panels.hpp"

namespace transformer {

/// The first tokens of a context ("attention sinks") and the latest ones (its window). Attention puts much weight on these,
/// whatever the first ones say. So an attention that reads only these costs little in a long context, and gives nearly the
/// rows of the whole attention. Tokens after the context, which a draft has just added, are always read.
/// Pre: no number is negative.
struct SparseCache {
  /// At least so many first tokens are read; by default, all.
  Index first = std::numeric_limits<Index>::max();
  /// At least so many latest tokens are read.
  Index latest = 0;

  /// The slots [begin, end) of the cache that are not read. They are whole panels. No slot: begin = end = 0.
  struct Gap {
    Index begin = 0, end = 0;
    Index size() const { return end - begin; }
  };

  Gap gap(Index context) const {
    if (first >= context) return {};
    const Gap panels{padded(first), (context - latest) / lanes * lanes};
    return panels.begin < panels.end ? panels : Gap{};
  }

  friend bool operator==(const SparseCache&, const SparseCache&) = default;
};

}  // namespace transformer

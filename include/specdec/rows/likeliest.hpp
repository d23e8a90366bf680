// The likeliest tokens of a row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/walk.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A token of a row, and its probability there.
struct LikelyToken {
  Token token;
  double probability;
};

/// Finds the likeliest tokens of one row after the other, in memory that serves again.
class LikeliestTokens {
 public:
  /// The `count` tokens of the largest probabilities, the likeliest first, of equals the lower id first; fewer where
  /// fewer have any. They live until the next call.
  ///
  /// Throws: InvalidDistribution where an entry that would be among them is no finite number. Cost: a pass over the row,
  /// and `count` moves at most for each token that is among the likeliest up to it.
  template <Distribution R>
  std::span<const LikelyToken> of(const R& row, Index count) & {
    found_.clear();
    if (count < 1) return found_;
    double least = 0;  // what has a place in the list is more
    detail::walk(row, [&](const auto& ids, const auto& p) {
      for (Index k = 0; k < p.size(); ++k) {
        const auto p_k = static_cast<double>(p[k]);
        if (p_k <= least) continue;
        enter({ids(k), p_k}, count);
        if (std::ssize(found_) == count) least = found_.back().probability;
      }
    });
    return found_;
  }

 private:
  void enter(const LikelyToken& likely, Index count) {
    if (!detail::is_probability(likely.probability))
      throw InvalidDistribution(
          detail::message("the probability of token ", likely.token, " is ", likely.probability));
    if (std::ssize(found_) == count) found_.pop_back();
    const auto less_likely = [](const LikelyToken& left, const LikelyToken& right) {
      return left.probability > right.probability;
    };
    found_.insert(std::upper_bound(found_.begin(), found_.end(), likely, less_likely), likely);
  }

  std::vector<LikelyToken> found_;
};

}  // namespace specdec

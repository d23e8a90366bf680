// The most likely tokens of a row.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/kernels/reductions.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/each_segment.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A token of a row, and its probability.
struct TopToken {
  Token token;
  double probability;
};

/// Finds the most likely tokens of rows. The memory is reused from row to row.
class TopTokens {
 public:
  /// The `count` most likely tokens, the most likely first; among equals, the lower id first. Fewer if fewer have a positive
  /// probability. The span lives until the next call. Logits are compared as logits, so different logits are never equal.
  /// Throws: InvalidDistribution if an entry of such a token is not finite, or if a row of logits is no distribution.
  /// Cost: one pass over the row; at most `count` moves for each token that is among the `count` most likely so far; one
  /// more pass over a row of logits that was not read before.
  template <Distribution R>
  std::span<const TopToken> of(const R& row, Index count) & {
    found_.clear();
    count_ = count;
    if (count < 1) return {};
    if constexpr (detail::MovesToCopy<R>) {
      find_logits(row.logits());
      for (TopToken& top : found_) top.probability = row.probability(top.token);
      while (!found_.empty() && !(found_.back().probability > 0)) found_.pop_back();
    } else {
      least_ = 0;
      detail::each_segment(row, [&](const auto& ids, const auto& p) { find("probability", ids, p); });
    }
    return detail::view_of(found_);
  }

 private:
  template <class Logits>
  void find_logits(const Logits& logits) {
    least_ = -std::numeric_limits<double>::infinity();
    for (Index start = 0; start < logits.size(); start += max_segment_size) {
      const auto& segment = logits.segment(start, std::min(max_segment_size, logits.size() - start));
      find(
          "logit", [start](Index k) { return static_cast<Token>(start + k); }, segment);
    }
  }

  // Enters the numbers that are larger than the least number found so far. Most pieces have none.
  template <class Ids, class Segment>
  void find(const char* name, const Ids& ids, const Segment& segment) {
    const auto& numbers = detail::side_by_side(segment);
    const auto* data = numbers.data();
    const Index size = numbers.size();
    if (has_none(data, size)) return;
    for (Index start = 0; start < size; start += detail::lot) {
      const Index end = std::min(start + detail::lot, size);
      if (has_none(data + start, end - start)) continue;
      for (Index k = start; k < end; ++k)
        if (!(static_cast<double>(data[k]) <= least_)) enter(name, ids(k), data[k]);
    }
  }

  // Whether no number is larger than least_. A NaN counts as larger.
  template <class Scalar>
  bool has_none(const Scalar* numbers, Index count) const {
    return count % detail::lot == 0 &&
           static_cast<double>(detail::run_wide<detail::LargestNumber<Scalar>>(numbers, count)) <= least_;
  }

  template <class Scalar>
  void enter(const char* name, Token token, Scalar number) {
    const TopToken top{token, static_cast<double>(number)};
    if (!std::isfinite(top.probability))
      detail::invalid_distribution("the ", name, " of token ", top.token, " is ", top.probability);
    if (std::ssize(found_) == count_) found_.pop_back();
    found_.push_back(top);
    for (std::size_t k = found_.size() - 1; k > 0 && found_[k - 1].probability < top.probability; --k)
      std::swap(found_[k - 1], found_[k]);
    if (std::ssize(found_) == count_) least_ = found_.back().probability;
  }

  std::vector<TopToken> found_;  // by probability, or by logit
  Index count_ = 0;
  double least_ = 0;  // only larger numbers enter the list
};

}  // namespace specdec

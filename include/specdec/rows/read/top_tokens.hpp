// The likeliest tokens of a row.
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
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/segments.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A token of a row, and its probability there.
struct TopToken {
  Token token;
  double probability;
};

/// Finds the likeliest tokens of one row after the other, in memory that serves again.
class TopTokens {
 public:
  /// The `count` tokens of the largest probabilities, the likeliest first, of equals the lower id first; fewer where
  /// fewer have any. They live until the next call. Of logits the larger one is the likelier, however near their
  /// probabilities.
  ///
  /// Throws: InvalidDistribution where an entry that would be among them is no finite number, and where a row of logits
  /// is no distribution. Cost: a pass over the row, and `count` moves at most for each token that is among the likeliest
  /// up to it; of a row of logits that has not been read, another pass.
  template <Distribution R>
  std::span<const TopToken> of(const R& row, Index count) & {
    found_.clear();
    count_ = count;
    if (count < 1) return {};
    if constexpr (requires { row.over(row.logits().data()); }) {
      find_logits(row.logits());
      for (TopToken& top : found_) top.probability = row.probability(top.token);
      while (!found_.empty() && !(found_.back().probability > 0)) found_.pop_back();
    } else {
      least_ = 0;
      detail::each_segment(row, [&](const auto& ids, const auto& p) { find("probability", ids, p); });
    }
    return {found_.data(), found_.size()};
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

  // Numbers larger than the least of those that were found. Most pieces have none.
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
        if (!(data[k] <= least_)) enter(name, {ids(k), static_cast<double>(data[k])});
    }
  }

  // A NaN is larger, too.
  template <class Scalar>
  bool has_none(const Scalar* numbers, Index count) const {
    return count % detail::lot == 0 &&
           detail::run_wide<detail::LargestNumber<Scalar>>(numbers, count) <= least_;
  }

  void enter(const char* name, const TopToken& top) {
    if (!std::isfinite(top.probability))
      throw InvalidDistribution(
          detail::message("the ", name, " of token ", top.token, " is ", top.probability));
    if (std::ssize(found_) == count_) found_.pop_back();
    found_.push_back(top);
    for (std::size_t k = found_.size() - 1; k > 0 && found_[k - 1].probability < top.probability; --k)
      std::swap(found_[k - 1], found_[k]);
    if (std::ssize(found_) == count_) least_ = found_.back().probability;
  }

  std::vector<TopToken> found_;  // by probability, or by logit
  Index count_ = 0;
  double least_ = 0;  // what has a place in the list is more
};

}  // namespace specdec

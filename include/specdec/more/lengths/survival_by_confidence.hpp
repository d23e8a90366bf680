// How often a drafted token survives, by the draft model's confidence.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "specdec/more/lengths/cost_curve.hpp"

namespace specdec::inline v0_2_0::detail {

/// P(a drafted token survives, given that all tokens before it do), learnt by the confidence of a row: the largest probability
/// of the row that the token, or the token before it, was drawn from.
///
/// The log-odds of the confidence are cut into five ranges, and each range has a running mean. A range that has hardly been
/// seen lately takes the mean of all ranges: so it is tried again. More ranges would tell more, but learn more slowly.
class SurvivalByConfidence {
 public:
  /// From now on everything seen so far has `decay` times its weight.
  void fade(double decay) {
    for (FadingMean& range : ranges_) range.fade(decay);
    all_.fade(decay);
  }
  /// Everything seen so far counts as at most `tokens` tokens.
  void limit(double tokens) {
    if (all_.weight() > tokens) fade(tokens / all_.weight());
  }

  /// Enters a token after a prefix that survives with probability `reached`. The prefix survives with the token with
  /// probability `survived`.
  void add(double confidence, double reached, double survived) {
    ranges_[range_of(confidence)].add(survived, reached);
    all_.add(survived, reached);
  }

  /// Enters a token whose row was not shown.
  void add(double reached, double survived) { all_.add(survived, reached); }

  double operator()(double confidence) const {
    return ranges_[range_of(confidence)].with(mean(), guess_weight);
  }
  /// The mean over all ranges; 1 while nothing is known, so that drafting does not stop after a bad start.
  double mean() const { return all_.with(1, 0.1); }

 private:
  static constexpr double guess_weight = 3;  // the weight, in tokens, of the mean of all ranges
  static constexpr int ranges = 5;

  // Ranges of log-odds: below −1, then three of one unit each, and above 2. As confidences: 0.27, 0.5, 0.73, 0.88.
  static std::size_t range_of(double confidence) {
    const double odds = confidence / std::max(1 - confidence, 1e-9);
    const double range = std::floor(std::log(std::max(odds, 1e-9))) + 2;
    return static_cast<std::size_t>(std::clamp(range, 0.0, ranges - 1.0));
  }

  // By range and of all: the sum of what survived, with the weight of what was reached.
  std::array<FadingMean, ranges> ranges_;
  FadingMean all_;
};

}  // namespace specdec::detail

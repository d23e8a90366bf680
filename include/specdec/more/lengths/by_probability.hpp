// How often drafted tokens are accepted, by what the draft model thinks of them: learnt for ranges of log-odds.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "specdec/more/lengths/cost_curve.hpp"

namespace specdec::inline v0_2_0::detail {

/// P(a chosen token is accepted, given that its parent is), learnt by the token's draft probability q.
///
/// The log-odds of q are cut into six ranges. Each range has a factor that multiplies the odds of its tokens: the odds of
/// the share that was accepted, over the odds of the mean q. So the tokens of a range keep their order. A range that has
/// hardly been seen lately takes the factor of all ranges. That factor begins at 1, which takes the draft model at its word.
class AcceptanceByProbability {
 public:
  /// From now on everything seen so far has `decay` times its weight.
  void fade(double decay) {
    for (Share& share : shares_) share.fade(decay);
    all_.fade(decay);
  }

  /// Enters a token of probability q whose parent was accepted.
  void add(double q, bool accepted) {
    shares_[range_of(q)].add(q, accepted);
    all_.add(q, accepted);
  }

  double operator()(double q) const { return multiply(q, shares_[range_of(q)].factor(all_.factor(1))); }

 private:
  static double odds(double p) { return p / (1 - p); }
  // The probability whose odds are `factor` times the odds of p.
  static double multiply(double p, double factor) { return p * factor / (1 - p + p * factor); }
  // Odds of 0 or infinity would never change again.
  static double inside(double p) { return std::clamp(p, 1e-6, 1 - 1e-6); }

  struct Share {
    FadingMean q, accepted;

    void fade(double decay) {
      q.fade(decay);
      accepted.fade(decay);
    }
    void add(double its_q, bool is_accepted) {
      q.add(its_q);
      accepted.add(is_accepted ? 1 : 0);
    }
    // Improbable tokens need more of a past than probable ones: as much as one of them is expected to be accepted in.
    double factor(double guess) const {
      if (q.empty()) return guess;
      const double mean = inside(q.value()), weight = std::max(guess_weight, 1 / mean);
      return odds(inside(accepted.with(multiply(mean, guess), weight))) / odds(mean);
    }
  };

  static constexpr double guess_weight = 3;  // the weight, in tokens, of the factor of all ranges
  static constexpr int ranges = 6;

  // Ranges of log-odds: below −6, then four of two units each, and above 2. As probabilities: 0.002, 0.018, 0.12, 0.5, 0.88.
  static std::size_t range_of(double q) {
    const double range = std::floor(std::log(odds(inside(q))) / 2) + 4;
    return static_cast<std::size_t>(std::clamp(range, 0.0, ranges - 1.0));
  }

  std::array<Share, ranges> shares_;
  Share all_;
};

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

// How often a chosen token is accepted, by its draft probability.
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

}  // namespace specdec::detail

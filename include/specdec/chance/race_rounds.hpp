// What ends a race (race.hpp): the number of rounds, what one number decides in a round, the largest weight. Includes no Eigen.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

namespace specdec::inline v0_2_0 {

/// After so many rounds a race sums the residual instead. The race is memoryless, so this does not change the distribution
/// of its result. It bounds the time if S + 1 − w is close to 0.
inline constexpr int max_race_rounds = 64;

namespace detail {

/// Weights and ratios are cut to this, so that their products stay finite even if q is subnormal.
inline constexpr double largest_weight = 1e300;

constexpr double bounded(double weight) { return std::min(weight, largest_weight); }

/// A round of a race of weight w (race.hpp) with one number v on [0, 1) for both of its decisions. It is lost if v < 1 − w. Else
/// a token y is drawn. The round is won by y if v < 1 − w + min(1, w)·r/(w·p), with r = (w·p − q)+ at y. Else another follows.
constexpr double lost_below(double w) { return w < 1 ? 1 - w : 0; }
constexpr double won_below(double w, double p, double residual) {
  constexpr double least = 0x1p-1022;  // no 0/0
  const double weight = w * p;
  const double share = residual / (weight < least ? least : weight);
  return w < 1 ? (1 - w) + w * share : share;
}

}  // namespace detail
}  // namespace specdec

// How often a spare is what the target draws where a trunk is left.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "specdec/measure/cost_curve.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Running shares of the stops at a depth of a trunk that hit the first spare there, the second, and so on. Each begins
/// with what all depths together show, and that with what the ranks before suggest. They fall with the rank.
class SpareShares {
 public:
  static constexpr std::size_t ranks = 16;
  using Shares = std::array<double, ranks>;

  /// `depths`: the longest trunk. `decay`: what is left of a stop's weight after another one.
  SpareShares(Index depths, double decay) : decay_(decay), at_(static_cast<std::size_t>(depths)) {}

  /// The trunk was left at this depth, of `offered` spares for the one of rank `hit`, 0 being the first; −1: for none.
  void observe(Index depth, Index offered, Index hit) {
    for (FadingMean& mean : all_) mean.fade(decay_);
    std::array<FadingMean, ranks>& here = at_[static_cast<std::size_t>(depth)];
    for (FadingMean& mean : here) mean.fade(decay_);
    for (std::size_t k = 0; k < ranks && static_cast<Index>(k) < offered; ++k) {
      const double value = static_cast<Index>(k) == hit ? 1 : 0;
      all_[k].add(value);
      here[k].add(value);
    }
  }

  /// From now on, what was seen so far counts as so many stops at most, of each depth and of all together.
  void limit(double stops) {
    for (FadingMean& mean : all_) mean.limit(stops);
    for (std::array<FadingMean, ranks>& here : at_)
      for (FadingMean& mean : here) mean.limit(stops);
  }

  /// The share of the k-th; beyond what is counted, none.
  static double of(const Shares& shares, Index k) {
    return k < static_cast<Index>(ranks) ? shares[static_cast<std::size_t>(k)] : 0;
  }

  Shares at(Index depth) const {
    const std::array<FadingMean, ranks>& here = at_[static_cast<std::size_t>(depth)];
    Shares shares{};
    double all = 1, older = 1, elder = 1, left = 1;
    for (std::size_t k = 0; k < ranks; ++k) {
      const double guess = k == 0 ? first_guess : k == 1 ? all / 2 : all * std::min(1.0, all / older);
      older = all;
      all = std::min(all, all_[k].with(guess, guess_weight));
      elder = shares[k] = std::min({elder, left, here[k].with(all, depth_weight)});
      left -= elder;
    }
    return shares;
  }

 private:
  static constexpr double first_guess = 0.2;
  static constexpr double guess_weight = 3, depth_weight = 12;  // in stops

  double decay_;
  std::array<FadingMean, ranks> all_;
  std::vector<std::array<FadingMean, ranks>> at_;  // by depth
};

}  // namespace specdec::detail

// How often each spare is accepted where the trunk is left.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "specdec/measure/cost_curve.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Running estimates: of all stops at a depth of a trunk, the share that hits the first spare there, the second, and so on.
/// The estimate for one depth starts from the estimate for all depths together. The estimate for all depths starts from the
/// ranks before. The shares fall with the rank.
class SpareShares {
 public:
  static constexpr std::size_t ranks = 16;
  using Shares = std::array<double, ranks>;

  /// `depths`: the length of the longest trunk. `decay`: each new stop multiplies the weight of earlier stops by this.
  SpareShares(Index depths, double decay)
      : decay_(decay), means_((static_cast<std::size_t>(depths) + 1) * ranks) {}

  /// Enters a stop: the trunk was left at this depth, where `offered` spares stood, for the spare of rank `hit` (0 is the
  /// first); −1: for no spare.
  void observe(Index depth, Index offered, Index hit) {
    FadingMean* const all = means_.data();
    FadingMean* const here = all + place(depth);
    for (std::size_t k = 0; k < ranks; ++k) {
      all[k].fade(decay_);
      here[k].fade(decay_);
      if (static_cast<Index>(k) >= offered) continue;
      const double value = static_cast<Index>(k) == hit ? 1 : 0;
      all[k].add(value);
      here[k].add(value);
    }
  }

  /// From now on, everything seen so far counts as at most `stops` stops, for each depth and for all depths together.
  void limit(double stops) {
    for (FadingMean& mean : means_) mean.limit(stops);
  }

  /// The share of the k-th spare; 0 for ranks that are not counted.
  static double of(const Shares& shares, Index k) {
    return k < static_cast<Index>(ranks) ? shares[static_cast<std::size_t>(k)] : 0;
  }

  Shares at(Index depth) const {
    const FadingMean* const of_all = means_.data();
    const FadingMean* const here = of_all + place(depth);
    Shares shares{};
    double all = 1, older = 1, elder = 1, left = 1;
    for (std::size_t k = 0; k < ranks; ++k) {
      const double guess = k == 0 ? first_guess : k == 1 ? all / 2 : all * std::min(1.0, all / older);
      older = all;
      all = std::min(all, of_all[k].with(guess, guess_weight));
      elder = shares[k] = std::min({elder, left, here[k].with(all, depth_weight)});
      left -= elder;
    }
    return shares;
  }

 private:
  static constexpr double first_guess = 0.2;
  static constexpr double guess_weight = 3, depth_weight = 12;  // in stops

  static std::size_t place(Index depth) { return (static_cast<std::size_t>(depth) + 1) * ranks; }

  double decay_;
  std::vector<FadingMean> means_;  // of all depths together by rank, then of each depth by rank
};

}  // namespace specdec::detail

// A bet that numbers are not uniform. It learns where they fall.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "specdec/platform.hpp"

namespace specdec::inline v0_2_0::testing::detail {

/// log Γ(x) for x >= 1/2, to 1e-11. std::lgamma writes a global variable, and audits may run on several threads.
inline double log_gamma(double x) {
  double below = 0;
  while (x < 8) below += std::log(x++);
  const double r = 1 / x, r2 = r * r;
  const double tail = r * (1.0 / 12 - r2 * (1.0 / 360 - r2 * (1.0 / 1260 - r2 / 1680)));
  return (x - 0.5) * std::log(x) - x + 0.91893853320467274 + tail - below;
}

/// The logarithm of the mean of numbers whose logarithms these are.
inline double log_mean(std::span<const double> logs) {
  const double most = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (const double log : logs) sum += std::exp(log - most);
  return most + std::log(sum / static_cast<double>(logs.size()));
}

/// The wealth of a gambler who starts with 1 and bets on the place of each next number u in [0, 1). He has put a third each on
/// 2, 4 and 16 equal bins. Of B bins: if n of N numbers fell into one, he believes that the next one falls there with probability
/// (n + 1/2) / (N + B/2), and this part of his wealth is multiplied by B times that. If u is uniform given the past, the factor
/// has mean 1. Few bins are learnt soon, many bins see more.
/// Source: Krichevsky and Trofimov, "The performance of universal encoding", IEEE Trans. Inf. Theory 27(2), 1981: the
/// believed probabilities. The wealth depends on how often each bin was hit, not on the order: so gamblers can be merged.
class PlaceBet {
 public:
  static constexpr std::size_t bins = 16;

  /// `tolerance` is subtracted from the log of the wealth.
  void take(double u, double tolerance) {
    const std::size_t bin = std::min(static_cast<std::size_t>(u * bins), bins - 1);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const std::size_t width = bins / parts[k];
      const double n = static_cast<double>(parts[k]);
      logs_[k] += std::log(n * (hits(bin / width * width, width) + 0.5) / (all() + 0.5 * n)) - tolerance;
    }
    ++counts_[bin];
    ++total_;
  }

  /// The wealth after the numbers of both.
  void merge(const PlaceBet& other, double tolerance) {
    for (std::size_t k = 0; k < bins; ++k) counts_[k] += other.counts_[k];
    total_ += other.total_;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const std::size_t width = bins / parts[k];
      const double n = static_cast<double>(parts[k]);
      logs_[k] = all() * (std::log(n) - tolerance) + log_gamma(0.5 * n) - log_gamma(all() + 0.5 * n);
      for (std::size_t bin = 0; bin < bins; bin += width)
        logs_[k] += log_gamma(hits(bin, width) + 0.5) - log_gamma(0.5);
    }
  }

  double log_wealth() const { return log_mean(logs_); }
  std::int64_t total() const { return total_; }
  const std::array<std::int64_t, bins>& counts() const { return counts_; }

  /// Whether more numbers lie below 1/2 than above.
  bool low() const { return 2 * hits(0, bins / 2) > all(); }

 private:
  static constexpr std::array<std::size_t, 3> parts{2, 4, 16};

  double all() const { return static_cast<double>(total_); }
  // How many numbers fell into `count` bins from `first` on.
  double hits(std::size_t first, std::size_t count) const {
    std::int64_t sum = 0;
    for (std::size_t k = first; k < first + count; ++k) sum += counts_[k];
    return static_cast<double>(sum);
  }

  std::array<std::int64_t, bins> counts_ = {};
  std::int64_t total_ = 0;
  std::array<double, parts.size()> logs_ = {};  // of each part of the wealth
};

}  // namespace specdec::testing::detail

// The peaks of a row by level: where to look for the cut of top-p.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <limits>

#include "specdec/kernels/exponentials.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/rows/kinds/stretches.hpp"

namespace specdec::inline v0_2_0::detail {

/// How many peaks lie from some logits on, and Σ exp((l − shift)/T) over these. The logits are a quarter of the temperature apart.
template <std::floating_point Scalar>
class PeakLevels {
 public:
  PeakLevels(const Peaks<Scalar>& peaks, const Exponentials<Scalar>& e)
      : top_(peaks.top()), height_(Scalar{0.25} / e.inverse_temperature) {
    if (!(top_ > none)) return;
    std::array<Scalar, std::size_t{most_stretches}> masses;
    run_wide<WriteExponentials<Scalar>>(peaks.data(), peaks.whole_lots(), e, Scalar{1}, masses.data());
    constexpr auto last = static_cast<Scalar>(levels - 1);
    for (Index s = 0; s < peaks.size(); ++s) {
      const Scalar depth = (top_ - peaks[s]) / height_;
      const auto level = static_cast<std::size_t>(depth < last ? depth : last);
      ++counts_[level];
      masses_[level] += static_cast<double>(masses[static_cast<std::size_t>(s)]);
    }
  }

  /// A logit from which on the peaks alone have this mass, so that there surely are enough tokens. −inf if they have not.
  Scalar of_mass(double mass) const { return first_with(masses_, mass); }
  /// A logit from which on at least n peaks lie. −inf if that is not known.
  Scalar of_count(Index n) const { return first_with(counts_, n); }

 private:
  static constexpr std::size_t levels = 128;  // the last one has all peaks below the others
  static constexpr Scalar none = -std::numeric_limits<Scalar>::infinity();

  template <class T>
  Scalar first_with(const std::array<T, levels>& of_levels, T wanted) const {
    T sum = 0;
    for (std::size_t k = 0; k + 1 < levels; ++k)
      if ((sum += of_levels[k]) >= wanted) return top_ - static_cast<Scalar>(k + 1) * height_;
    return none;
  }

  Scalar top_, height_;
  std::array<Index, levels> counts_{};
  std::array<double, levels> masses_{};
};

}  // namespace specdec::detail

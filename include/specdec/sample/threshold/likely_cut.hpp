// A logit from which on the tokens probably have a given mass, from the largest logit and the sum of each stretch of the row.
//
// How much of a stretch lies below its largest logit, and below the cut, is guessed: as much as in stretches whose largest logit
// is just below the cut, and of which all tokens are below it therefore. In rows in no order this is right on average. Where ids
// go by frequency it holds near the cut, and the stretches far above it are few.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>

#include "specdec/kernels/exponentials.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/rows/kinds/stretches.hpp"

namespace specdec::inline v0_2_0::detail {

/// Stretches with about equal largest logits: how many, Σ exp((l − shift)/T) over these logits, and over all their tokens.
struct StretchLevel {
  double count = 0, largest = 0, sum = 0;

  void add(const StretchLevel& other) {
    count += other.count;
    largest += other.largest;
    sum += other.sum;
  }
};

inline constexpr double level_height = 0.25;  // in logits over the temperature
using StretchLevels = std::array<StretchLevel, 128>;

/// Level k holds the stretches with a largest logit from k to k + 1 heights below `top`; the last one all others.
template <std::floating_point Scalar>
StretchLevels levels_of(const Peaks<Scalar>& stretches, const Exponentials<Scalar>& e, Scalar top) {
  StretchLevels levels;
  std::array<Scalar, std::size_t{most_stretches}> largest;
  run_wide<WriteExponentials<Scalar>>(stretches.data(), stretches.whole_lots(), e, Scalar{1}, largest.data());
  constexpr auto last = static_cast<Scalar>(levels.size() - 1);
  for (Index s = 0; s < stretches.size(); ++s) {
    const Scalar depth = (top - stretches[s]) * e.inverse_temperature / static_cast<Scalar>(level_height);
    levels[static_cast<std::size_t>(std::min(depth, last))].add(
        {1, static_cast<double>(largest[static_cast<std::size_t>(s)]),
         static_cast<double>(stretches.sum(s))});
  }
  return levels;
}

/// How many of `size` stretches hold one of `tokens` tokens in no order: all but e^(−tokens/size) of them. All stretches
/// may hold any number, so they are too many unless all their tokens are.
inline double stretches_held(double tokens, double size, double stretch) {
  return size * stretch <= tokens ? size : std::min(size - 1, size * -std::expm1(-tokens / size));
}

/// Such a logit, for a mass of `target` of `total`, measured as Σ exp((l − shift)/T). It is a little lower than the guess, because
/// the search that follows is cheap where the cut is above it. −inf if stretches do not tell, or if probably more than `room`
/// tokens lie above the logit. Without sums of stretches, only their largest logits are sure.
template <std::floating_point Scalar>
Scalar likely_cut(const Peaks<Scalar>& stretches, const Exponentials<Scalar>& e, double target, double total,
                  double room) {
  constexpr Scalar none = -std::numeric_limits<Scalar>::infinity();
  const Scalar top = stretches.top();
  if (top == none) return none;
  const StretchLevels levels = levels_of(stretches, e, top);
  const auto stretch = static_cast<double>(stretches.stretch());
  const double most = stretches_held(room, static_cast<double>(stretches.size()), stretch);
  const double aim = target + std::min(target, total - target) / 8;
  StretchLevel above;
  for (std::size_t k = 0; k + 1 < levels.size(); ++k) {
    above.add(levels[k]);
    if (above.count > most) break;
    const Scalar cut =
        top - static_cast<Scalar>(level_height * static_cast<double>(k + 1)) / e.inverse_temperature;
    const double limit = stretch * std::exp(static_cast<double>((cut - e.shift) * e.inverse_temperature));
    const StretchLevel& below = levels[k + 1];
    const double rest = below.count > 0 ? std::min(limit, below.sum / below.count) : limit;
    if (above.largest >= target || above.sum - above.count * rest >= aim) return cut;  // sure, or likely
  }
  return none;
}

}  // namespace specdec::detail

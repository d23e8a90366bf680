// The dial: finds the knob position at which pairs of rows have a wanted overlap.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>

#include "acceptance/random_numbers.hpp"
#include "specdec/error.hpp"

namespace acceptance {

/// Σ of the weights, added in order. Eigen's sum would depend on the instruction set.
template <class P>
double total(const P& weights) {
  double sum = 0;
  for (Index x = 0; x < weights.size(); ++x) sum += static_cast<double>(weights[x]);
  return sum;
}

/// β = Σ min(p, q) of two rows of weights.
template <class P, class Q>
double overlap(const P& p, const Q& q) {
  const double p_sum = total(p), q_sum = total(q);
  double sum = 0;
  for (Index x = 0; x < p.size(); ++x)
    sum += std::min(static_cast<double>(p[x]) / p_sum, static_cast<double>(q[x]) / q_sum);
  return sum;
}

/// The largest difference between the overlap that dial() finds and the wanted overlap.
inline constexpr double dial_tolerance = 1e-3;

/// The knob in [0, most] at which overlap_at(knob) is `wanted` within dial_tolerance, by bisection. overlap_at is 1 at
/// knob 0 and falls.
///
/// Throws: std::invalid_argument if the overlap at `most` is still too large, and if overlap_at jumps past `wanted`.
template <class OverlapAt>
double dial(OverlapAt&& overlap_at, double most, double wanted) {
  const double least = overlap_at(most);
  if (!(wanted <= 1 && wanted >= least - dial_tolerance))
    specdec::detail::invalid_argument("overlap = ", wanted, " is outside what these rows reach, ", least,
                                      " to 1");
  double low = 0, high = most;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2, found = overlap_at(middle);
    if (std::abs(found - wanted) <= 1e-6) return middle;
    (found > wanted ? low : high) = middle;
  }
  if (std::abs(overlap_at(high) - wanted) > dial_tolerance)
    specdec::detail::invalid_argument("overlap = ", wanted, " is skipped by a jump at knob ", high);
  return high;
}

}  // namespace acceptance

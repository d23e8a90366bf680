// Weights of races.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Weights and ratios are cut to this, so that their products stay finite even if q is subnormal.
inline constexpr double largest_weight = 1e300;

constexpr double bounded(double weight) { return std::min(weight, largest_weight); }

}  // namespace specdec::detail

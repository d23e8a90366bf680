// Numbers of rows from which other rows are taken away (residual.hpp).
// SPDX-License-Identifier: MIT
#pragma once

#include <limits>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A coefficient for a one-hot row: it takes away all of the token. Beside it there is room for all other coefficients.
inline constexpr double all_of_it = std::numeric_limits<double>::max() / 2;

/// A row with less mass left than this is summed by a pass over the row, and drawn from by a pass.
inline constexpr double little_left = 1.0 / 64;

/// A residual with less mass than this is summed token by token. A segment may be rounded otherwise than a single
/// probability, so the sum of segments may be mass that no token has.
inline constexpr double hardly_any_left = 1e-4;

}  // namespace specdec::detail

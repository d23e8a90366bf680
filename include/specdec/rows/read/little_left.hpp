// Two numbers of rows from which other rows are taken away (remainder.hpp).
// SPDX-License-Identifier: MIT
#pragma once

#include <limits>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A factor for a one-hot row: it takes away all of the token.
inline constexpr double all_of_it = std::numeric_limits<double>::max();

/// A row with less mass left than this is summed by a pass over the row, and drawn from by a pass.
inline constexpr double little_left = 1.0 / 64;

}  // namespace specdec::detail

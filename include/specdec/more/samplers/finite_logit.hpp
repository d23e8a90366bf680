// Changes logits without making them infinite.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/platform.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace specdec::inline v0_2_0::detail {

/// The finite Scalar that is nearest to x. Not for NaN.
template <class Scalar>
Scalar nearest_finite(double x) {
  using Limits = std::numeric_limits<Scalar>;
  return static_cast<Scalar>(
      std::clamp(x, static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max())));
}

/// Sets a logit to `changed`. If the logit was finite, the result is kept finite.
template <class Scalar>
void change_finite(Scalar& logit, Scalar changed) {
  using Limits = std::numeric_limits<Scalar>;
  logit = std::isfinite(logit) ? std::clamp(changed, Limits::lowest(), Limits::max()) : changed;
}

}  // namespace specdec::detail

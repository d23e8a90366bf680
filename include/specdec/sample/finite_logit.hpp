// Logits that are changed stay numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace specdec::detail {

/// The nearest number that a scalar of a row can be. Not for NaN.
template <class Scalar>
Scalar nearest_finite(double x) {
  using Limits = std::numeric_limits<Scalar>;
  return static_cast<Scalar>(
      std::clamp(x, static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max())));
}

/// What a finite logit is changed to stays finite. One that is forbidden stays what it is made.
template <class Scalar>
void change_finite(Scalar& logit, Scalar changed) {
  using Limits = std::numeric_limits<Scalar>;
  logit = std::isfinite(logit) ? std::clamp(changed, Limits::lowest(), Limits::max()) : changed;
}

}  // namespace specdec::detail

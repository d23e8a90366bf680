// Temperature: flattens or sharpens a distribution.
// SPDX-License-Identifier: MIT
#pragma once

#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"

namespace specdec::inline v0_2_0 {

/// Divides the logits by t: p(x) ∝ exp(l(x)/t). Multiplies the temperature that the row already has by t.
///
/// t = 1 changes nothing. t = 0 gives probability 1 to the largest logit (the lowest id if several are equal), whatever the
/// other steps of the chain do. A product of temperatures that is too large for a number becomes the largest number.
/// Throws: InvalidArgument if t is negative, infinite or NaN.
class Temperature {
 public:
  explicit Temperature(double t) : t_(t) {
    if (!(t >= 0 && t <= std::numeric_limits<double>::max()))
      detail::invalid_argument("Temperature{", t, "} is not a finite number >= 0");
  }

  double value() const { return t_; }

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(const LogitsRow<S, Stride>& row) const {
    return row.tempered(t_);
  }

 private:
  double t_;
};

}  // namespace specdec

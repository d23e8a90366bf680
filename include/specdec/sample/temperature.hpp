// Temperature: flattens or sharpens a distribution.
#pragma once

#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"

namespace specdec {

/// Divides the logits by t: p(x) ∝ exp(l(x)/t), on top of the temperature that the row already has.
///
/// 1 changes nothing. 0 puts all on the largest logit, the lowest id among equals, whatever stands before and behind
/// it in the chain. Temperatures whose product is too large to be a number are as the largest one.
/// Throws std::invalid_argument: t negative, infinite or NaN.
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

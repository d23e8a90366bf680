// Dynamic temperature: the higher, the less sure the row is.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/more/rows/entropy.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/sample/threshold/gather.hpp"
#include "specdec/sample/threshold/token_weight.hpp"

namespace specdec::inline v0_2_0 {

/// Divides the logits by a temperature between t − range and t + range (at least 0), which grows with the row's entropy H:
///
///   T = low + (high − low) · (H / log n)^exponent,  low = max(0, t − range),  high = t + range
///
/// n is the number of tokens that earlier steps have kept, and H the entropy of their probabilities, at the row's temperature.
/// H is 0 if one token has all the mass, and log n if all n are equally likely. A range of 0 makes this Temperature{t}. T = 0
/// gives probability 1 to the largest logit.
///
///   Chain{TopK{40}, TopP{0.95}, MinP{0.05}, DynamicTemperature{0.8, 0.3}}
///
/// Source: dynatemp_range and dynatemp_exponent of llama.cpp. There tokens that a bias or a grammar has set to −inf count in n;
/// here they do not.
/// Throws: InvalidArgument if t, range or exponent is negative, infinite or NaN, or if t + range is infinite;
/// InvalidDistribution if the row cannot be read.
/// Numeric: the entropy is that of entropy().
/// Cost: normalises the row if that is not done yet, and two more passes. At the new temperature the row is normalised again.
class DynamicTemperature {
 public:
  DynamicTemperature(double t, double range, double exponent = 1)
      : low_(std::max(t - range, 0.0)), high_(t + range), exponent_(exponent) {
    check_finite("t", t);
    check_finite("range", range);
    check_finite("exponent", exponent);
    check_finite("t + range", high_);
  }

  /// Whether T depends on the row.
  bool is_dynamic() const { return low_ != high_; }

  /// T of a row with this entropy, in nats, and this number of tokens.
  double of(double entropy, double tokens) const {
    const double share = tokens > 1 ? std::clamp(entropy / std::log(tokens), 0.0, 1.0) : 0.0;
    return low_ + (high_ - low_) * std::pow(share, exponent_);
  }

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(const LogitsRow<S, Stride>& row) const {
    if (row.is_argmax()) return row;
    return row.tempered(is_dynamic() ? of(entropy(row), tokens(row)) : high_);
  }

  /// How many tokens of a row are not cut.
  template <Real S, int Stride>
  static double tokens(const LogitsRow<S, Stride>& row) {
    using Scalar = Arithmetic<S>;
    double count = 0;
    detail::each_chunk(row.logits(), row.live(), [&](const Scalar* logits) {
      count += detail::TokenCount<Scalar>{}.sum(logits, row.cut());
    });
    return count;
  }

 private:
  static void check_finite(const char* name, double number) {
    if (!(number >= 0 && number <= std::numeric_limits<double>::max()))
      detail::invalid_argument("DynamicTemperature: ", name, " = ", number, " is not a finite number >= 0");
  }

  double low_, high_, exponent_;
};

}  // namespace specdec

// Min-p: the tokens that are not too much less probable than the most probable one.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"

namespace specdec::inline v0_2_0 {

/// Keeps the tokens with p(x) >= min_p · max p, which is l(x) >= max l + T·log(min_p). This needs no normaliser, and does not
/// depend on which tokens earlier steps removed. 0 keeps all tokens, 1 only those equal to the largest.
/// Source: Nguyen et al., arXiv:2407.01082. Hugging Face transformers and llama.cpp define it in this way, too.
/// Throws: InvalidArgument unless 0 <= p <= 1; InvalidDistribution on a NaN or a logit of +inf.
/// Cost: one pass without exponentials over the tokens that are left. Afterwards only stretches with a kept token are read.
class MinP {
 public:
  explicit MinP(double p) : p_(p) {
    if (!(p >= 0 && p <= 1)) detail::invalid_argument("MinP{", p, "} is not between 0 and 1");
  }

  double value() const { return p_; }

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(const LogitsRow<S, Stride>& row) const {
    if (p_ == 0 || row.is_argmax()) return row;
    const auto peaks = row.peaks();
    return row.above(least(row.largest(), row.temperature()), peaks);
  }

  /// The smallest logit that stays, given the largest logit of the row.
  template <std::floating_point Scalar>
  Scalar least(Scalar largest, double temperature) const {
    const double exact = static_cast<double>(largest) + temperature * std::log(p_);
    const auto cut = static_cast<Scalar>(exact);
    return static_cast<double>(cut) < exact ? std::nextafter(cut, std::numeric_limits<Scalar>::infinity())
                                            : cut;
  }

 private:
  double p_;
};

}  // namespace specdec

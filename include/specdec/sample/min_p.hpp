// Min-p: the tokens that are not too much less probable than the most probable one.
#pragma once

#include <cmath>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/logits_row.hpp"

namespace specdec {

/// Keeps the tokens with p(x) >= min_p · max p, which is l(x) >= max l + T·log(min_p): no normaliser is
/// needed, and it does not matter what earlier steps took away.
///
/// Source: Nguyen et al., arXiv:2407.01082; Hugging Face transformers and llama.cpp define it so, too.
/// 0 keeps all, 1 what equals the largest. Throws std::invalid_argument unless 0 <= p <= 1;
/// InvalidDistribution on a NaN, a logit of +inf, no finite logit.
/// Cost: one pass without an exponential where the largest logit is not known.
class MinP {
 public:
  explicit MinP(double p) : p_(p) {
    if (!(p >= 0 && p <= 1)) detail::invalid_argument("MinP{", p, "} is not between 0 and 1");
  }

  double value() const { return p_; }

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(const LogitsRow<S, Stride>& row) const {
    using Scalar = Arithmetic<S>;
    if (p_ == 0 || row.is_argmax()) return row;
    const double least = static_cast<double>(row.largest()) + row.temperature() * std::log(p_);
    auto cut = static_cast<Scalar>(least);
    if (static_cast<double>(cut) < least) cut = std::nextafter(cut, std::numeric_limits<Scalar>::infinity());
    return row.above(cut);
  }

 private:
  double p_;
};

}  // namespace specdec

// Top-nσ: the tokens whose logit is within n standard deviations of the largest.
#pragma once

#include <cmath>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"

namespace specdec {

/// Keeps the tokens with l(x) >= max l − n·σ. σ is the standard deviation of the finite logits that earlier steps have kept
/// (divided by their number). n = 0 keeps all. A temperature does not change which tokens stay.
///
/// A mask of large finite numbers, such as −1e9, counts and makes σ large; −inf does not count.
/// Source: Tang et al., arXiv:2411.07641; top_n_sigma of llama.cpp, where n <= 0 keeps all.
/// Throws: std::invalid_argument if n is negative, infinite or NaN; InvalidDistribution on a NaN or a logit of +inf.
/// Cost: two passes without exponentials.
/// Numeric: σ is computed in double. A logit within rounding of the limit may be on either side.
class TopNSigma {
 public:
  explicit TopNSigma(double n) : n_(n) {
    if (!(n >= 0 && n <= std::numeric_limits<double>::max()))
      detail::invalid_argument("TopNSigma{", n, "} is not a finite number >= 0");
  }

  double value() const { return n_; }

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(const LogitsRow<S, Stride>& row) const {
    using Scalar = Arithmetic<S>;
    if (n_ == 0 || row.is_argmax()) return row;
    const auto largest = static_cast<double>(row.largest());
    double count = 0, sum = 0, squares = 0;
    for (Index x = 0; x < row.vocab_size(); ++x) {
      const Scalar l = row.logits()[x];
      if (l < row.cut()) continue;
      const double s = static_cast<double>(l) - largest;
      count += 1;
      sum += s;
      squares += s * s;
    }
    const double mean = sum / count;
    const double exact = largest - n_ * std::sqrt(std::fmax(squares / count - mean * mean, 0));
    // Below all finite numbers nothing is cut.
    if (!(exact > static_cast<double>(row.cut()))) return row;
    const auto cut = static_cast<Scalar>(exact);
    return row.above(static_cast<double>(cut) < exact
                         ? std::nextafter(cut, std::numeric_limits<Scalar>::infinity())
                         : cut);
  }

 private:
  double n_;
};

}  // namespace specdec

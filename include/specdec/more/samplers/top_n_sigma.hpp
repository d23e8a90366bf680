// Top-nσ: the tokens whose logit is within n standard deviations of the largest.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"

namespace specdec::inline v0_2_0 {

/// Keeps the tokens with l(x) >= max l − n·σ. σ is the standard deviation of the finite logits that earlier steps have kept
/// (divided by their number). n = 0 keeps all. A temperature does not change which tokens stay.
///
/// A mask of large finite numbers, such as −1e9, counts and makes σ large; −inf does not count.
/// Source: Tang et al., arXiv:2411.07641; top_n_sigma of llama.cpp, where n <= 0 keeps all.
/// Throws: InvalidArgument if n is negative, infinite or NaN; InvalidDistribution on a NaN or a logit of +inf.
/// Cost: two passes without exponentials.
/// Numeric: σ is computed in double. A logit within rounding of the limit may be on either side.
class TopNSigma {
 public:
  explicit TopNSigma(double n) : n_(n) {
    if (!(n >= 0 && n <= std::numeric_limits<double>::max()))
      detail::invalid_argument("TopNSigma{", n, "} is not a finite number >= 0");
  }

  double value() const { return n_; }

  /// What σ follows from: the number of logits, and sums of their distances from the largest.
  struct Moments {
    double largest, count = 0, sum = 0, squares = 0;

    double deviation() const {
      const double mean = sum / count;
      return std::sqrt(std::fmax(squares / count - mean * mean, 0));
    }
    /// Adds the logits of another part of the row. `largest` is the largest of all parts.
    void add(const Moments& part) {
      if (part.count == 0) return;
      const double lower = part.largest - largest;
      count += part.count;
      sum += part.sum + part.count * lower;
      squares += part.squares + lower * (2 * part.sum + part.count * lower);
    }
  };

  /// The moments of the finite logits that are not cut.
  template <Real S, int Stride>
  static Moments moments(const LogitsRow<S, Stride>& row) {
    Moments all{static_cast<double>(row.largest())};
    for (Index x = 0; x < row.vocab_size(); ++x) {
      const auto l = row.logits()[x];
      if (l < row.cut()) continue;
      const double s = static_cast<double>(l) - all.largest;
      all.count += 1;
      all.sum += s;
      all.squares += s * s;
    }
    return all;
  }

  /// The smallest logit that stays.
  template <std::floating_point Scalar>
  Scalar least(const Moments& row) const {
    const double exact = row.largest - n_ * row.deviation();
    // Below all finite numbers nothing is cut.
    if (!(exact > static_cast<double>(std::numeric_limits<Scalar>::lowest())))
      return std::numeric_limits<Scalar>::lowest();
    const auto cut = static_cast<Scalar>(exact);
    return static_cast<double>(cut) < exact ? std::nextafter(cut, std::numeric_limits<Scalar>::infinity())
                                            : cut;
  }

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(const LogitsRow<S, Stride>& row) const {
    if (n_ == 0 || row.is_argmax()) return row;
    return row.above(least<Arithmetic<S>>(moments(row)));
  }

 private:
  double n_;
};

}  // namespace specdec

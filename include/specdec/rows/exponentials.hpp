// Exponentials of logits, vectorised.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <limits>

#include "specdec/rows/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// exp((l − shift)/T) of logits l, vectorised.
template <class Scalar>
struct Exponentials {
  Scalar shift, inverse_temperature;

  /// Exponents are kept above this (float, double), for which the exponential is a normal number: processors
  /// may take a hundred times as long for subnormal ones, and logits of −inf are common.
  static constexpr Scalar least_exponent = std::numeric_limits<Scalar>::max_exponent10 < 100 ? -80 : -700;
  /// More than what that makes of many a logit of −inf.
  static constexpr Scalar negligible = std::numeric_limits<Scalar>::min() * Scalar{1e8};

  /// Calls f with the exponentials of a stretch of logits, as an expression.
  template <class Block, class F>
  auto operator()(const Block& l, F&& f) const {
    if (inverse_temperature == 1) return f((l - shift).max(least_exponent).exp());
    return f(((l - shift) * inverse_temperature).max(least_exponent).exp());
  }

  template <class Block>
  Scalar sum(const Block& l) const {
    const Scalar sum = (*this)(l, [](const auto& e) { return e.sum(); });
    return sum < negligible ? Scalar{0} : sum;
  }
};

/// The number of logits that are looked at together at most, where they have to be copied for that.
inline constexpr Index logits_piece = 512;

/// Calls f with `count` <= logits_piece logits as an Eigen array that can be vectorised: where they lie if
/// they are neighbours of a scalar that is computed with, else as a copy. (Else Eigen would go one by one: a
/// scalar exponential each, and one running sum that is not exact enough.)
template <Real S, int Stride, class F>
auto with_logits(const NumberRow<S, Stride>& row, Index start, Index count, F&& f) {
  if constexpr (Stride == 1 && std::floating_point<S>) {
    return f(row.segment(start, count));
  } else {
    const Eigen::Array<Arithmetic<S>, Eigen::Dynamic, 1, Eigen::ColMajor, logits_piece> copy =
        row.segment(start, count);
    return f(copy);
  }
}

/// Takes away what is below the cut. A plain loop, because compilers vectorise this comparison and Eigen 3.4
/// does not.
template <class Scalar>
void mask_below(Scalar cut, Scalar* logits, std::size_t count) {
  constexpr Scalar no_logit = -std::numeric_limits<Scalar>::infinity();
  for (std::size_t i = 0; i < count; ++i) logits[i] = logits[i] >= cut ? logits[i] : no_logit;
}

}  // namespace specdec::detail

// The numbers that an audit needs about a row and the token drawn from it.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "specdec/more/audits/row_segments.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing::detail {

/// The exponents β of the alternatives; exponents above 1 come first. Their powers need only square roots and products.
inline constexpr std::array<double, 9> exponents{1.0625, 1.125, 1.25, 1.5, 2, 0.9375, 0.875, 0.75, 0.5};
inline constexpr std::size_t sharper = 5;  // how many exponents are above 1
inline constexpr std::size_t squares = 4;  // the place of β = 2

/// Reads these numbers in one pass over the row. U is the place by rank for a given V, and W the place by id.
class RowReading : public PlaceInRow {
 public:
  template <Distribution R>
  RowReading(const R& row, Token x) : PlaceInRow(row, x) {
    read(row, x, [this](const Piece& q, const auto&) { take(q); });
  }

  /// Σ q(y)^β.
  double power(std::size_t k) const { return powers_[k]; }

  /// Whether the row is finite, not negative, and normalised up to the rounding of a narrow scalar.
  bool is_distribution() const {
    return std::abs(total() - 1) <= 0.01 &&
           std::isfinite(std::accumulate(powers_.begin(), powers_.end(), 0.0));
  }

  /// Whether the row has unequal probabilities and is not nearly one-hot. (In a nearly one-hot row U is almost equal to V,
  /// which weakens the test.)
  bool is_informative() const { return equal() < (1 - 1e-6) * total() && powers_[squares] < 0.9; }

 private:
  void take(const Piece& q) {
    const Piece r2 = q.sqrt(), r4 = r2.sqrt(), r8 = r4.sqrt(), r16 = r8.sqrt();
    const std::array<double, exponents.size()> sums{
        (q * r16).sum(),      (q * r8).sum(),  (q * r4).sum(),
        (q * r2).sum(),       (q * q).sum(),   (r2 * r4 * r8 * r16).sum(),
        (r2 * r4 * r8).sum(), (r2 * r4).sum(), r2.sum()};
    for (std::size_t k = 0; k < sums.size(); ++k) powers_[k] += sums[k];
  }

  std::array<double, exponents.size()> powers_ = {};
};

}  // namespace specdec::testing::detail

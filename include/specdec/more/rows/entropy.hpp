// The entropy of a row.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/each_segment.hpp"

namespace specdec::inline v0_2_0 {

/// −Σ p(x) log p(x): 0 if one token has all the mass, log V if all V tokens are equally likely.
/// Units: nats.
/// Numeric: logarithms in the scalar of the row's segments, sums in double across segments. NaN anywhere gives NaN.
/// Cost: one pass over the row, or over its list if it has one.
template <Distribution Row>
double entropy(const Row& row) {
  double sum = 0;
  detail::each_segment(row, [&](const auto&, const auto& segment) {
    const auto p = segment.eval();
    sum += static_cast<double>((p == 0).select(p, p * p.log()).sum());
  });
  return -sum;
}

}  // namespace specdec

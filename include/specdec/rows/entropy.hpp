// The entropy of a row.
#pragma once

#include <algorithm>
#include <cmath>

#include "specdec/rows/distribution.hpp"

namespace specdec {

/// −Σ p(x) log p(x), in nats: 0 where one token has all the mass, log V where all are alike.
///
/// Numeric: logarithms in the scalar of the row's blocks, sums in double across blocks. NaN anywhere gives NaN.
/// Cost: one pass over the row, of a sparse one over its list.
template <Distribution Row>
double entropy(const Row& row) {
  double sum = 0;
  if constexpr (SparseRowLike<Row>) {
    for (Index k = 0; k < row.support_size(); ++k) {
      const double p = row.weight(k);
      if (p != 0) sum += p * std::log(p);
    }
  } else if constexpr (BlockRow<Row>) {
    for (Index start = 0; start < row.vocab_size(); start += max_block_size) {
      const auto p = row.block(start, std::min(max_block_size, row.vocab_size() - start)).eval();
      sum += static_cast<double>((p == 0).select(p, p * p.log()).sum());
    }
  } else {
    for (Index x = 0; x < row.vocab_size(); ++x) {
      const double p = row.probability(static_cast<Token>(x));
      if (p != 0) sum += p * std::log(p);
    }
  }
  return -sum;
}

}  // namespace specdec

// The costly checks, for trust boundaries: every entry of every row.
#pragma once

#include <cmath>
#include <string_view>
#include <utility>

#include "specdec/core/dense.hpp"
#include "specdec/core/error.hpp"

namespace specdec {

/// Throws InvalidDistribution unless every row holds finite, non-negative probabilities that sum to 1 within
/// `tolerance`. `name` is what the message calls the matrix.
///
/// The verifiers do not call this: they check in O(γ) what they are about to use. Call it where rows come
/// from code you do not trust, or while a backend is new. Cost: one pass over all rows.
template <Probabilities M>
requires SizedDistributionMatrix<decltype(distributions(std::declval<const M&>()))>
void validate(const M& matrix, std::string_view name = "probabilities", double tolerance = 1e-3) {
  const auto rows = distributions(matrix);
  for (Index i = 0; i < rows.rows(); ++i) {
    const auto row = rows.row(i);
    double sum = 0;
    for (Index x = 0; x < rows.vocab_size(); ++x) {
      const double p = row.probability(static_cast<Token>(x));
      if (!(p >= 0) || !std::isfinite(p))
        throw InvalidDistribution(
            detail::message("specdec: ", name, " row ", i, ": the probability of token ", x, " is ", p));
      sum += p;
    }
    if (!(std::abs(sum - 1) <= tolerance))
      throw InvalidDistribution(
          detail::message("specdec: ", name, " row ", i, ": the probabilities sum to ", sum));
  }
}

}  // namespace specdec

// Log-probabilities, and what rows were before they were processed.
#pragma once

#include <cmath>
#include <concepts>

#include "specdec/rows/distribution.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// The natural logarithm of a token's probability, −inf where that is 0: by the row's own log_probability(x), which is finite
/// where the probability underflows, or of what it gives the token.
template <Distribution R>
double log_probability(const R& row, Token x) {
  if constexpr (requires { row.log_probability(x); }) return row.log_probability(x);
  else return std::log(probability(row, x));
}

/// A row that knows what it was before temperature, cuts and hooks: unprocessed() is that as a Distribution.
template <class R>
concept ProcessedDistribution = requires(const R& row) {
  { row.unprocessed() } -> Distribution;
};

}  // namespace specdec

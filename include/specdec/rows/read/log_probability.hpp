// Log-probabilities of tokens.
#pragma once

#include <cmath>

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

}  // namespace specdec

// Token verification: each drafted token is accepted or rejected by itself.
// Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding",
// arXiv:2211.17192, Algorithm 1; Chen et al., arXiv:2302.01318, Algorithm 2.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/verify/rules/callable.hpp"

namespace specdec::inline v0_2_0 {

/// Token verification. Lossless: the output is distributed as if the target alone had written it.
/// Source: Leviathan et al., Alg. 1. A race of weight 1 (race.hpp) replaces the residual draw.
/// Shapes: target (γ+1)×V, draft γ×V, tokens γ; γ >= 0, V >= 1.
/// Units: probabilities.
/// Throws: wrong shapes, tokens that cannot have been drafted and numbers that are no probabilities are errors: see Drafted.
/// Random: a coin per token up to the first rejection, then a race; or, after full acceptance, a draw.
/// Cost: γ look-ups in each matrix, and an expected draw from a target row at each position reached. No allocation (γ <= 64).
/// Numeric: decisions in double.
/// Example: examples/engine/verify_block.cpp, with this rule in place of BlockVerifier.
struct TokenVerifier : detail::Callable<TokenVerifier> {
  constexpr Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i)))
        return {i, *drafted.race(chance, 1.0, i)};  // Y ∝ (p − q)+: a race of weight 1 is never lost
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }

  /// Each token survives with probability min(1, p/q), independently.
  static constexpr double survival(double before, double p, double q) {
    return before * std::min(1.0, p / q);
  }
};

}  // namespace specdec

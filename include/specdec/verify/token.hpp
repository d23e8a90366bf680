// Token verification: each drafted token stands or falls alone.
// Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding",
// arXiv:2211.17192, Algorithm 1; Chen et al., arXiv:2302.01318, Algorithm 2.
#pragma once

#include <algorithm>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/verify/drafted_block.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// Token verification. Lossless: the output is distributed as if the target alone had written it.
///
/// Source: Leviathan et al., Alg. 1, with the residual draw replaced by a race of weight 1 (race.hpp).
/// Shapes: target (γ+1)×V, draft γ×V, tokens γ; γ >= 0, V >= 1. Units: probabilities.
/// Throws: std::invalid_argument on wrong shapes, a token outside the vocabulary or with q = 0, and numbers a
/// decision needs that are no probabilities (InvalidDistribution).
/// Random: a coin per token up to the first rejection, then a race or, after full acceptance, a draw.
/// Cost: γ lookups in each matrix and, in expectation, one draw from a row of the target for each position
/// reached; no allocation (γ <= 32).
/// Numeric: decisions in double. Example: examples/verify_block.cpp (same call).
struct TokenVerifier {
  template <Probabilities Target, Probabilities Draft, RandomSource Source>
  Verdict operator()(const Target& target, const Draft& draft, TokenIds tokens, Source& source) const {
    return judge(detail::drafted_block(target, draft, tokens), as_chance(source));
  }

  /// The same for a block whose shapes have been checked: the loop goes on to use its rows.
  template <class Block, class C>
  Verdict judge(const Block& block, C&& chance) const {
    block.check_drawn();
    for (Index i = 0; i < block.gamma(); ++i) {
      if (chance.coin(block.ratio(i))) continue;
      return {i, *detail::race_at(chance, 1.0, block, i)};  // Y ∝ (p − q)+: a race of weight 1 is never lost
    }
    return {block.gamma(), chance.draw(block.p(block.gamma()))};
  }

  /// P(τ > i | x_1..x_{i+1}) from P(τ >= i | x_1..x_i), p = p_i(x_{i+1}) and q = q_i(x_{i+1}).
  static double survival(double before, double p, double q) { return before * std::min(1.0, p / q); }

  friend bool operator==(const TokenVerifier&, const TokenVerifier&) = default;
};

}  // namespace specdec

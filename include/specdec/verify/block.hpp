// Block verification: the whole draft is judged as one, and more of it survives.
// Source: Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025, arXiv:2403.10444,
// Algorithm 2.
#pragma once

#include <algorithm>

#include "specdec/rows/scratch.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// Block verification, the default rule. Lossless, and no lossless rule that fits the plain loop accepts more
/// tokens in expectation (Theorem 2); equal to token verification at γ = 1, better in general from γ = 2 on.
///
/// Source: Sun et al., Alg. 2. With w_0 = 1, w_{i+1} = min(1, w_i·p_i(x_{i+1})/q_i(x_{i+1})), the paper flips
/// a coin of probability h_i = S_i/(S_i + 1 − w_i), S_i = Σ(w_i·p_i − q_i)+, at every i, keeps the longest
/// prefix whose coin succeeds and draws Y ∝ (w_τ·p_τ − q_τ)+. The coins are independent, so they may be
/// flipped from the longest prefix down, stopping at the first success; and a race of weight w_i is won with
/// probability h_i by a token of just that residual law. At γ nothing is subtracted (h_γ = w_γ, Y ~ p_γ), at
/// 0 the race cannot be lost (w_0 = 1): hence the lines below. P(τ >= i | x_1..x_i) = w_i (Lemma 3).
/// Shapes: target (γ+1)×V, draft γ×V, tokens γ. Units: probabilities. Throws: std::invalid_argument on wrong shapes and
/// on a token that cannot have been drafted, InvalidDistribution where a number it needs is no probability.
/// Random: a race per position from γ down to τ. Cost: γ look-ups in each matrix and, in expectation, one draw
/// from a row of the target per position, at most γ+1; no allocation (γ <= 64).
struct BlockVerifier : detail::Callable<BlockVerifier> {
  Verdict judge(const auto& drafted, auto& chance) const {
    drafted.look_up_all();
    const Index gamma = drafted.gamma();
    detail::Scratch w(gamma + 1);
    w[0] = 1;
    for (Index i = 0; i < gamma; ++i) w[i + 1] = w[i] > 0 ? survival(w[i], drafted.p(i), drafted.q(i)) : 0;
    for (Index i = gamma; i > 0; --i)
      if (const auto y = drafted.race(chance, w[i], i)) return {i, *y};
    return {0, *drafted.race(chance, w[0], 0)};
  }

  /// w_{i+1} from w_i (Lemma 3).
  static double survival(double before, double p, double q) { return std::min(1.0, before * (p / q)); }

  friend bool operator==(const BlockVerifier&, const BlockVerifier&) = default;
};

}  // namespace specdec

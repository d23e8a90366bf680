// Block verification: judges the whole draft at once, and accepts more of it than token verification.
// Source: Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025, arXiv:2403.10444, Algorithm 2.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/verify/rules/callable.hpp"

namespace specdec::inline v0_2_0 {

/// Block verification, the default rule. Lossless. No other lossless rule for the plain loop accepts more tokens in
/// expectation (Theorem 2). At γ = 1 it equals token verification; from γ = 2 on it is better in general.
/// Source: Sun et al., Alg. 2. Let w_0 = 1, w_{i+1} = min(1, w_i·p_i(x_{i+1})/q_i(x_{i+1})), S_i = Σ(w_i·p_i − q_i)+. The paper
/// flips a coin of probability h_i = S_i/(S_i + 1 − w_i) at every i. It keeps the longest prefix with a successful coin, and
/// draws Y ∝ (w_τ·p_τ − q_τ)+. The coins are independent. So this code starts at the longest prefix and stops at the first
/// success. A race of weight w_i (race.hpp) is won with probability h_i, and its winner has the law of the residual. At γ nothing
/// is subtracted (h_γ = w_γ, Y ~ p_γ). At 0 the race is always won (w_0 = 1). P(τ >= i | x_1..x_i) = w_i (Lemma 3).
/// Shapes: target (γ+1)×V, draft γ×V, tokens γ.
/// Units: probabilities.
/// Throws: wrong shapes, tokens that cannot have been drafted and numbers that are no probabilities are errors: see Drafted.
/// Random: a race per position, from γ down to τ.
/// Cost: γ look-ups in each matrix; for each of at most γ+1 positions a draw in expectation. No allocation (γ <= 64).
struct BlockVerifier : detail::Callable<BlockVerifier> {
  constexpr Verdict judge(const auto& drafted, auto& chance) const {
    drafted.look_up_all();
    const Index gamma = drafted.gamma();
    auto w = drafted.scratch();
    w[0] = 1;
    for (Index i = 0; i < gamma; ++i) w[i + 1] = w[i] > 0 ? survival(w[i], drafted.p(i), drafted.q(i)) : 0;
    for (Index i = gamma; i > 0; --i)
      if (const auto y = drafted.race(chance, w[i], i)) return {i, *y};
    return {0, *drafted.race(chance, w[0], 0)};
  }

  /// w_{i+1} from w_i (Lemma 3).
  static constexpr double survival(double before, double p, double q) {
    return std::min(1.0, before * (p / q));
  }
};

}  // namespace specdec

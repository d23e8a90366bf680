// Block verification: the whole draft is judged as one, and more of it survives.
// Source: Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025, arXiv:2403.10444,
// Algorithm 2.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/verify/drafted_block.hpp"
#include "specdec/verify/verdict.hpp"

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
/// Shapes, units, throws: as TokenVerifier.
/// Random: a race per position from γ down to τ. Cost: γ lookups in each matrix and, in expectation, one draw
/// from a row of the target per position, at most γ+1; no allocation once γ has been seen (γ <= 32).
struct BlockVerifier {
  template <Probabilities Target, Probabilities Draft, RandomSource Source>
  Verdict operator()(const Target& target, const Draft& draft, TokenIds tokens, Source& source) {
    return judge(detail::drafted_block(target, draft, tokens), as_chance(source));
  }

  /// The same for a block whose shapes have been checked: the loop goes on to use its rows.
  template <class Block, class C>
  Verdict judge(const Block& block, C&& chance) {
    block.check_drawn();
    const Index gamma = block.gamma();
    w_.assign(1, 1.0);
    for (Index i = 0; i < gamma; ++i)
      w_.push_back(w_.back() > 0 ? std::min(1.0, w_.back() * block.ratio(i)) : 0.0);
    for (Index i = gamma; i > 0; --i)
      if (const std::optional<Token> y = detail::race_at(chance, w_[static_cast<std::size_t>(i)], block, i))
        return {i, *y};
    return {0, *detail::race_at(chance, 1.0, block, 0)};
  }

  static constexpr bool reads_every_ratio = true;

  /// w_{i+1} = P(τ > i | x_1..x_{i+1}) from w_i, p = p_i(x_{i+1}) and q = q_i(x_{i+1}) (Lemma 3).
  static double survival(double before, double p, double q) { return std::min(1.0, before * (p / q)); }

  /// No state outlives a call: all are equal (which lets proofs merge what differs in nothing else).
  friend bool operator==(const BlockVerifier&, const BlockVerifier&) { return true; }

 private:
  std::vector<double> w_;  // scratch of one call
};

}  // namespace specdec

// Sample-and-match: the target draws its own tokens; the draft saves calls where it guessed them.
#pragma once

#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/verify/drafted_block.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// Draws y_i from target row i and accepts the drafted token while it equals y_i; the token added is the
/// first y_i that differs, or the bonus. Lossless for any drafter, reported q or none, since every emitted
/// token is a draw from the target. It accepts Σ p·q where token verification accepts Σ min(p, q).
///
/// Source: the rule of inference engines that verify through the target's own sampler (no paper of its own);
/// the random sibling of argmax verification. Shapes, units, throws: as TokenVerifier; draft may be left out,
/// and q(x) = 0 is no error. Random: one draw per position up to and including the stop. Cost: τ+1 lazy
/// draws; no allocation (γ <= 32).
struct SampleMatchVerifier {
  template <Probabilities Target, RandomSource Source>
  Verdict operator()(const Target& target, TokenIds tokens, Source& source) const {
    return judge(detail::drafted_block(target, OneHotRows(tokens), tokens), as_chance(source));
  }

  template <Probabilities Target, Probabilities Draft, RandomSource Source>
  Verdict operator()(const Target& target, const Draft& draft, TokenIds tokens, Source& source) const {
    return judge(detail::drafted_block(target, draft, tokens), as_chance(source));
  }

  /// The same for a block whose shapes have been checked: the loop goes on to use its rows.
  template <class Block, class C>
  static Verdict judge(const Block& block, C&& chance) {
    for (Index i = 0;; ++i) {
      const Token y = chance.draw(block.p(i));
      if (i == block.gamma() || y != block.token(i)) return {i, y};
    }
  }

  /// P(τ > i | x_1..x_{i+1}) from P(τ >= i | x_1..x_i): y_i is drawn apart from x_{i+1}.
  static double survival(double before, double p, double) { return before * p; }

  friend bool operator==(const SampleMatchVerifier&, const SampleMatchVerifier&) = default;
};

}  // namespace specdec

// Sample-and-match: the target draws its own tokens. The draft saves target calls where it guessed these tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/callable.hpp"

namespace specdec::inline v0_2_0 {

/// Lossless for any drafter, with or without q, since every emitted token is drawn from the target. The rule draws y_i from
/// target row i, and accepts drafted tokens as long as each equals its y_i. Y is the first y_i that differs, or the bonus
/// token. A token is accepted with probability Σ p·q; token verification accepts it with Σ min(p, q).
/// Source: the rule of inference engines that verify with the target's own sampler; it has no paper.
/// Shapes: target (γ+1)×V, tokens γ; the draft's rows, γ×V, are not read and may be left out.
/// Units: probabilities.
/// Throws: wrong shapes, tokens outside the vocabulary and rows that cannot be drawn from are errors: see Drafted.
/// Random: one draw per position up to and including the stop.
/// Cost: τ+1 lazy draws; no allocation (γ <= 64).
struct SampleMatchVerifier : detail::Callable<SampleMatchVerifier> {
  static constexpr bool needs_draft = false;

  constexpr Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0;; ++i) {
      const Token y = drafted.draw(chance, i);
      if (i == drafted.gamma() || y != drafted.token(i)) return {i, y};
    }
  }

  /// y_i is drawn independently of x_{i+1}, and equals it with probability p.
  static constexpr double survival(double before, double p, double) { return before * p; }
};

}  // namespace specdec

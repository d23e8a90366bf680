// Sample-and-match: the target draws its own tokens; the draft saves calls where it guessed them.
#pragma once

#include "specdec/verify/verifier.hpp"

namespace specdec {

/// Draws y_i from target row i and accepts the drafted token while it equals y_i; the token added is the
/// first y_i that differs, or the bonus. Lossless for any drafter, reported q or none, since every emitted
/// token is a draw from the target. It accepts Σ p·q where token verification accepts Σ min(p, q).
///
/// Source: the rule of inference engines that verify through the target's own sampler (no paper of its own);
/// the random sibling of argmax verification. Shapes: target (γ+1)×V, tokens γ; the draft's rows, γ×V, may be left out,
/// and are not read. Units: probabilities. Throws: std::invalid_argument on wrong shapes and on a token outside the
/// vocabulary, InvalidDistribution where a row cannot be drawn from. Random: one draw per position up to and including the stop. Cost:
/// τ+1 lazy draws; no allocation (γ <= 64).
struct SampleMatchVerifier : detail::Callable<SampleMatchVerifier> {
  static constexpr bool needs_draft = false;

  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0;; ++i) {
      const Token y = drafted.draw(chance, i);
      if (i == drafted.gamma() || y != drafted.token(i)) return {i, y};
    }
  }

  /// y_i is drawn apart from x_{i+1}, and is x_{i+1} with probability p.
  static double survival(double before, double p, double) { return before * p; }

  friend bool operator==(const SampleMatchVerifier&, const SampleMatchVerifier&) = default;
};

}  // namespace specdec

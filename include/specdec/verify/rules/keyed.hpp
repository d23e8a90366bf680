// Keyed coupling: sample-and-match with random numbers that the drafter can use, too. The drafting does not change the text.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/verify/rules/callable.hpp"
#include "specdec/verify/rules/sample_match.hpp"

namespace specdec::inline v0_2_0 {

/// One seed gives one text, exactly the text of autoregressive<KeyedVerifier>: with any drafter, any draft length, any tree,
/// alone or in a batch. The rule is SampleMatchVerifier with random numbers that depend on the place in the text only (Keyed).
///
///   specdec::Keyed keyed{seed};
///   decoder.generate(prompt, options, keyed);
///   keyed.stand_at(context_length);                                          // by hand
///   const Verdict v = specdec::KeyedVerifier{}(target, draft, tokens, keyed);
///
/// Over random seeds the text has the target's law. Let y_i be the target's draw. A drafter that draws with this Keyed guesses
/// y_i with probability Σ_x 1/Σ_y max(p(y)/p(x), q(y)/q(x)) >= (1 − TV)/(1 + TV) (keyed_agreement). Token verification reaches 1
/// − TV, a little more. Tokens of any other drafter are accepted with probability p. For trees: TrunkAndSpares<KeyedVerifier>.
/// Source: Daliri, Musco and Suresh, "Coupling without Communication and Drafter-Invariant Speculative Decoding",
/// arXiv:2408.07978; arXiv:2506.05632.
/// Shapes: target (γ+1)×V, tokens γ; the draft's rows, γ×V, are not read and may be left out.
/// Units: probabilities.
/// Throws: wrong shapes, tokens outside the vocabulary and rows that cannot be drawn from are errors: see Drafted.
/// Random: the source is a Keyed. Its place in the text does not change.
/// Cost: a pass over each of τ+1 target rows; no allocation (γ <= 64).
struct KeyedVerifier : detail::Callable<KeyedVerifier> {
  static constexpr bool needs_draft = false, draws_keyed = true;

  // There is no survival(): p and q are not enough. Whether a drafted token survives also depends on the Keyed.
  constexpr Verdict judge(const auto& drafted, auto& chance) const {
    return SampleMatchVerifier{}.judge(drafted, chance);
  }
};

}  // namespace specdec

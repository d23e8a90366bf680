// Keyed coupling: sample-and-match by numbers that the drafter draws by, too. The text does not depend on the drafting.
#pragma once

#include "specdec/verify/sample_match.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// Draws y_i from target row i by the numbers that belong to its place in the text (Keyed), and accepts the drafted token
/// while it equals y_i; the token added is the first y_i that differs, or the bonus. The text of a seed is that of
/// autoregressive<KeyedVerifier>, token for token: with any drafter, any draft length, any tree, alone or in a batch.
///
///   specdec::Keyed keyed{seed};
///   decoder.generate(prompt, options, keyed);
///   keyed.stand_at(context_length);                                          // by hand
///   const Verdict v = specdec::KeyedVerifier{}(target, draft, tokens, keyed);
///
/// Over seeds the text has the target's law. A drafter that draws by the same numbers guesses y_i with probability
/// Σ_x 1/Σ_y max(p(y)/p(x), q(y)/q(x)) >= (1 − TV)/(1 + TV) (keyed_agreement), which comes near the 1 − TV of token
/// verification; the tokens of one that does not are accepted with their probability p. For trees of tokens:
/// TrunkAndSpares<KeyedVerifier>.
///
/// Source: Daliri, Musco and Suresh, "Coupling without Communication and Drafter-Invariant Speculative Decoding",
/// arXiv:2408.07978; arXiv:2506.05632. Shapes: target (γ+1)×V, tokens γ; the draft's rows, γ×V, may be left out, and are
/// not read. Units: probabilities. Throws: std::invalid_argument on wrong shapes and on a token outside the vocabulary,
/// InvalidDistribution where a row cannot be drawn from. Random: the source is a Keyed, and stays where it stands.
/// Cost: a pass over each of τ+1 target rows; no allocation (γ <= 64).
struct KeyedVerifier : detail::Callable<KeyedVerifier> {
  static constexpr bool needs_draft = false, draws_keyed = true;

  // Whose the numbers are makes no difference to the rule. It tells no survival: that a token was drawn by these numbers
  // says more than its p and q.
  Verdict judge(const auto& drafted, auto& chance) const {
    return SampleMatchVerifier{}.judge(drafted, chance);
  }

  friend bool operator==(const KeyedVerifier&, const KeyedVerifier&) = default;
};

}  // namespace specdec

// Argmax verification: greedy decoding (temperature 0), faster, with exactly the same tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/chance/random.hpp"
#include "specdec/verify/rules/callable.hpp"

namespace specdec::inline v0_2_0 {

/// The output is exactly the output of greedy decoding with the target alone. Drafted tokens are accepted as long as each is
/// the target's argmax. Y is the argmax where the rule stops. Among equal maxima the lowest id wins.
/// Source: Leviathan et al., arXiv:2211.17192, §2.2: temperature 0, with the argmax as a degenerate distribution.
/// Shapes: target (γ+1)×V, tokens γ; the draft's rows, γ×V, are not read and may be left out.
/// Units: probabilities.
/// Throws: InvalidArgument on wrong shapes or tokens, InvalidDistribution on NaN.
/// Random: none.
/// Cost: one pass over each of τ+1 target rows.
struct ArgmaxVerifier : detail::Callable<ArgmaxVerifier> {
  static constexpr bool draws_from_target = false, needs_draft = false;

  using Callable::operator();
  template <class Target>
  Verdict operator()(const Target& target, TokenIds tokens) const {
    SplitMix64 unused(0);
    return verify_undrafted(*this, target, tokens, unused);  // include <specdec/verify/verifier.hpp>
  }

  constexpr Verdict judge(const auto& drafted, auto&) const {
    for (Index i = 0;; ++i) {
      const Token best = drafted.argmax(i);
      if (i == drafted.gamma() || best != drafted.token(i)) return {i, best};
    }
  }
};

}  // namespace specdec

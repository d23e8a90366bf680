// Lenient verification: trades exactness for acceptance. LOSSY.
// Source: Leviathan et al., arXiv:2211.17192, Appendix A.5.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/verify/rules/callable.hpp"

namespace specdec::inline v0_2_0 {

/// Token verification with lenience l in (0, 1]. LOSSY for l < 1: the output does not follow the target. One bound holds:
/// no token comes out with more than 1/l times the target's probability. l = 1 is token verification.
/// Source: Leviathan et al., App. A.5: accept with min(1, p/(l·q)), correct from (p − l·q)+. A race of weight 1/l (race.hpp)
/// has this residual, divided by l.
/// Shapes: target (γ+1)×V, draft γ×V, tokens γ.
/// Units: probabilities.
/// Throws: wrong shapes, tokens that cannot have been drafted and numbers that are no probabilities are errors: see Drafted.
/// The constructor: InvalidArgument unless 0 < l <= 1.
class LenientVerifier : public detail::Callable<LenientVerifier> {
 public:
  static constexpr bool draws_from_target = false;

  LenientVerifier() = default;
  constexpr explicit LenientVerifier(double lenience) : lenience_(lenience) {
    if (!(lenience > 0 && lenience <= 1 && 1 / lenience <= std::numeric_limits<double>::max()))
      detail::invalid_argument("lenience = ", lenience, " is outside (0, 1]");
  }

  constexpr double lenience() const { return lenience_; }

  constexpr Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i) / lenience_)) return {i, *drafted.race(chance, 1 / lenience_, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }

  /// Each token survives with probability min(1, p/(l·q)), independently.
  constexpr double survival(double before, double p, double q) const {
    return before * std::min(1.0, p / (lenience_ * q));
  }

  friend bool operator==(const LenientVerifier&, const LenientVerifier&) = default;

 private:
  double lenience_ = 1.0;
};

}  // namespace specdec

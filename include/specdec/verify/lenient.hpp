// Lenient verification: trades exactness for acceptance. LOSSY.
// Source: Leviathan et al., arXiv:2211.17192, Appendix A.5.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/error.hpp"
#include "specdec/verify/drafted_block.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// Token verification with lenience l in (0, 1]. LOSSY for l < 1: the output is not the target's. What it
/// does guarantee: no token is emitted with more than 1/l times the probability that the target gives it.
///
/// Source: Leviathan et al., App. A.5: accept with min(1, p/(l·q)), correct from (p − l·q)+. Dividing by l
/// shows the residual as that of a race of weight 1/l. l = 1 is token verification. Shapes, units, throws: as
/// TokenVerifier; the constructor throws std::invalid_argument unless 0 < l <= 1.
class LenientVerifier {
 public:
  static constexpr bool draws_from_target = false;

  LenientVerifier() = default;
  explicit LenientVerifier(double lenience) : lenience_(lenience) {
    if (!(lenience > 0 && lenience <= 1 && std::isfinite(1 / lenience)))
      detail::invalid_argument("lenience = ", lenience, " is outside (0, 1]");
  }

  double lenience() const { return lenience_; }

  template <Probabilities Target, Probabilities Draft, RandomSource Source>
  Verdict operator()(const Target& target, const Draft& draft, TokenIds tokens, Source& source) const {
    return judge(detail::drafted_block(target, draft, tokens), as_chance(source));
  }

  /// The same for a block whose shapes have been checked.
  template <class Block, class C>
  Verdict judge(const Block& block, C&& chance) const {
    block.check_drawn();
    for (Index i = 0; i < block.gamma(); ++i) {
      if (chance.coin(block.ratio(i) / lenience_)) continue;
      return {i, *detail::race_at(chance, 1 / lenience_, block, i)};
    }
    return {block.gamma(), chance.draw(block.p(block.gamma()))};
  }

  /// As TokenVerifier's, for p/l.
  double survival(double before, double p, double q) const {
    return before * std::min(1.0, p / (lenience_ * q));
  }

  friend bool operator==(const LenientVerifier&, const LenientVerifier&) = default;

 private:
  double lenience_ = 1.0;
};

}  // namespace specdec

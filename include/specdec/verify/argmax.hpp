// Argmax verification: greedy decoding (temperature 0), faster and token for token the same.
#pragma once

#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/verify/drafted_block.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// Accepts a drafted token while it is the target's argmax; the token added is the argmax at the stop. The
/// output is, token for token, what greedy decoding with the target alone gives.
///
/// Source: the rule of temperature 0 in Leviathan et al., arXiv:2211.17192, §2.2 (argmax as a degenerate
/// distribution). Shapes: as TokenVerifier; draft may be left out, as no q is needed. Units: probabilities.
/// Throws: std::invalid_argument on wrong shapes or tokens, InvalidDistribution on NaN. Random: none. Cost:
/// one pass over each of τ+1 target rows. Ties: the lowest id.
struct ArgmaxVerifier {
  static constexpr bool draws_from_target = false;

  template <Probabilities Target>
  Verdict operator()(const Target& target, TokenIds tokens) const {
    return judge(detail::drafted_block(target, OneHotRows(tokens), tokens));
  }

  template <Probabilities Target, Probabilities Draft, RandomSource Source>
  Verdict operator()(const Target& target, const Draft& draft, TokenIds tokens, Source&) const {
    return judge(detail::drafted_block(target, draft, tokens));
  }

  friend bool operator==(const ArgmaxVerifier&, const ArgmaxVerifier&) = default;

 private:
  template <class Block>
  static Verdict judge(const Block& block) {
    static_assert(ArgmaxRow<decltype(block.p(0))>, "the target's rows are no specdec::ArgmaxRow");
    for (Index i = 0;; ++i) {
      const Token best = block.p(i).argmax();
      if (i == block.gamma() || best != block.token(i)) return {i, best};
    }
  }
};

}  // namespace specdec

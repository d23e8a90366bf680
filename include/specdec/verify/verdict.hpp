// What a verifier answers, and what it has to be.
#pragma once

#include <concepts>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/rows/dense.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// The outcome of one verification: the step emits tokens[0..accepted) and then `token`.
struct Verdict {
  Index accepted = 0;  ///< τ: how many drafted tokens survive, 0 <= τ <= γ
  Token token = 0;     ///< Y: the correction token where τ < γ, the bonus token where τ = γ

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// A rule that judges a block of γ drafted tokens:
///
///   verdict = verifier(target, draft, tokens, chance)
///
///   target   γ+1 rows: row i is the target's distribution after i drafted tokens
///   draft    γ rows: row i is the distribution that tokens[i] was really drawn from
///   tokens   the γ drafted tokens
///   chance   a random bit generator, or a source of chance
///
/// A verifier with state of its own sequence also has min_draft_length(): the next draft must not be shorter.
/// A verifier may also offer, as those of the library do:
///
///   judge(block, chance)      the same on a detail::DraftedBlock, so that the loop makes it once and goes on to
///                             use what its rows have learnt
///   survival(before, p, q)    P(τ > i | x_1..x_{i+1}), where i or more tokens survive with probability `before`
///                             and token i + 1 has probabilities p and q: with it the loop's statistics tell
///                             acceptance with less noise than by counting
///   draws_from_target         a static constant: false if what comes out is not distributed as the target's rows say,
///                             for rules that are lossy or greedy
///   reads_every_ratio         a static constant: true if judge looks up p and q of every drafted token, up to one
///                             that the target rules out, so that the loop may do it again at no cost
///
/// The loop starts every sequence with a copy of a fresh verifier; used by hand, one object serves one
/// sequence.
template <class V, class Target = Eigen::MatrixXd, class Draft = Target, class Source = SplitMix64>
concept Verifier =
    std::copyable<V> && Probabilities<Target> && Probabilities<Draft> && RandomSource<Source> &&
    requires(V& verifier, const Target& target, const Draft& draft, std::span<const Token> tokens,
             Source& source) {
      { verifier(target, draft, tokens, source) } -> std::same_as<Verdict>;
    };

/// The least length that the verifier's next draft may have; 0 for rules without state.
template <class V>
Index min_draft_length(const V& verifier) {
  if constexpr (requires { verifier.min_draft_length(); }) return verifier.min_draft_length();
  else return 0;
}

/// A rule whose survival is known: see Verifier.
template <class V>
concept TellsSurvival = requires(const V& verifier) {
  { verifier.survival(1.0, 1.0, 1.0) } -> std::convertible_to<double>;
};

/// See Verifier.
template <class V>
inline constexpr bool draws_from_target = [] {
  if constexpr (requires { V::draws_from_target; }) return static_cast<bool>(V::draws_from_target);
  else return true;
}();

/// See Verifier.
template <class V>
inline constexpr bool reads_every_ratio = [] {
  if constexpr (requires { V::reads_every_ratio; }) return static_cast<bool>(V::reads_every_ratio);
  else return false;
}();

}  // namespace specdec

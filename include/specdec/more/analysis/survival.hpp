// The expected number of accepted tokens of a rule, computed exactly instead of sampled.
//
// A rule carries a weight along a draft. The i-th weight gives P(τ >= i | x_1..x_i) (Sun et al., arXiv:2403.10444, Lemma 3,
// and similar results for other rules). Then
//
//   P(τ >= i) = Σ over x_1..x_i of q(x_1..x_i) · P(τ >= i | x_1..x_i)
//
// This header computes the weights along a given draft. enumerated_survival.hpp sums over all drafts of small models.
// context_free_survival.hpp sums over all weights of models without context.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <numeric>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/rules/greedy_block.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec::inline v0_2_0 {

/// P(τ > i) for i < γ, of a draft that begins in a given context. For all rules below, P(τ > i) depends on the first i + 1
/// tokens only. So these numbers hold for every length up to γ of a draft that begins there. (In a text, drafts of another length
/// begin in other contexts: see Acceptance.)
struct Survival {
  std::vector<double> beyond;  ///< [i]: P(τ > i), called survival in project(), Stats and Acceptance, too

  Index gamma() const { return static_cast<Index>(beyond.size()); }

  /// E[τ] = Σ_{i<γ} P(τ > i).
  double expected_accepted() const { return expected_accepted(gamma()); }

  /// E[τ] for a draft of `length` tokens. Throws InvalidArgument unless 0 <= length <= γ.
  double expected_accepted(Index length) const {
    if (length < 0 || length > gamma())
      detail::invalid_argument("length = ", length, " is outside 0..gamma = ", gamma());
    return std::accumulate(beyond.begin(), beyond.begin() + length, 0.0);
  }
};

namespace detail {

/// The weight after a token with probabilities p and q. A weight of 0 stays 0.
template <class Rule>
  requires tells_survival<Rule>
double next_weight(const Rule& rule, double before, double p, double q) {
  return rule.survival(before, p, q);
}
template <class Rule>
  requires tells_survival<Rule>
double survival(const Rule&, double weight) {
  return weight;
}

/// One step of greedy block verification from a fresh state: the ratio is not clipped on the way.
inline double next_weight(const GreedyBlockVerifier&, double before, double p, double q) {
  return bounded(before * bounded(p / q));
}
inline double survival(const GreedyBlockVerifier&, double weight) { return std::min(1.0, weight); }

}  // namespace detail

/// A rule with a known survival probability of a draft: TokenVerifier, BlockVerifier, SampleMatchVerifier, LenientVerifier,
/// and any rule with a member survival(before, p, q) (see Verifier). Also one step of GreedyBlockVerifier from a fresh
/// state. The E[τ] of GreedyBlockVerifier is the greatest that any rule reaches in one iteration: Σ_i Σ min(p, q) over joint
/// prefixes of i tokens.
template <class Rule>
concept SurvivalRule = requires(const Rule& rule) {
  { detail::next_weight(rule, 1.0, 1.0, 1.0) } -> std::convertible_to<double>;
  { detail::survival(rule, 1.0) } -> std::convertible_to<double>;
};

/// P(τ > i | x_1..x_{i+1}) for i < γ along a given draft. The probability is over the rule's coins and over the tokens after
/// the (i+1)-th. Its mean over drafts is P(τ > i); Acceptance estimates it in this way.
/// Source: Sun et al., Lemma 3. The probability given the *whole* draft may differ for block verification: its decision at i
/// depends on the tokens after x_i, too.
/// Pre: see verify().
/// Throws: see verify().
/// Random: none.
/// Cost: γ look-ups in each matrix.
template <SurvivalRule Rule, Probabilities Target, Probabilities Draft>
Survival survival_of_draft(const Rule& rule, const Target& target, const Draft& draft, TokenIds tokens) {
  const Drafted drafted(target, draft, tokens, detail::draft_rows_for<Rule>);
  Survival out;
  double weight = 1;
  for (Index i = 0; i < drafted.gamma(); ++i) {
    if (weight > 0)
      weight = detail::next_weight(rule, weight, drafted.p(i), needs_draft<Rule> ? drafted.q(i) : 1.0);
    out.beyond.push_back(detail::survival(rule, weight));
  }
  return out;
}

}  // namespace specdec

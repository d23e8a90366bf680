// How many drafted tokens a rule accepts in expectation, computed rather than sampled.
//
// Every rule with a law of survival carries a weight along a draft, and P(τ >= i | x_1..x_i) is told from the
// i-th weight (Sun et al., arXiv:2403.10444, Lemma 3 and its kin), so that
//
//   P(τ >= i) = Σ over x_1..x_i of q(x_1..x_i) · P(τ >= i | x_1..x_i)
//
// Here is the weight itself, along a draft at hand. enumerated_survival.hpp sums over all drafts of small models,
// context_free_survival.hpp over all weights of models without context.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/greedy_block.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// P(τ > i) for i < γ. Since each depends on the first i + 1 tokens alone, with all rules below, they tell of every
/// draft length up to γ at once.
struct Survival {
  std::vector<double>
      beyond;  ///< [i]: P(τ > i), which is what project(), Stats and Acceptance mean by survival, too

  Index gamma() const { return static_cast<Index>(beyond.size()); }

  /// E[τ] = Σ_{i<γ} P(τ > i).
  double expected_accepted() const { return expected_accepted(gamma()); }

  /// E[τ] had the draft been of `length` tokens; 0 <= length <= γ, else std::invalid_argument.
  double expected_accepted(Index length) const {
    if (length < 0 || length > gamma())
      detail::invalid_argument("length = ", length, " is outside 0..gamma = ", gamma());
    return std::accumulate(beyond.begin(), beyond.begin() + length, 0.0);
  }
};

namespace detail {

/// The weight after a token of probabilities p and q. One that is not 0 can become so, but not the reverse.
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

/// A rule of which it is known how likely a draft survives: TokenVerifier, BlockVerifier, SampleMatchVerifier,
/// LenientVerifier, any with a member survival(before, p, q) (see Verifier), and one step of GreedyBlockVerifier
/// from a fresh state, whose E[τ] is the most that any rule reaches in one iteration, Σ_i Σ min(p, q) over joint
/// prefixes of i tokens.
template <class Rule>
concept SurvivalRule = requires(const Rule& rule) {
  { detail::next_weight(rule, 1.0, 1.0, 1.0) } -> std::convertible_to<double>;
  { detail::survival(rule, 1.0) } -> std::convertible_to<double>;
};

/// P(τ > i | x_1..x_{i+1}) for i < γ along a given draft: what the rule is expected to make of it, over coins and over
/// the tokens after the (i+1)-th. Their means over drafts are P(τ > i), which Acceptance estimates so.
///
/// Source: Sun et al., Lemma 3. (Given *all* of the draft block verification may do otherwise: what it does at i
/// then depends on how well the tokens after x_i suit the target.)
/// Arguments, and what is thrown, are as for verify(). Random: none. Cost: γ look-ups in each matrix.
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

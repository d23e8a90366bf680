// The speed-up of speculative decoding: the closed forms of the field.
//
// alpha is the acceptance rate of a pair of models, and gamma the draft length. The cost ratio c is the cost of a drafted
// token, divided by the cost of a target call. The formulae in alpha are for token verification and assume two things. Every
// token is accepted with probability alpha, independently of the text before. A target call over γ+1 tokens costs as much as
// a call over one token. speed_up() assumes neither.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

inline void check_alpha(double alpha) {
  if (!(alpha >= 0 && alpha <= 1)) invalid_argument("alpha = ", alpha, " is outside [0, 1]");
}

inline void check_gamma(Index gamma) {
  if (gamma < 0) invalid_argument("gamma = ", gamma, " is negative");
}

inline void check_ratio(const char* name, double ratio) {
  if (!(ratio >= 0 && std::isfinite(ratio)))
    invalid_argument(name, " = ", ratio, " is no finite number >= 0");
}

}  // namespace detail

/// Expected tokens per target call, (1 − α^{γ+1})/(1 − α) = 1 + α + ... + α^γ; γ+1 at α = 1.
/// Source: Leviathan et al., arXiv:2211.17192, equation (1).
/// Throws: InvalidArgument unless 0 <= alpha <= 1 and gamma >= 0.
/// Cost: O(1).
/// Numeric: accurate to some units in the last place, also near α = 1. Exact at α = 0, α = 1 and γ = 0. Never above γ+1.
inline double expected_tokens(double alpha, Index gamma) {
  detail::check_alpha(alpha);
  detail::check_gamma(gamma);
  const double n = static_cast<double>(gamma) + 1;
  if (gamma == 0 || alpha == 1) return n;
  // α − 1 is exact where it is small.
  return std::min(n, std::expm1(n * std::log(alpha)) / (alpha - 1));
}

/// The speed-up of token verification in walltime, (1 − α^{γ+1})/((1 − α)(γc + 1)).
/// Source: Leviathan et al., Theorem 3.8.
/// Throws: InvalidArgument unless 0 <= alpha <= 1, gamma >= 0 and cost_ratio is finite and >= 0.
inline double walltime_improvement(double alpha, Index gamma, double cost_ratio) {
  detail::check_ratio("cost_ratio", cost_ratio);
  return expected_tokens(alpha, gamma) / (static_cast<double>(gamma) * cost_ratio + 1);
}

/// Whether some γ makes token verification faster than the target alone: if and only if α > c.
/// Source: Leviathan et al., Corollary 3.9.
/// Throws: InvalidArgument unless 0 <= alpha <= 1 and cost_ratio is finite and >= 0.
inline bool drafting_helps(double alpha, double cost_ratio) {
  detail::check_alpha(alpha);
  detail::check_ratio("cost_ratio", cost_ratio);
  return alpha > cost_ratio;
}

/// The γ in 0..most with the greatest walltime_improvement; among equals, the least γ.
///
/// γ+1 is better than γ if and only if d(γ) = α^{γ+1}(1 + cγ) − c(1 + α + ... + α^γ) > 0. And
/// d(γ) − d(γ−1) = −α^γ(1 − α)(1 + cγ) <= 0. So the improvement rises, then falls, and the first γ with d(γ) <= 0 is the
/// best. Bisection finds it. Since 1 + ... + α^γ >= 1 + γα^γ, d(γ) <= α^{γ+1} − c: so the best γ is at most log c / log α.
/// If c = 0 < α or c < α = 1, there is no such bound, and the answer is `most`.
/// Throws: InvalidArgument unless 0 <= alpha <= 1, cost_ratio is finite and >= 0, and most >= 0.
/// Cost: O(log most).
inline Index best_gamma(double alpha, double cost_ratio, Index most) {
  if (most < 0) detail::invalid_argument("most = ", most, " is negative");
  if (!drafting_helps(alpha, cost_ratio)) return 0;
  if (alpha == 1 || cost_ratio == 0) return most;
  const auto next_is_better = [&](Index gamma) {
    const double n = static_cast<double>(gamma);
    return std::pow(alpha, n + 1) * (1 + cost_ratio * n) > cost_ratio * expected_tokens(alpha, gamma);
  };
  return detail::partition_point(most, next_is_better);
}

/// The walltime improvement of an oracle, 1/(1 − α + αc). The oracle drafts exactly the tokens that will be accepted: it
/// emits 1/(1 − α) tokens per target call, and drafts for a cost of αc/(1 − α). Infinite if α = 1 and c = 0.
/// Source: Leviathan et al., section 3.5: no schedule of draft lengths does better.
/// Throws: InvalidArgument unless 0 <= alpha <= 1 and cost_ratio is finite and >= 0.
inline double oracle_improvement(double alpha, double cost_ratio) {
  detail::check_alpha(alpha);
  detail::check_ratio("cost_ratio", cost_ratio);
  return 1 / (1 - alpha + alpha * cost_ratio);
}

/// The increase in arithmetic operations under token verification, (1 − α)(γĉ + γ + 1)/(1 − α^{γ+1}). ĉ = operations_ratio
/// is the drafter's operations per token over the target's operations per token.
/// Source: Leviathan et al., Theorem 3.11.
/// Throws: InvalidArgument unless 0 <= alpha <= 1, gamma >= 0 and operations_ratio is finite and >= 0.
inline double operations_factor(double alpha, Index gamma, double operations_ratio) {
  detail::check_ratio("operations_ratio", operations_ratio);
  const double n = static_cast<double>(gamma);
  return (n * operations_ratio + n + 1) / expected_tokens(alpha, gamma);
}

/// The costs of a step. The unit is a target call over one token.
struct StepCosts {
  double call = 1;   ///< the step's target call, over γ+1 tokens
  double draft = 0;  ///< one drafted token
};

/// The speed-up of any rule over the target alone, from measured numbers:
///
///   tokens per target call / (cost of a call over γ+1 tokens + γ · cost of a drafted token)
///
/// Source: with the emitted fraction r' of Chen et al., arXiv:2302.01318, tokens_per_call is r'(γ+1).
/// Throws: InvalidArgument unless tokens_per_call is within [1, γ+1] (up to 1e-6), gamma >= 0, costs.call is finite
/// and > 0, and costs.draft is finite and >= 0.
inline double speed_up(double tokens_per_call, Index gamma, const StepCosts& costs) {
  detail::check_gamma(gamma);
  constexpr double rounding = 1e-6;  // of sums over rows of float
  const double most = static_cast<double>(gamma) + 1;
  if (!(tokens_per_call >= 1 - rounding && tokens_per_call <= most * (1 + rounding)))
    detail::invalid_argument("tokens_per_call = ", tokens_per_call, " is outside [1, gamma + 1 = ", most,
                             "]");
  if (!(costs.call > 0 && std::isfinite(costs.call)))
    detail::invalid_argument("costs.call = ", costs.call, " is no finite number > 0");
  detail::check_ratio("costs.draft", costs.draft);
  return tokens_per_call / (costs.call + static_cast<double>(gamma) * costs.draft);
}

}  // namespace specdec

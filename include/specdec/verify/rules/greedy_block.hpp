// Greedy block verification: accepts the most tokens that one step can, and modifies the target of the next tokens.
// Source: Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025, arXiv:2403.10444,
// Appendix C, Algorithms 4–6.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/residual.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The modified target of one position: t = (p − b·q)+ / mass. With b = 0 and mass = 1 it is the target itself.
struct TargetLevel {
  double b = 0;
  double mass = 1;

  /// t(x) of a token x with p = p(x), q = q(x).
  double probability(double p, double q) const { return b == 0 ? p : std::max(p - b * q, 0.0) / mass; }
};

}  // namespace detail

/// Greedy block verification. Lossless. One step accepts Σ_i Σ min(p, q) tokens in expectation, where p and q are the joint
/// probabilities of the first i tokens. No rule accepts more in one step, even if it knows all rows of both models. But a
/// single step is biased. The verifier corrects the bias: it modifies the target of the next tokens. Over whole generations
/// this costs more than the steps gain: in the paper and in our measurements, block verification is slightly ahead.
///
/// Source: Sun et al., Alg. 4–6. g_0 = 1, g_{i+1} = g_i·t_i(x_{i+1})/q_i(x_{i+1}), which is not clipped. The races have the
/// weights g_i, with t_i in place of the target row. A stop at τ < γ with token Y leaves a modification (r, n) =
/// (q_τ(Y)/(g_τ·t_τ(Y)), γ−τ−1). It changes the target of the next n tokens from t' to t ∝ (t' − r·q)+. After each token x,
/// r becomes r·q(x)/t'(x). Since (max(a, 0) − b)+ = (a − b)+ for b >= 0, nested modifications of a row need only one
/// coefficient on q (TargetLevel).
///
/// State: the live modifications of one sequence. SpecDec starts a new sequence with a fresh object. By hand, call the
/// verifier on a variable, one for each sequence: a call on a temporary, which would lose the state, does not compile.
/// Pre: q depends on the context only, so that a position has one q in all drafts. The draft's length is fixed before its
/// first token is drawn, and is at least min_draft_length(). One-hot drafts need neither. A drafter that cannot promise
/// this says `steady = false` (see Drafter); the loop then does not compile.
/// Shapes: target (γ+1)×V, draft γ×V, tokens γ.
/// Units: probabilities.
/// Throws: wrong shapes, tokens that cannot have been drafted and numbers that are no probabilities are errors: see Drafted.
/// InvalidArgument on a draft shorter than min_draft_length(). After an error the state is unchanged.
/// Random: a race per position, from γ down to τ.
/// Cost: that of block verification, and a pass over both rows per live modification of a position.
/// Numeric: a modification is skipped where rounding leaves no mass in the modified row.
class GreedyBlockVerifier : public detail::Callable<GreedyBlockVerifier> {
 public:
  /// The coefficient r, 0 < r < 1, and for how many more tokens it holds.
  struct Modification {
    double ratio = 0;
    Index left = 0;
    friend bool operator==(const Modification&, const Modification&) = default;
  };

  GreedyBlockVerifier() = default;

  /// The verifier of a text that goes on elsewhere, for verification by hand: `live` are the modifications() that it had there.
  /// It is not for a SpecDec or a Batch: these give a copy of their verifier to each text, which must begin without a memory.
  ///
  /// Throws: InvalidArgument unless for each of them 0 < ratio < 1, and `left` is from 1 to 2^31 - 1 and not below that of the
  /// one before it. All modifications() are so.
  explicit GreedyBlockVerifier(std::vector<Modification> live) : live_(std::move(live)) {
    for (std::size_t k = 0; k < live_.size(); ++k) {
      const auto [ratio, left] = live_[k];
      if (!(ratio > 0 && ratio < 1 && left >= 1 && left <= std::numeric_limits<std::int32_t>::max()))
        detail::invalid_argument("modifications[", k, "] has the ratio ", ratio, " for ", left, " tokens");
      if (k > 0 && left < live_[k - 1].left)
        detail::invalid_argument("modifications[", k, "] is for ", left, " tokens, the one before it for ",
                                 live_[k - 1].left);
    }
  }

  /// The live modifications, oldest first.
  const std::vector<Modification>& modifications() const& { return live_; }
  const std::vector<Modification>& modifications() const&& = delete;  // the reference would dangle

  /// The length of the longest live modification, at most γ−1: modified positions need q, so the next draft must cover
  /// them.
  Index min_draft_length() const {
    Index longest = 0;
    for (const Modification& m : live_) longest = std::max(longest, m.left);
    return longest;
  }

  Verdict judge(const auto& drafted, auto& chance) {
    if (drafted.gamma() < min_draft_length())
      detail::invalid_argument("tokens has ", drafted.gamma(),
                               " drafted tokens, but greedy block verification ", "still modifies the next ",
                               min_draft_length(), ": draft at least that many");
    drafted.look_up_all();
    score(drafted);
    const Verdict verdict = decide(drafted, chance);
    modify(drafted, verdict);
    return verdict;
  }

  /// Makes the last verdict's modifications live, for the tokens after Y.
  void commit() { live_.swap(next_); }

  friend bool operator==(const GreedyBlockVerifier& a, const GreedyBlockVerifier& b) {
    return a.live_ == b.live_;
  }

 private:
  // The state at row i, given the drafted tokens before it.
  struct Position {
    double g = 1;
    std::vector<Modification> live;
    std::vector<detail::TargetLevel> levels;  // levels[k]: the target under the first k modifications
  };

  Position& at(Index i) { return detail::at(positions_, i); }

  // Forward pass: g_i, the live modifications and the modified target of every row.
  void score(const auto& drafted) {
    const Index gamma = drafted.gamma();
    if (static_cast<Index>(positions_.size()) <= gamma) detail::resize(positions_, gamma + 1);
    reserve(gamma);
    at(0).g = 1;
    at(0).live.assign(live_.begin(), live_.end());
    for (Index i = 0; i < gamma; ++i) {
      at(i + 1).g = 0;
      if (at(i).g == 0) continue;  // after a token that the target rules out, no row is used
      level(at(i), drafted.target(i), drafted.draft(i));
      const double p = drafted.p(i), q = drafted.q(i);
      const double t = at(i).levels.back().probability(p, q);
      at(i + 1).g = detail::bounded(at(i).g * detail::bounded(t / q));
      at(i + 1).live.clear();
      if (at(i + 1).g > 0) pass(at(i), p, q, at(i + 1).live);
    }
  }

  // Room for all live modifications: a stop adds one, which lives for less than γ tokens.
  void reserve(auto gamma) {
    const std::size_t most = std::max(static_cast<std::size_t>(gamma), live_.size() + 1);
    live_.reserve(most);
    next_.reserve(most);
    for (Position& position : positions_) {
      position.live.reserve(most);
      position.levels.reserve(most + 1);
    }
  }

  // The target of a row under its first 0, 1, ... modifications.
  template <Distribution P, Distribution Q>
  static void level(Position& here, const P& p, const Q& q) {
    here.levels.assign(1, detail::TargetLevel{});
    for (const Modification& m : here.live) {
      detail::TargetLevel next = here.levels.back();
      next.b += m.ratio * next.mass;
      next.mass = residual_mass(1.0, p, next.b, q);
      here.levels.push_back(next.mass > 0 ? next : here.levels.back());
    }
  }

  // The modifications that stay live after a token of this row, with target probability p and draft probability q.
  static void pass(const Position& here, double p, double q, auto& next) {
    for (std::size_t k = 0; k < here.live.size(); ++k) {
      const double t = here.levels[k].probability(p, q);
      const Modification m{here.live[k].ratio * q / t, here.live[k].left - 1};
      if (m.left > 0 && m.ratio > 0 && m.ratio < 1) next.push_back(m);
    }
  }

  // Backward pass: the longest prefix with a won race.
  Verdict decide(const auto& drafted, auto& chance) {
    const Index gamma = drafted.gamma();
    if (const std::optional<Token> y = drafted.race(chance, at(gamma).g, gamma)) return {gamma, *y};
    for (Index i = gamma - 1;; --i) {
      if (at(i).g == 0) continue;
      if (const auto y = race(drafted, chance, i)) return {i, *y};
    }
  }

  // The race of row i, with the modified target if there are live modifications.
  std::optional<Token> race(const auto& drafted, auto& chance, Index i) {
    const detail::TargetLevel t = at(i).levels.back();
    if (t.b == 0) return drafted.race(chance, at(i).g, i);
    const auto p = drafted.target(i);
    const auto q = drafted.draft(i);
    return chance.race(at(i).g, ResidualRow(1.0, p, t.b, q, t.mass), q);
  }

  // The modifications for the tokens after Y.
  void modify(const auto& drafted, const Verdict& verdict) {
    const Index stop = verdict.accepted, left = drafted.gamma() - stop - 1;
    next_.clear();
    if (stop == drafted.gamma()) return;
    const Position& here = at(stop);
    const double p = specdec::probability(drafted.target(stop), verdict.token);
    const double q = specdec::probability(drafted.draft(stop), verdict.token);
    pass(here, p, q, next_);
    const double ratio = q / (here.g * here.levels.back().probability(p, q));
    if (left > 0 && ratio > 0 && ratio < 1) next_.push_back({ratio, left});
  }

  std::vector<Modification> live_;
  std::vector<Modification> next_;   // live_ after the last verdict
  std::vector<Position> positions_;  // scratch
};

}  // namespace specdec

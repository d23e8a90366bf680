// Greedy block verification with distribution modification: the most that one iteration can accept.
// Source: Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025, arXiv:2403.10444,
// Appendix C, Algorithms 4–6.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/residual.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {
namespace detail {

/// The target of one position as t = (p − b·q)+ / mass; b = 0 and mass = 1 is the target itself.
struct TargetLevel {
  double b = 0;
  double mass = 1;

  /// Of a token that has probability p under the target and q under the draft.
  double probability(double p, double q) const { return b == 0 ? p : std::max(p - b * q, 0.0) / mass; }
};

}  // namespace detail

/// Greedy block verification. One iteration accepts Σ_i Σ min(p, q) of the joint prefixes in expectation: the
/// bound with full information, at least what block verification accepts. By itself such a step is biased;
/// the verifier keeps the output lossless by modifying the target that the next tokens follow. Over whole
/// generations that costs more than it gains: the paper finds, as we do, block verification slightly ahead.
///
/// Source: Sun et al., Alg. 4–6. g_0 = 1, g_{i+1} = g_i·t_i(x_{i+1})/q_i(x_{i+1}) is not clipped; the rest is
/// block verification's race. A stop at τ < γ that drew Y leaves a modification (r, n) =
/// (q_τ(Y)/(g_τ·t_τ(Y)), γ−τ−1): for the next n tokens the target is t ∝ (t' − r·q)+, t' being the target
/// without it, and past a token x r becomes r·q(x)/t'(x). Since (max(a, 0) − b)+ = (a − b)+ for b >= 0, any
/// number of nested modifications of one row is a single coefficient on q, which TargetLevel holds.
///
/// State: the live modifications of one sequence. Start a new sequence with a fresh object (SpecDec does).
/// Needs: a drafter whose q depends on the context alone, so that a position keeps its q in the next draft, and whose
/// drafts have a length that is settled before the first token is drawn, min_draft_length() tokens at least (one-hot drafts
/// need none). A drafter that cannot promise this says `steady = false` (see Drafter), and the loop then does not compile.
/// Shapes: target (γ+1)×V, draft γ×V, tokens γ. Units: probabilities. Throws: std::invalid_argument on wrong shapes, on
/// a token that cannot have been drafted and on a draft shorter than min_draft_length(), InvalidDistribution where a
/// number it needs is no probability. A throw leaves the state as it was. By hand it is called on a variable, one for a sequence:
/// on a temporary, which would forget, compilers warn.
/// Random: a race per position from γ down to τ.
/// Cost: as block verification; plus a pass over both rows per live modification of a position.
/// Numeric: where rounding leaves a modified row without mass, that modification is passed over.
class GreedyBlockVerifier : public detail::Callable<GreedyBlockVerifier> {
 public:
  /// An inverse ratio r, 0 < r < 1, and the number of tokens it still holds for.
  struct Modification {
    double ratio = 0;
    Index left = 0;
    friend bool operator==(const Modification&, const Modification&) = default;
  };

  /// The live modifications, oldest first.
  std::span<const Modification> modifications() const& { return {live_.data(), live_.size()}; }
  std::span<const Modification> modifications() const&& = delete;  // they would be gone

  /// Modified positions need q, so the next draft must cover the longest live modification: at most γ−1
  /// tokens.
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

  /// The modifications that the last verdict leaves to the tokens after Y are live from here on.
  void commit() { live_.swap(next_); }

  friend bool operator==(const GreedyBlockVerifier& a, const GreedyBlockVerifier& b) {
    return a.live_ == b.live_;
  }

 private:
  // What is known at row i, given the drafted tokens before it.
  struct Position {
    double g = 1;
    std::vector<Modification> live;
    std::vector<detail::TargetLevel> levels;  // levels[k]: the target under the first k modifications
  };

  Position& at(Index i) { return positions_[static_cast<std::size_t>(i)]; }

  // Forward: g_i, the live modifications and the modified target of every row.
  void score(const auto& drafted) {
    const Index gamma = drafted.gamma();
    if (static_cast<Index>(positions_.size()) <= gamma)
      positions_.resize(static_cast<std::size_t>(gamma) + 1);
    reserve(gamma);
    at(0).g = 1;
    at(0).live.assign(live_.begin(), live_.end());
    for (Index i = 0; i < gamma; ++i) {
      at(i + 1).g = 0;
      if (at(i).g == 0) continue;  // after a token that the target rules out, its rows decide nothing
      level(at(i), drafted.target(i), drafted.draft(i));
      const double p = drafted.p(i), q = drafted.q(i);
      const double t = at(i).levels.back().probability(p, q);
      at(i + 1).g = detail::bounded(at(i).g * detail::bounded(t / q));
      at(i + 1).live.clear();
      if (at(i + 1).g > 0) pass(at(i), p, q, at(i + 1).live);
    }
  }

  // Room for as many modifications as drafts of no more than γ tokens can leave alive: a stop adds one, which
  // lives for less than γ tokens.
  void reserve(auto gamma) {
    const std::size_t most = std::max(static_cast<std::size_t>(gamma), live_.size() + 1);
    live_.reserve(most);
    next_.reserve(most);
    for (Position& position : positions_) {
      position.live.reserve(most);
      position.levels.reserve(most + 1);
    }
  }

  // The target of a row under 0, 1, ... of its modifications.
  template <Distribution P, Distribution Q>
  static void level(Position& here, const P& p, const Q& q) {
    here.levels.assign(1, detail::TargetLevel{});
    for (const Modification& m : here.live) {
      detail::TargetLevel next = here.levels.back();
      next.b += m.ratio * next.mass;
      next.mass = p.named([&] { return residual_mass(1.0, p, next.b, q); });
      here.levels.push_back(next.mass > 0 ? next : here.levels.back());
    }
  }

  // The modifications that are live after a token of this row, which has probability p under the target and q
  // under the draft.
  static void pass(const Position& here, double p, double q, auto& next) {
    for (std::size_t k = 0; k < here.live.size(); ++k) {
      const double t = here.levels[k].probability(p, q);
      const Modification m{here.live[k].ratio * q / t, here.live[k].left - 1};
      if (m.left > 0 && m.ratio > 0 && m.ratio < 1) next.push_back(m);
    }
  }

  // Backward: the longest prefix whose race is won.
  Verdict decide(const auto& drafted, auto& chance) {
    const Index gamma = drafted.gamma();
    if (const std::optional<Token> y = drafted.race(chance, at(gamma).g, gamma)) return {gamma, *y};
    for (Index i = gamma - 1;; --i) {
      if (at(i).g == 0) continue;
      if (const auto y = race(drafted, chance, i)) return {i, *y};
    }
  }

  // The race of row i, in which live modifications stand for the target row.
  std::optional<Token> race(const auto& drafted, auto& chance, Index i) {
    const detail::TargetLevel t = at(i).levels.back();
    if (t.b == 0) return drafted.race(chance, at(i).g, i);
    const auto p = drafted.target(i);
    const auto q = drafted.draft(i);
    return p.named([&] { return chance.race(at(i).g, ResidualRow(1.0, p, t.b, q, t.mass), q); });
  }

  // What the verdict leaves to the tokens after Y.
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
  std::vector<Modification> next_;   // what the last verdict makes of them
  std::vector<Position> positions_;  // scratch
};

}  // namespace specdec

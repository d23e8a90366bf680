// K-SEQ: tries siblings in turn, all by one threshold ρ. The siblings were drawn independently from one row.
// Source: Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", arXiv:2310.15141, Algorithm 2.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/chance/race_rounds.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/verify/rules/callable.hpp"

namespace specdec::inline v0_2_0 {

/// K-SEQ, for trees with siblings that are independent draws from one row. Lossless. K = 1 is token verification.
/// Source: SpecTr, Alg. 2, at every level. Each of K children x is accepted with probability min(1, p(x)/(ρ·q(x))). ρ in
/// [1, K] solves 1 − (1 − β)^K = ρ·β with β = Σ min(p/ρ, q). If no child is accepted, Y ∝ p − c·min(q, p/ρ) with
/// c = (1 − (1 − β)^K)/β. At the solution c = ρ, so Y ∝ (p − ρ·q)+.
/// Shapes: see verify.
/// Units: probabilities.
/// Throws: what verify throws; InvalidArgument if a sibling's q is not its token's probability in the eldest sibling's row.
/// Random: a coin for each child that is judged, then a draw.
/// Cost: ρ is found by bisection: some fifty passes over both rows at each node that branches. If rows are spread over
/// ranks, each pass exchanges one number. No allocation (γ <= 64).
/// Numeric: ρ is rounded up so that c <= ρ. Then p − c·min(q, p/ρ) is nowhere negative.
struct KSeqVerifier : detail::Callable<KSeqVerifier, TokenIds> {
  constexpr NodeVerdict judge(const auto& drafted, auto& chance) const {
    Index node = 0;
    for (Index eldest = drafted.first_child(node); eldest >= 0; eldest = drafted.first_child(node)) {
      const double rho = solve(drafted, eldest, count(drafted, eldest));
      const Index accepted = first_accepted(drafted, chance, eldest, rho);
      if (accepted < 0) return {node, correction(drafted, chance, node, eldest, rho)};
      node = accepted + 1;
    }
    return {node, drafted.draw(chance, node)};
  }

 private:
  static constexpr Index first_accepted(const auto& drafted, auto& chance, Index eldest, double rho) {
    for (Index k = eldest; k >= 0; k = drafted.next_sibling(k))
      if (chance.coin(detail::bounded(drafted.p(k) / (rho * drafted.q(k))))) return k;
    return -1;
  }

  // Y ∝ (p − ρ·q)+; if rounding leaves no mass, Y ~ p.
  static constexpr Token correction(const auto& drafted, auto& chance, Index node, Index eldest, double rho) {
    const auto rest = drafted.residual(node, rho, eldest);
    return rest.mass() > 0 ? chance.draw(rest) : chance.draw(drafted.target(node));
  }

  // How many siblings there are. An error if they were not drawn from one row.
  static constexpr Index count(const auto& drafted, Index eldest) {
    Index siblings = 1;
    for (Index k = drafted.next_sibling(eldest); k >= 0; k = drafted.next_sibling(k), ++siblings) {
      const double q = drafted.q(k), there = drafted.q(eldest, drafted.token(k));
      drafted.refuse_unless(there == q, "tokens[", k, "] = ", drafted.token(k), " has q = ", q,
                            ", but q = ", there, " in the row of its sibling tokens[", eldest,
                            "]: K-SEQ judges independent draws from one row");
    }
    return siblings;
  }

  // The least ρ in [1, K] with 1 − (1 − β)^K <= ρ·β, to the last bit. At K = 1 it is 1, without reading the rows.
  static constexpr double solve(const auto& drafted, Index eldest, Index siblings) {
    double low = 1, high = static_cast<double>(siblings);
    while (true) {
      const double rho = low + (high - low) / 2;
      if (rho <= low || rho >= high) return high;
      const double beta = std::min(overlap(drafted, eldest, rho), 1.0);
      (any_of(siblings, beta) <= rho * beta ? high : low) = rho;
    }
  }

  // Σ min(p/ρ, q). The function is found by the namespace of the rows.
  static constexpr double overlap(const auto& drafted, Index eldest, double rho) {
    const auto p = drafted.target(drafted.parent(eldest) + 1);
    return lenient_overlap(drafted.draft(eldest), p, 1 / rho) / rho;  // include <specdec/verify/k_seq.hpp>
  }

  // 1 − (1 − β)^K, by sums alone: std::pow is not constexpr, and would lose the digits of a small β.
  static constexpr double any_of(Index siblings, double beta) {
    double any = 0;
    for (Index k = 0; k < siblings; ++k) any += (1 - any) * beta;
    return any;
  }
};

}  // namespace specdec

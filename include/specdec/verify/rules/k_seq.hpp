// K-SEQ: tries siblings in turn, all by one threshold ρ. The siblings were drawn independently from one row.
// Source: Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", arXiv:2310.15141, Algorithm 2.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>

#include "specdec/error.hpp"
#include "specdec/rows/read/overlap.hpp"
#include "specdec/rows/read/residual.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec::inline v0_2_0 {

/// K-SEQ, for trees with siblings that are independent draws from one row. Lossless. K = 1 is token verification.
///
/// Source: SpecTr, Alg. 2, at every level. Each of K children x is accepted with probability min(1, p(x)/(ρ·q(x))). ρ in
/// [1, K] solves 1 − (1 − β)^K = ρ·β with β = Σ min(p/ρ, q). If no child is accepted, Y ∝ p − c·min(q, p/ρ) with
/// c = (1 − (1 − β)^K)/β. At the solution c = ρ, so Y ∝ (p − ρ·q)+.
/// Shapes: see verify.
/// Units: probabilities.
/// Throws: what verify throws. InvalidArgument if a sibling's q differs from its token's probability in the eldest
/// sibling's row.
/// Random: a coin for each child that is judged, then a draw.
/// Cost: ρ is found by bisection: some fifty passes over both rows at each node that branches. If rows are spread over
/// ranks, each pass exchanges one number. No allocation (γ <= 64).
/// Numeric: ρ is rounded up so that c <= ρ. Then p − c·min(q, p/ρ) is nowhere negative.
struct KSeqVerifier : detail::CallableOnTrees<KSeqVerifier> {
  NodeVerdict judge(const auto& drafted, auto& chance) const {
    Index node = 0;
    for (Index eldest = drafted.first_child(node); eldest >= 0; eldest = drafted.first_child(node)) {
      const auto p = drafted.target(node);
      const auto q = drafted.draft(eldest);
      const Index siblings = count(drafted, eldest, q);
      const double rho = solve(p, q, siblings);
      const Index accepted = first_accepted(drafted, chance, eldest, rho);
      if (accepted < 0) return {node, correct(chance, p, q, rho)};
      node = accepted + 1;
    }
    return {node, drafted.draw(chance, node)};
  }

  friend bool operator==(const KSeqVerifier&, const KSeqVerifier&) = default;

 private:
  static Index first_accepted(const auto& drafted, auto& chance, Index eldest, double rho) {
    for (Index k = eldest; k >= 0; k = drafted.next_sibling(k))
      if (chance.coin(detail::bounded(drafted.p(k) / (rho * drafted.q(k))))) return k;
    return -1;
  }

  // How many siblings there are. Throws if they were not drawn from one row.
  static Index count(const auto& drafted, Index eldest, const auto& q) {
    Index siblings = 1;
    for (Index k = drafted.next_sibling(eldest); k >= 0; k = drafted.next_sibling(k), ++siblings)
      if (specdec::probability(q, drafted.token(k)) != drafted.q(k))
        detail::invalid_argument("tokens[", k, "] = ", drafted.token(k), " has q = ", drafted.q(k),
                                 ", but q = ", specdec::probability(q, drafted.token(k)),
                                 " in the row of its sibling tokens[", eldest,
                                 "]: K-SEQ judges independent draws from one row");
    return siblings;
  }

  // The least ρ in [1, K] with 1 − (1 − β)^K <= ρ·β, to the last bit. At K = 1 it is 1, without reading the rows.
  static double solve(const auto& p, const auto& q, Index siblings) {
    double low = 1, high = static_cast<double>(siblings);
    while (true) {
      const double rho = low + (high - low) / 2;
      if (rho <= low || rho >= high) return high;
      const double beta = std::min(overlap_at(p, q, rho), 1.0);
      const double accepted = -std::expm1(static_cast<double>(siblings) * std::log1p(-beta));
      (accepted <= rho * beta ? high : low) = rho;
    }
  }
  // β = Σ min(p/ρ, q)
  static double overlap_at(const auto& p, const auto& q, double rho) {
    return lenient_overlap(q, p, 1 / rho) / rho;
  }

  // Y ∝ (p − ρ·q)+; if rounding leaves no mass, Y ~ p.
  static Token correct(auto& chance, const auto& p, const auto& q, double rho) {
    const ResidualRow rest(1.0, p, rho, q);
    return rest.mass() > 0 ? chance.draw(rest) : chance.draw(p);
  }
};

}  // namespace specdec

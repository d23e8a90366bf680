// The results of a verification.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <ostream>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The outcome of one verification: the step emits tokens[0..accepted) and then `token`.
struct Verdict {
  Index accepted = 0;  ///< τ: how many drafted tokens survive, 0 <= τ <= γ
  Token token = 0;     ///< Y: the correction token where τ < γ, the bonus token where τ = γ

  friend bool operator==(const Verdict&, const Verdict&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Verdict& verdict) {
    return out << verdict.accepted << " accepted, then token " << verdict.token;
  }
};

/// The answer of a rule for trees: the step emits the tokens from the context to the node, which has a target row, and `token`.
struct NodeVerdict {
  Index node = 0;   ///< where the rule stops: 0 after the context, k + 1 after tokens[k]. In a line it is τ
  Token token = 0;  ///< Y, drawn from the residual of the node's row

  friend bool operator==(const NodeVerdict&, const NodeVerdict&) = default;
};

/// The outcome of the verification of a tree: the step emits tokens[path[0]], tokens[path[1]], ... and then `token`.
struct TreeVerdict {
  std::vector<Index> path;  ///< the numbers of the accepted tokens, from the context outward
  Token token = 0;          ///< Y

  friend bool operator==(const TreeVerdict&, const TreeVerdict&) = default;
  friend std::ostream& operator<<(std::ostream& out, const TreeVerdict& verdict) {
    out << "path [";
    for (std::size_t i = 0; i < verdict.path.size(); ++i) out << (i > 0 ? " " : "") << verdict.path[i];
    return out << "], then token " << verdict.token;
  }
};

}  // namespace specdec

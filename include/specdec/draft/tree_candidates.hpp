// The tokens that a growing tree may propose.
#pragma once

#include <span>

#include "specdec/types.hpp"

namespace specdec {

/// What has been found so far of a tree whose tokens are chosen by their probabilities (ConfidentTree). The value of a token
/// is the probability that it is accepted: the product of DraftLength's acceptance() along its path.
struct TreeCandidates {
  std::span<const double> values = {};  ///< of the best tokens found, the largest first
  std::span<const double> leaves = {};  ///< of the tokens that would get children in the next level
  Index levels = 0;                     ///< how often the draft model was called for this tree
};

}  // namespace specdec

// The tokens that a growing tree may propose.
#pragma once

#include <span>

#include "specdec/types.hpp"

namespace specdec {

/// What has been found so far of a tree that grows by the draft model's rows (ConfidentTree, Tree). The value of a token is the
/// probability that it is accepted: the product along its path of DraftLength's acceptance(), or drawn_acceptance().
struct TreeCandidates {
  std::span<const double> values = {};  ///< of the best tokens found, the largest first
  std::span<const double> leaves =
      {};            ///< of the tokens that would get children in the next level, in no order
  Index levels = 0;  ///< how often the draft model was called for this tree
};

}  // namespace specdec

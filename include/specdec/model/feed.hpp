// What the target has to be fed for a step.
#pragma once

#include <span>

#include "specdec/types.hpp"

namespace specdec {

/// What the target has to be fed for a step.
struct Feed {
  std::span<const Token> tokens = {};  ///< to be fed after the first `from` tokens of the sequence
  Index from = 0;                      ///< how many tokens of the sequence the target has cached
  Index rows = 0;  ///< the next-token rows of so many of the tokens, the last ones, are wanted
  /// Of a draft that branches: tokens[k] follows tokens[parents[k]], or what the target has cached where that is −1. Empty
  /// where each token follows the one before.
  std::span<const Index> parents = {};
};

/// What one of many sequences is to be fed.
struct BatchFeed : Feed {
  Index sequence = 0;  ///< its number: whose context the tokens go into
};

}  // namespace specdec

// The tokens that the target is fed for a step.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The tokens that the target is fed for a step: those of the text that it has not cached, then the drafted tokens. A drafted
/// token with which the text would end, and tokens drafted after it, are left out: no row is needed after them.
struct Feed {
  std::span<const Token> tokens = {};  ///< come after the first `from` tokens of the sequence
  Index from = 0;                      ///< how many tokens of the sequence the target has cached
  Index rows = 0;                      ///< next-token rows are wanted after the last `rows` tokens
  /// For a draft that branches: tokens[k] follows tokens[parents[k]], or the cached tokens if parents[k] is −1. Empty for a line.
  std::span<const Index> parents = {};
};

/// The tokens that one of many sequences is fed.
struct BatchFeed : Feed {
  Index sequence = 0;  ///< the number of the sequence
};

}  // namespace specdec

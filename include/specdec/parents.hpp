// Checks of the parents of a tree of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Throws unless the parent of new token k is the context (−1) or a token before it. The tree has `before` tokens already.
inline void check_parent(Index k, std::int64_t parent, Index before = 0) {
  if (parent < -1 || parent >= before + k)
    invalid_argument("parents[", k, "] = ", parent, " is outside -1..", before + k - 1,
                     ": a token follows the context or a token before it");
}

inline void check_parent_count(Index parents, Index tokens) {
  if (parents != tokens)
    invalid_argument("parents has ", parents, " numbers, expected one for each of ", tokens, " tokens");
}

/// Whether any token has a parent other than the token before it.
inline bool branches(std::span<const Index> parents) {
  for (Index k = 0; k < std::ssize(parents); ++k)
    if (parents[static_cast<std::size_t>(k)] != k - 1) return true;
  return false;
}

}  // namespace specdec::detail

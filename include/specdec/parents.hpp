// Parents of the tokens of a tree: what they must be, the way back, and the way to the children. Beside token_tree.hpp, because
// a rule needs no lists of tokens, and lists cost each program that includes them.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

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

// The next three functions take anything with parent(k): the classes of token_tree.hpp, and what rules are given (verify/drafted_tree.hpp).

/// Goes from token k back to `end`, the context or another token before k, as long as go_on(k) is true of the token reached.
/// Returns the token for which it is false, or `end`.
template <class T, class GoOn>
Index back_while(const T& tree, Index k, const GoOn& go_on, Index end = -1) {
  while (k > end && go_on(k)) k = tree.parent(k);
  return k;
}

/// Calls visit(k) for token k and each token on the way back to `end`: the context, or another token before k, not visited.
template <class T, class Visit>
void each_back(const T& tree, Index k, const Visit& visit, Index end = -1) {
  for (; k > end; k = tree.parent(k)) visit(k);
}

/// Links the children of each node, the eldest first. Node 0 is the context, node k + 1 stands after token k. Sets
/// first_child[node] to the node's eldest child, and next_sibling[k] to token k's next sibling; −1 where there is none. Leaves
/// out tokens for which wanted(k) is false, unless such a token has a child that is linked.
template <class T, class Wanted>
void link_children(const T& tree, Index size, Index* first_child, Index* next_sibling, const Wanted& wanted) {
  for (Index node = 0; node <= size; ++node) first_child[node] = -1;
  // From the last token on: so a token's children come before it, and the eldest child last.
  for (Index k = size - 1; k >= 0; --k)
    if (wanted(k) || first_child[k + 1] >= 0)
      next_sibling[k] = std::exchange(first_child[tree.parent(k) + 1], k);
}

}  // namespace specdec::detail

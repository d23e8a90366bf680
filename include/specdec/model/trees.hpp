// What a model has to offer to take trees of tokens, and what makes a tree.
//
// A model for one text whose calls may branch has, beside what Model asks for,
//
//   forward(tokens, parents, rows)   adds `tokens` to the tree after the context, which numbers its tokens from 0 on,
//                                    across calls. tokens[k] follows token number parents[k], one before it, or the
//                                    context where parents[k] = −1. Returns the next-token rows after each of the last
//                                    `rows` of the tokens, each by the context and the tokens on the way to it alone.
//   keep(path)                       makes the tokens with the numbers path[0] < path[1] < ... part of the context,
//                                    each of which follows the one before it, and forgets the rest of the tree. Must
//                                    not throw.
//
// and truncate(length) forgets the whole tree. The tree stays open, and may grow call by call, until keep() or
// truncate(). The first tokens of a call may be a part of the text that is not cached, a prompt, say: a line
// from which the tree branches. Rows live until the next call of the model. While a tree is open, forward(tokens, rows) is
// not called.
//
// A model for many texts takes feeds with parents: tokens[k] of a feed follows tokens[parents[k]] of the sequence's tree,
// whose numbers go on across feeds, and feed.from is the length of the context without the tree. It has, beside what
// BatchModel asks for,
//
//   keep(sequence, path)             as keep(path), of that sequence
//
// and keep(sequence, length) forgets the sequence's tree. A call that throws may close the trees of the sequences in it.
// While a tree is open its sequence has no feed without parents.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/parents.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Refuses parents that make no tree of the tokens, the first of which has the number `first`.
inline void check_parents(std::span<const Token> tokens, std::span<const Index> parents, Index first = 0) {
  check_parent_count(std::ssize(parents), std::ssize(tokens));
  for (Index k = 0; k < std::ssize(parents); ++k)
    check_parent(k, parents[static_cast<std::size_t>(k)], first);
}

/// How many tokens the longest path has. `depths` becomes what each token's has.
inline Index depth(std::span<const Index> parents, std::vector<Index>& depths) {
  depths.clear();
  for (const Index parent : parents)
    depths.push_back(parent < 0 ? 1 : depths[static_cast<std::size_t>(parent)] + 1);
  return depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
}

/// Refuses what is no way from the context to a token of the tree.
inline void check_path(std::span<const Index> path, std::span<const Index> parents) {
  Index last = -1;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] <= last || path[i] >= std::ssize(parents))
      invalid_argument("path[", i, "] = ", path[i], " is outside ", last + 1, "..", std::ssize(parents) - 1);
    if (parents[static_cast<std::size_t>(path[i])] != last)
      invalid_argument("path[", i, "] = ", path[i], " follows ", parents[static_cast<std::size_t>(path[i])],
                       ", not ", last);
    last = path[i];
  }
}

}  // namespace specdec::detail

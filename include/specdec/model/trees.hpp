// What a model needs to take trees of tokens.
//
// A model for one text that takes trees has two functions more than Model asks for:
//
//   forward(tokens, parents, rows)   adds `tokens` to the tree after the context. The tree's tokens have numbers from 0 on,
//                                    which go on across calls. tokens[k] follows an earlier token, number parents[k]; if
//                                    parents[k] = −1, it follows the context. Returns the next-token rows after each of
//                                    the last `rows` tokens, of the type that forward(tokens, rows) returns. A row depends
//                                    only on the context and on the tokens on the way to its token.
//   keep(path)                       path[0] < path[1] < ... are numbers of tokens, and each token follows the one before
//                                    it. Adds these tokens to the context and forgets the rest of the tree. Must not throw.
//
// truncate(length) forgets the whole tree. The tree stays open, and may grow with each call, until keep() or truncate(). The
// first tokens of a call may be text that is not cached yet, for example a prompt: a line from which the tree branches. Rows live
// until the next call of the model. forward(tokens, rows) is not called while a tree is open. TokenTree keeps such a tree.
//
// A model for many texts that takes trees is given feeds with parents. tokens[k] of a feed follows token number parents[k]
// of the sequence's tree. The numbers go on across feeds. feed.from is the length of the context without the tree. The model
// has one function more than BatchModel asks for:
//
//   keep(sequence, path)             does for that sequence what keep(path) does for one text
//
// keep(sequence, length) forgets the sequence's tree. A call that throws may close the trees of its sequences. A sequence
// has no feed without parents while its tree is open.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Throws if the parents make no tree of the tokens. The first token has the number `first`.
inline void check_parents(std::span<const Token> tokens, std::span<const Index> parents, Index first = 0) {
  check_parent_count(std::ssize(parents), std::ssize(tokens));
  for (Index k = 0; k < std::ssize(parents); ++k) check_parent(k, at(parents, k), first);
}

/// Throws if `path` does not lead from the context to a token of the tree, each token following the one before it. Errors name
/// `of` before the path. Returns the path's last token; −1 if there is none.
inline Index check_path(std::span<const Index> path, std::span<const Index> parents,
                        std::string_view of = "") {
  Index last = -1;
  for (std::size_t i = 0; i < path.size(); last = path[i++]) {
    if (path[i] <= last || path[i] >= std::ssize(parents))
      invalid_argument(of, "path[", i, "] = ", path[i], " is outside ", last + 1, "..",
                       std::ssize(parents) - 1);
    if (at(parents, path[i]) != last)
      invalid_argument(of, "path[", i, "] = ", path[i], " follows ", at(parents, path[i]), ", not ", last);
  }
  return last;
}

}  // namespace specdec::detail

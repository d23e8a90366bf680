// What every call of a model must be. Small models of tests that would answer any call check theirs here.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/model/feed.hpp>
#include <specdec/types.hpp>
#include <stdexcept>
#include <string>

namespace support {

// A call that no model need answer. No test asks for it, so none may catch it.
struct Misuse : std::logic_error {
  using std::logic_error::logic_error;
};

inline void must(bool condition, const char* what_it_was) {
  if (!condition) throw Misuse(std::string("a model was ") + what_it_was);
}

// A call for one text whose open tree has `nodes` tokens. Without parents the tokens are a line.
inline void check_call(std::span<const specdec::Token> tokens, specdec::Index rows,
                       specdec::Index vocab_size) {
  must(rows >= 1 && rows <= std::ssize(tokens), "asked for other rows than those after its tokens");
  for (const specdec::Token x : tokens) must(x >= 0 && x < vocab_size, "fed a token that it does not know");
}
inline void check_call(std::span<const specdec::Token> tokens, std::span<const specdec::Index> parents,
                       specdec::Index nodes, specdec::Index rows, specdec::Index vocab_size) {
  check_call(tokens, rows, vocab_size);
  must(parents.size() == tokens.size(), "fed a tree with another number of parents than tokens");
  for (std::size_t k = 0; k < parents.size(); ++k)
    must(parents[k] >= -1 && parents[k] < nodes + static_cast<specdec::Index>(k),
         "fed a token whose parent is no earlier one");
}

// A feed for a sequence whose context holds `length` tokens, with an open tree of `nodes` tokens after it.
inline void check_feed(const specdec::BatchFeed& feed, specdec::Index length, specdec::Index nodes,
                       specdec::Index vocab_size) {
  must(feed.from == length, "fed tokens that begin elsewhere than its context ends");
  must(nodes == 0 || !feed.parents.empty(), "fed a line while a tree is open");
  const specdec::Index rows = feed.rows == 0 ? 1 : feed.rows;  // no row: a part of a prompt
  if (feed.parents.empty()) check_call(feed.tokens, rows, vocab_size);
  else check_call(feed.tokens, feed.parents, nodes, rows, vocab_size);
}

}  // namespace support

// Drafts of several lines from the context: which trees they are, and which lines go on with a text.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <specdec/specdec.hpp>
#include <vector>

namespace paths {

using specdec::Index, specdec::Token;

// The children of a node of a draft, in their order.
template <class D>
std::vector<Index> children(const D& drafted, Index node) {
  std::vector<Index> all;
  for (Index k = drafted.first_child(node); k >= 0; k = drafted.next_sibling(k)) all.push_back(k);
  return all;
}

// Throws unless these tokens were drawn independently from one row.
template <class D>
void refuse_unless_independent(const D& drafted, const std::vector<Index>& tokens) {
  for (const Index k : tokens) {
    const double q = drafted.q(k), there = drafted.q(tokens.front(), drafted.token(k));
    drafted.refuse_unless(q == there, "tokens[", k, "] = ", drafted.token(k), " has q = ", q,
                          ", but q = ", there, " in the row of tokens[", tokens.front(),
                          "]: this rule judges independent draws from one row");
  }
}

// Throws unless only the context has several children, and these were drawn independently from one row.
template <class D>
void refuse_unless_lines(const D& drafted) {
  for (Index k = 0; k < drafted.gamma(); ++k)
    drafted.refuse_unless(drafted.parent(k) < 0 || drafted.next_sibling(k) < 0, "tokens[", k, "] and tokens[",
                          drafted.next_sibling(k), "] both follow tokens[", drafted.parent(k),
                          "]: this rule judges lines that branch at the context only");
  refuse_unless_independent(drafted, children(drafted, 0));
}

// Of several lines, given by a token of each at one depth, those that have token x there: their next tokens. None if the lines end.
// Throws if some end and others do not: how many lines there are must not depend on what was drawn.
template <class D>
std::vector<Index> lines_after(const D& drafted, const std::vector<Index>& lines, Token x) {
  std::vector<Index> next;
  for (const Index k : lines)
    if (drafted.token(k) == x) next.push_back(drafted.first_child(k + 1));
  const auto ended = std::ranges::count(next, -1);
  drafted.refuse_unless(ended == 0 || ended == std::ssize(next), "of ", next.size(),
                        " lines with equal tokens up to token ", x, ", ", ended,
                        " end there: this rule judges lines of one length");
  if (ended > 0) next.clear();
  return next;
}

}  // namespace paths

// The rows that a Feed asks for: what comes before each, and those of a table.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/layouts.hpp"

namespace support {

// The tokens before row i of a feed of a line or a tree, for a text that is `text` so far.
inline std::vector<specdec::Token> before_row(std::span<const specdec::Token> text, const specdec::Feed& feed,
                                              specdec::Index i) {
  std::vector<specdec::Token> path;
  for (specdec::Index k = std::ssize(feed.tokens) - feed.rows + i; k >= 0;
       k = feed.parents.empty() ? k - 1 : feed.parents[static_cast<std::size_t>(k)])
    path.push_back(feed.tokens[static_cast<std::size_t>(k)]);
  std::vector<specdec::Token> before(text.begin(), text.begin() + feed.from);
  before.insert(before.end(), path.rbegin(), path.rend());
  return before;
}

inline RowMajor<double> rows_asked(const specdec::testing::TableModel<>& model,
                                   std::span<const specdec::Token> text, const specdec::Feed& feed) {
  RowMajor<double> rows(feed.rows, model.vocab_size());
  for (specdec::Index i = 0; i < feed.rows; ++i)
    rows.row(i) =
        model.distribution(before_row(text, feed, i)).segment(0, model.vocab_size()).matrix().transpose();
  return rows;
}

}  // namespace support

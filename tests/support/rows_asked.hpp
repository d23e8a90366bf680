// The rows of a table that a Feed asks for.
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

// Of a line or a tree, for a text that is `text` so far.
inline RowMajor<double> rows_asked(const specdec::testing::TableModel<>& model,
                                   std::span<const specdec::Token> text, const specdec::Feed& feed) {
  using specdec::Index;
  RowMajor<double> rows(feed.rows, model.vocab_size());
  const Index fed = std::ssize(feed.tokens);
  for (Index i = 0; i < feed.rows; ++i) {
    std::vector<specdec::Token> path;
    for (Index k = fed - feed.rows + i; k >= 0;
         k = feed.parents.empty() ? k - 1 : feed.parents[static_cast<std::size_t>(k)])
      path.push_back(feed.tokens[static_cast<std::size_t>(k)]);
    std::vector<specdec::Token> before(text.begin(), text.begin() + feed.from);
    before.insert(before.end(), path.rbegin(), path.rend());
    rows.row(i) = model.distribution(before).segment(0, model.vocab_size()).matrix().transpose();
  }
  return rows;
}

}  // namespace support

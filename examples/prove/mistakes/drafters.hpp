// Mistakes of drafters.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "mistakes/rows.hpp"

namespace mistakes {

// Gets the draft model's row for token i. Returns the token, or nothing to end the draft. The row as it is left is
// reported as q.
using Mistake = std::function<std::optional<Token>(Row& row, Index i, const Draw& draw)>;

// No mistake: draws from the row that is reported.
inline std::optional<Token> honest(Row& row, Index /*i*/, const Draw& draw) { return draw(row); }

// Draws from the row that is cut, and reports the row that is not.
inline std::optional<Token> raw_q(Row& row, Index /*i*/, const Draw& draw) { return draw(cut(row)); }

// Draws from the row that is not cut, and reports the row that is.
inline std::optional<Token> cut_q(Row& row, Index /*i*/, const Draw& draw) {
  const Token x = draw(row);
  row = cut(row);
  return x;
}

// Draws a token, and drops it if its probability is below p_min.
struct DropsUnlikely {
  double p_min = 0.3;
  std::optional<Token> operator()(Row& row, Index /*i*/, const Draw& draw) const {
    const Token x = draw(row);
    return row[x] < p_min ? std::nullopt : std::optional<Token>(x);
  }
};

// Draws a token, and drops it if it is token 0, which ends the text: the target is not fed such a token.
inline std::optional<Token> without_end(Row& row, Index /*i*/, const Draw& draw) {
  const Token x = draw(row);
  return x == 0 ? std::nullopt : std::optional<Token>(x);
}

// Starts from its seed again before each draft: the i-th token of every draft is drawn with one number.
struct Reseeded {
  std::vector<Uniform> numbers = std::vector<Uniform>(4);
  std::optional<Token> operator()(Row& row, Index i, const Draw& draw) {
    return numbers[static_cast<std::size_t>(i)].invert(specdec::distributions(row).row(0), draw);
  }
};

// Reports the row of another request in the call: here the row that was drawn from before. (A token with q = 0 would be refused.)
struct NeighboursRow {
  Row last = {};
  std::optional<Token> operator()(Row& row, Index /*i*/, const Draw& draw) {
    const Token x = draw(row);
    const Row own = row;
    if (last.size() > 0 && last[x] > 0) row = last;
    last = own;
    return x;
  }
};

// Drafts one token, and fills the draft up with -1.
inline std::optional<Token> padded(Row& row, Index i, const Draw& draw) {
  return i == 0 ? draw(row) : Token{-1};
}

// Where row[-1] is the last number of the row, -1 is verified as the last token.
inline std::optional<Token> padded_with_last(Row& row, Index i, const Draw& draw) {
  if (i == 0) return draw(row);
  const auto last = static_cast<Token>(row.size() - 1);
  return row[last] > 0 ? std::optional<Token>(last) : std::nullopt;
}

}  // namespace mistakes

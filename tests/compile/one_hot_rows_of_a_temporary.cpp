// must say: Temporary
// One-hot rows look at the tokens that they are given.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

std::vector<specdec::Token> proposed();

double use() {
#ifdef FIXED
  const std::vector<specdec::Token> tokens = proposed();
  const specdec::OneHotRows rows(tokens);
#else
  const specdec::OneHotRows rows(proposed());
#endif
  return rows.row(0).probability(0);
}

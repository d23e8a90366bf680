// Calls a verifier once, on a tree of drafted tokens.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int main() {
  // tokens[k] follows tokens[parents[k]], or the context if parents[k] is -1:
  //
  //   context ─┬─ 1 ─── 0
  //            └─ 2 ─── 3
  const std::vector<specdec::Token> tokens{1, 2, 0, 3};
  const std::vector<specdec::Index> parents{-1, -1, 0, 1};

  // tokens[k] was drawn from row k of `draft`. Row 1 excludes the 1: tokens 1 and 2 are siblings, drawn without replacement.
  RowMajor draft(4, 4);
  draft << 0.2f, 0.5f, 0.2f, 0.1f,  //
      0.4f, 0.0f, 0.4f, 0.2f,       //
      0.3f, 0.2f, 0.4f, 0.1f,       //
      0.1f, 0.2f, 0.1f, 0.6f;

  // Row 0 of `target` is the distribution after the context, row k + 1 the one after tokens[k].
  RowMajor target(5, 4);
  target << 0.1f, 0.2f, 0.6f, 0.1f,  //
      0.5f, 0.1f, 0.3f, 0.1f,        //
      0.1f, 0.1f, 0.1f, 0.7f,        //
      0.7f, 0.1f, 0.1f, 0.1f,        //
      0.2f, 0.2f, 0.1f, 0.5f;

  std::mt19937_64 rng{42};
  specdec::TraversalVerifier traversal;
  const specdec::TreeVerdict verdict = traversal(target, draft, tokens, parents, rng);

  std::cout << "the text goes on:";
  for (const specdec::Index k : verdict.path) std::cout << " " << tokens[static_cast<std::size_t>(k)];
  std::cout << " " << verdict.token << ", " << verdict.path.size() << " of it drafted\n";
}

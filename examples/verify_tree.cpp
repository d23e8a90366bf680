// One verify call on a tree of drafted tokens.
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int main() {
  // tokens[k] follows tokens[parents[k]], or the context where parents[k] is -1:
  //
  //   context ─┬─ 1 ─── 0
  //            └─ 2 ─── 3
  const std::vector<specdec::Token> tokens{1, 2, 0, 3};
  const std::vector<specdec::Index> parents{-1, -1, 0, 1};

  // Row k of `draft` is what tokens[k] was drawn from, given its elder siblings: the 2 could no longer be a 1.
  RowMajor draft(4, 4);
  draft << 0.2f, 0.5f, 0.2f, 0.1f,  //
      0.4f, 0.0f, 0.4f, 0.2f,       //
      0.3f, 0.2f, 0.4f, 0.1f,       //
      0.1f, 0.2f, 0.1f, 0.6f;

  // Row 0 of `target` stands behind the context, row k + 1 behind tokens[k].
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

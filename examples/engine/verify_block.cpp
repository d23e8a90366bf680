// Calls a verifier once, on Eigen matrices of target and draft probabilities.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int main() {
  // gamma = 3 drafted tokens, a vocabulary of 4. Row i of `draft` is what tokens[i] was drawn from.
  const std::vector<specdec::Token> tokens{1, 0, 2};
  RowMajor draft(3, 4);
  draft << 0.2f, 0.5f, 0.2f, 0.1f,  //
      0.3f, 0.2f, 0.4f, 0.1f,       //
      0.1f, 0.2f, 0.6f, 0.1f;

  // Row i of `target` is the target's distribution after i drafted tokens, so there is one row more.
  RowMajor target(4, 4);
  target << 0.1f, 0.6f, 0.2f, 0.1f,  //
      0.5f, 0.1f, 0.3f, 0.1f,        //
      0.2f, 0.2f, 0.1f, 0.5f,        //
      0.7f, 0.1f, 0.1f, 0.1f;

  std::mt19937_64 rng{42};
  specdec::BlockVerifier verifier;
  const specdec::Verdict verdict = verifier(target, draft, tokens, rng);

  std::cout << verdict.accepted << " of 3 accepted, then token " << verdict.token << "\n";
}

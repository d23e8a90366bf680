// One verification, over two drafted tokens that the target surely accepts.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/verify/block.hpp>
#include <vector>

int main() {
  const Eigen::MatrixXd target = Eigen::RowVector2d(0, 1).replicate(3, 1), draft = target.topRows(2);
  const std::vector<specdec::Token> tokens{1, 1};
  std::mt19937_64 rng{42};
  return specdec::BlockVerifier{}(target, draft, tokens, rng) == specdec::Verdict{2, 1} ? 0 : 1;
}

// SPDX-License-Identifier: MIT
#include "by_hand.hpp"

#include <random>
#include <specdec/verify/rules/token.hpp>
#include <specdec/verify/verifier.hpp>
#include <vector>

int accepted_by_hand() {
  using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  RowMajor target(3, 2), draft(2, 2);  // the draft's rows equal the target's
  target << 0.25f, 0.75f, 0.5f, 0.5f, 1.0f, 0.0f;
  draft << 0.25f, 0.75f, 0.5f, 0.5f;
  const std::vector<specdec::Token> tokens{1, 0};
  std::mt19937_64 rng{42};
  return static_cast<int>(specdec::TokenVerifier{}(target, draft, tokens, rng).accepted);
}

// must say: Probabilities
// A matrix of integers holds no probabilities.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#ifdef FIXED
using Draft = Eigen::MatrixXf;
#else
using Draft = Eigen::MatrixXi;
#endif

specdec::Verdict use(const Eigen::MatrixXf& target, const Draft& draft,
                     const std::vector<specdec::Token>& tokens, std::mt19937_64& rng) {
  specdec::TokenVerifier verifier;
  return verifier(target, draft, tokens, rng);
}

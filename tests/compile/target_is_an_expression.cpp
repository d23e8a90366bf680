// must say: Probabilities
// A sum of matrices has no entries in memory: every look-up would compute it anew.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Verdict use(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, const Eigen::MatrixXd& draft,
                     const std::vector<specdec::Token>& tokens, std::mt19937_64& rng) {
  specdec::BlockVerifier verifier;
#ifdef FIXED
  return verifier((a + b).eval(), draft, tokens, rng);
#else
  return verifier(a + b, draft, tokens, rng);
#endif
}

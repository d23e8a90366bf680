// must say: an Eigen expression has no numbers in memory: evaluate it first, as in (2 * p).eval()
// Every look-up would compute the expression anew.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Verdict use(const Eigen::MatrixXd& p, const Eigen::MatrixXd& draft,
                     const std::vector<specdec::Token>& tokens, std::mt19937_64& rng) {
  specdec::BlockVerifier verifier;
#ifdef FIXED
  return verifier((2 * p).eval(), draft, tokens, rng);
#else
  return verifier(2 * p, draft, tokens, rng);
#endif
}

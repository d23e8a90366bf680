// must say: the order of the arguments is verifier(target, draft, tokens, rng)
// The tokens before the rows that they were drawn from.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<specdec::Token>& tokens, std::mt19937_64& rng) {
  specdec::BlockVerifier verifier;
#ifdef FIXED
  return verifier(target, draft, tokens, rng);
#else
  return verifier(target, tokens, draft, rng);
#endif
}

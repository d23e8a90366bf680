// must say: token ids in the place of rows
// The tokens before the rows, for a rule that is called by hand.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<specdec::Token>& tokens, std::mt19937_64& rng) {
#ifdef FIXED
  return specdec::verify(specdec::TokenVerifier{}, target, draft, tokens, rng);
#else
  return specdec::verify(specdec::TokenVerifier{}, target, tokens, draft, rng);
#endif
}

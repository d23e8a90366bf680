// must say: RowVectors
// Numbers of several rows, one after the other, do not say where a row ends.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Verdict use(const std::vector<float>& target, const Eigen::MatrixXf& draft,
                     const std::vector<specdec::Token>& tokens, std::mt19937_64& rng) {
  specdec::BlockVerifier verifier;
#ifdef FIXED
  const std::vector<std::vector<float>> rows(tokens.size() + 1, target);
  return verifier(specdec::RowVectors{rows}, draft, tokens, rng);
#else
  return verifier(target, draft, tokens, rng);
#endif
}

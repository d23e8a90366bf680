// must say: an Eigen expression has no numbers in memory: evaluate it first, as in (2 * p).eval()
// Logits that are computed: the view would have nothing to refer to.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<specdec::Token>& tokens, std::mt19937_64& rng) {
#ifdef FIXED
  const Eigen::MatrixXf scaled = 2 * target;
  return specdec::BlockVerifier{}(specdec::Logits{scaled}, specdec::Logits{draft}, tokens, rng);
#else
  return specdec::BlockVerifier{}(specdec::Logits{2 * target}, specdec::Logits{draft}, tokens, rng);
#endif
}

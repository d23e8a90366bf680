// must say: an Eigen expression has no numbers in memory: evaluate it first, as in (2 * p).eval()
// verify_batch() says what it wants of rows, as verify() does.
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

void use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft, const std::vector<int>& tokens,
         std::vector<std::mt19937_64>& generators, const std::span<specdec::BatchVerdict>& verdicts) {
  const specdec::PaddedDrafts layout(1, 3);
#ifdef FIXED
  const Eigen::MatrixXf sum = target + target;
  specdec::verify_batch(specdec::BlockVerifier{}, sum, draft, tokens, layout, generators, verdicts);
#else
  specdec::verify_batch(specdec::BlockVerifier{}, target + target, draft, tokens, layout, generators,
                        verdicts);
#endif
}

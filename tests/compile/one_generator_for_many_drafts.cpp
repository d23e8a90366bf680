// must say: the sources of random numbers are one for each draft, such as a std::vector<std::mt19937_64>: by one generator a verdict would depend on the other drafts
// Verdicts that are made in any order, on any thread, share no generator.
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

void use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft, const std::vector<int>& tokens,
         const std::vector<int>& offsets, std::vector<std::mt19937_64>& generators,
         const std::span<specdec::BatchVerdict>& verdicts) {
#ifdef FIXED
  specdec::verify_batch(specdec::BlockVerifier{}, target, draft, tokens, offsets, generators, verdicts);
#else
  specdec::verify_batch(specdec::BlockVerifier{}, target, draft, tokens, offsets, generators[0], verdicts);
#endif
}

// must say: the sources of random numbers are one for each draft, such as a std::vector<std::mt19937_64>: by one generator a verdict would depend on the other drafts
// Verdicts that are made in any order, on any thread, share no generator.
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

void use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft, const std::vector<int>& tokens,
         const std::vector<int>& parents, std::vector<std::mt19937_64>& generators,
         const std::span<specdec::BatchTreeVerdict>& verdicts) {
  const specdec::PaddedDrafts layout(1, 3);
  const specdec::TraversalVerifier rule;
#ifdef FIXED
  specdec::verify_batch(rule, target, draft, tokens, parents, layout, generators, verdicts);
#else
  specdec::verify_batch(rule, target, draft, tokens, parents, layout, generators[0], verdicts);
#endif
}

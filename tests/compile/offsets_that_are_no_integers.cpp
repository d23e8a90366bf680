// must say: the layout is no specdec::DraftLayout, such as PaddedDrafts, and no list of offsets, which are integers of 32 or 64 bits
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

#ifdef FIXED
using Offset = unsigned;
#else
using Offset = double;
#endif

void use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft, const std::vector<int>& tokens,
         const std::vector<Offset>& offsets, std::vector<std::mt19937_64>& generators,
         const std::span<specdec::BatchVerdict>& verdicts) {
  specdec::verify_batch(specdec::BlockVerifier{}, target, draft, tokens, offsets, generators, verdicts);
}

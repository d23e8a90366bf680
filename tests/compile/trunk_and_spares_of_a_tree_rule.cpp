// must say: TrunkAndSpares takes a rule for lines
// A rule that judges trees by itself.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::TreeVerdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                         const std::vector<specdec::Token>& tokens,
                         const std::vector<specdec::Index>& parents, std::mt19937_64& rng) {
#ifdef FIXED
  return specdec::TrunkAndSpares<specdec::BlockVerifier>{}(target, draft, tokens, parents, rng);
#else
  return specdec::TrunkAndSpares<specdec::TraversalVerifier>{}(target, draft, tokens, parents, rng);
#endif
}

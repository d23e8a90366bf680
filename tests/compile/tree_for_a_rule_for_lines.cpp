// must say: judges lines, no trees: try specdec::TraversalVerifier
// A rule for lines that is given a tree, by hand.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#ifdef FIXED
using Rule = specdec::TrunkAndSpares<specdec::BlockVerifier>;
#else
using Rule = specdec::BlockVerifier;
#endif

void use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
         const std::vector<specdec::Token>& tokens, const std::vector<specdec::Index>& parents,
         std::mt19937_64& rng) {
  static_cast<void>(specdec::verify(Rule{}, target, draft, tokens, parents, rng));
}

// must say: the generator is missing: pass one after the other arguments, such as std::mt19937_64 rng{seed}
// The call with all arguments but the last.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::TreeVerdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                         const std::vector<specdec::Token>& tokens,
                         const std::vector<specdec::Index>& parents, [[maybe_unused]] std::mt19937_64& rng) {
#ifdef FIXED
  return specdec::TraversalVerifier{}(target, draft, tokens, parents, rng);
#else
  return specdec::TraversalVerifier{}(target, draft, tokens, parents);
#endif
}

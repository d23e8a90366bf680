// must say: the generator is missing: pass one after the other arguments, such as std::mt19937_64 rng{seed}
// The call with all arguments but the last.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<specdec::Token>& tokens, [[maybe_unused]] std::mt19937_64& rng) {
  specdec::BlockVerifier verifier;
#ifdef FIXED
  return verifier(target, draft, tokens, rng);
#else
  return verifier(target, draft, tokens);
#endif
}

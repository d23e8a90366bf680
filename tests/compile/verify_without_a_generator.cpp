// must say: the generator is missing: pass one after the other arguments, such as std::mt19937_64 rng{seed}
// A rule that is called by hand, with all arguments but the last.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<specdec::Token>& tokens, [[maybe_unused]] std::mt19937_64& rng) {
#ifdef FIXED
  return specdec::verify(specdec::TokenVerifier{}, target, draft, tokens, rng);
#else
  return specdec::verify(specdec::TokenVerifier{}, target, draft, tokens);
#endif
}

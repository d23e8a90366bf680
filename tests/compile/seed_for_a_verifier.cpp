// must say: a number is no source of random numbers (specdec::RandomSource)
// A seed in the place of the generator.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<specdec::Token>& tokens) {
  specdec::BlockVerifier verifier;
#ifdef FIXED
  std::mt19937_64 rng{42};
  return verifier(target, draft, tokens, rng);
#else
  return verifier(target, draft, tokens, 42);
#endif
}

// must say: RandomSource
// A string is no source of chance.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#ifdef FIXED
using Source = std::minstd_rand;
#else
using Source = std::string;
#endif

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<specdec::Token>& tokens, Source& source) {
  specdec::BlockVerifier verifier;
  return verifier(target, draft, tokens, source);
}

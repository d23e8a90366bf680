// must say: token ids have 32 or 64 bits: copy ids of another width
// Token ids have 32 or 64 bits.
// SPDX-License-Identifier: MIT
#include <cstdint>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#ifdef FIXED
using Id = std::uint32_t;
#else
using Id = std::int16_t;
#endif

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<Id>& tokens, std::mt19937_64& rng) {
  specdec::BlockVerifier verifier;
  return verifier(target, draft, tokens, rng);
}

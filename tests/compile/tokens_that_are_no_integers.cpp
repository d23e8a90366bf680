// must say: TokenIds
// Token ids are integers.
#include <cstdint>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#ifdef FIXED
using Id = std::uint16_t;
#else
using Id = float;
#endif

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<Id>& tokens, std::mt19937_64& rng) {
  specdec::BlockVerifier verifier;
  return verifier(target, draft, tokens, rng);
}

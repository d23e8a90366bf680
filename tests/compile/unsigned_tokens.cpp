// must say: NeitherInt32NorInt64
// Token ids are signed.
#include <cstdint>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#ifdef FIXED
using Id = specdec::Token;
#else
using Id = unsigned;
#endif

specdec::Verdict use(const Eigen::MatrixXf& target, const Eigen::MatrixXf& draft,
                     const std::vector<Id>& tokens, std::mt19937_64& rng) {
  specdec::BlockVerifier verifier;
  return verifier(target, draft, tokens, rng);
}

// must say: a target matrix needs vocab_size()
// One-hot rows fit any vocabulary; the target's has to be known.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

#ifdef FIXED
using Target = Eigen::MatrixXd;
#else
using Target = specdec::OneHotRows;
#endif

specdec::Verdict use(const Target& target, const std::vector<specdec::Token>& tokens) {
  specdec::ArgmaxVerifier verifier;
  return verifier(target, tokens);
}

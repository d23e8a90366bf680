// must say: would bias the text with them: use KeyedVerifier
// Ratios are judged by numbers that the draft does not depend on.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

#ifdef FIXED
using Rule = specdec::KeyedVerifier;
#else
using Rule = specdec::TokenVerifier;
#endif

specdec::Verdict use(const Eigen::MatrixXd& target, const Eigen::MatrixXd& draft) {
  specdec::Keyed keyed{42};
  return specdec::verify(Rule{}, target, draft, std::vector<specdec::Token>{0}, keyed);
}

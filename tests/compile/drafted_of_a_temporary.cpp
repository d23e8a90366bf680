// must say: Drafted
// What was drafted is seen, not copied: rows and tokens that die at the end of the line are refused.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

Eigen::MatrixXd computed(specdec::Index rows);

specdec::Index use() {
  const Eigen::MatrixXd target = computed(2), draft = computed(1);
#ifdef FIXED
  const std::vector<specdec::Token> tokens{0};
  const specdec::Drafted drafted(target, draft, tokens);
#else
  const specdec::Drafted drafted(target, draft, std::vector<specdec::Token>{0});
#endif
  return drafted.gamma();
}

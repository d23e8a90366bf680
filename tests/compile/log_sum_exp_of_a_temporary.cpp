// must say: log_sum_exp
// The log-sum-exps of logits are seen, not copied: a list that dies at the end of the line is refused.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

std::vector<double> reported();

double use(const Eigen::MatrixXf& logits) {
#ifdef FIXED
  const std::vector<double> known = reported();
  const specdec::Logits rows(logits, {.log_sum_exp = known});
#else
  const specdec::Logits rows(logits, {.log_sum_exp = reported()});
#endif
  return rows.row(0).probability(0);
}

// must say: distributions
// Rows with tokens already drawn are a view, too.
// SPDX-License-Identifier: MIT
#include <specdec/more/rows/sampled.hpp>
#include <specdec/specdec.hpp>
#include <vector>

Eigen::MatrixXf computed();

double use(const std::vector<specdec::Token>& drawn) {
#ifdef FIXED
  const Eigen::MatrixXf matrix = computed();
  const specdec::SampledRows rows(matrix, drawn);
#else
  const specdec::SampledRows rows(computed(), drawn);
#endif
  return rows.row(0).probability(0);
}

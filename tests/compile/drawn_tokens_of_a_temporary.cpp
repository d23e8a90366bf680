// must say: Temporary
// The tokens that have been drawn are looked at when a row is asked.
// SPDX-License-Identifier: MIT
#include <specdec/more/rows/sampled.hpp>
#include <specdec/specdec.hpp>
#include <vector>

std::vector<specdec::Token> sampled();

double use(const Eigen::MatrixXf& matrix) {
#ifdef FIXED
  const std::vector<specdec::Token> drawn = sampled();
  const specdec::SampledRows rows(matrix, drawn);
#else
  const specdec::SampledRows rows(matrix, sampled());
#endif
  return rows.row(0).probability(0);
}

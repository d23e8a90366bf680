// must say: Temporary
// A view of a matrix that dies at the end of the line.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

Eigen::MatrixXf computed();

double use() {
#ifdef FIXED
  const Eigen::MatrixXf matrix = computed();
  const specdec::Logits rows(matrix);
#else
  const specdec::Logits rows(computed());
#endif
  return rows.row(0).probability(0);
}

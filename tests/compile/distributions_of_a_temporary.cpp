// must say: OwningTemporary
// A view of a matrix that dies at the end of the line.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

Eigen::MatrixXf computed();

double use() {
#ifdef FIXED
  const Eigen::MatrixXf matrix = computed();
  const auto rows = specdec::distributions(matrix);
#else
  const auto rows = specdec::distributions(computed());
#endif
  return rows.row(0).probability(0);
}

// must say: MappedRows
// A view of a matrix that dies at the end of the line.
// SPDX-License-Identifier: MIT
#include <specdec/more/rows/mapped.hpp>
#include <specdec/specdec.hpp>

Eigen::MatrixXf computed();

double use(const specdec::TokenMap& map) {
#ifdef FIXED
  const Eigen::MatrixXf matrix = computed();
  const specdec::MappedRows rows(matrix, map);
#else
  const specdec::MappedRows rows(computed(), map);
#endif
  return rows.row(0).probability(0);
}

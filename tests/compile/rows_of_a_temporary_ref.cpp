// must say: OwningTemporary
// A Ref<const Matrix> of what is no such matrix holds a copy, which dies at the end of the line.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

specdec::Index use(const Eigen::MatrixXf& probabilities) {
#ifdef FIXED
  const Eigen::Ref<const RowMajor> kept(probabilities);
  const auto rows = specdec::distributions(kept);
#else
  const auto rows = specdec::distributions(Eigen::Ref<const RowMajor>(probabilities));
#endif
  return rows.rows();
}

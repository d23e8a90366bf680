// Matrices in panels of 16 rows: the layout for product.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>

namespace transformer {

using Eigen::Index;

/// The rows of a panel. 16 floats are one AVX-512 register, two AVX registers, four SSE or NEON registers, and a cache line.
inline constexpr Index lanes = 16;

/// `size` rounded up to whole panels. Vectors are padded with zeros to this size, so that no loop over them has a remainder,
/// and no sum depends on their address in memory.
constexpr Index padded(Index size) { return (size + lanes - 1) / lanes * lanes; }

/// A view of the first `cols` columns of `panels` panels. Column k of panel p is the 16 numbers from
/// data + (p·stride + k)·16 on.
template <class Scalar>
struct PanelView {
  const Scalar* data;
  Index panels, cols, stride;
};

/// A matrix in panels of 16 rows. A panel is stored column after column. So a product with a vector reads the panel from
/// front to back, makes 16 sums at once without adding across lanes, and takes any number of columns. Missing rows of the
/// last panel are zeros.
template <class Scalar>
class Panels {
 public:
  Panels() = default;
  Panels(Index rows, Index cols)
      : columns_(Columns::Zero(lanes, padded(rows) / lanes * cols)), rows_(rows), cols_(cols) {}

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }

  Scalar& operator()(Index row, Index col) { return columns_(row % lanes, row / lanes * cols_ + col); }

  /// Row i, as a row vector.
  auto row(Index i) const { return columns_.row(i % lanes).segment(i / lanes * cols_, cols_); }

  /// Copies a matrix to the rows from `first` on.
  template <class Matrix>
  void set_rows(Index first, const Matrix& matrix) {
    for (Index i = 0; i < matrix.rows(); ++i)
      columns_.row((first + i) % lanes).segment((first + i) / lanes * cols_, cols_) =
          matrix.row(i).array().template cast<Scalar>();
  }

  /// Adds `factor` times the outer product of two vectors to the matrix.
  /// Shapes: `left` is padded with zeros to whole panels; `right` has a number for each column.
  void add_outer(const Eigen::ArrayXf& left, float factor, const float* right) {
    for (Index first = 0; first < left.size(); first += lanes)
      for (Index k = 0; k < cols_; ++k)
        columns_.col(first / lanes * cols_ + k) +=
            (factor * right[k] * left.segment<lanes>(first)).template cast<Scalar>();
  }

  PanelView<Scalar> view() const { return block(0, rows_, 0, cols_); }

  /// `cols` columns, from column `col` on, of the panels that hold `rows` rows, from row `row` on.
  /// Pre: a panel begins with this row.
  PanelView<Scalar> block(Index row, Index rows, Index col, Index cols) const {
    return {columns_.data() + (row / lanes * cols_ + col) * lanes, padded(rows) / lanes, cols, cols_};
  }

 private:
  using Columns = Eigen::Array<Scalar, lanes, Eigen::Dynamic>;
  Columns columns_;
  Index rows_ = 0, cols_ = 0;
};

}  // namespace transformer

// Matrices cut into panels of 16 rows, the layout that product.hpp multiplies.
#pragma once

#include <Eigen/Core>

namespace transformer {

using Eigen::Index;

/// Rows of a panel. 16 floats are one AVX-512 register, two of AVX, four of SSE or NEON, and a cache line.
inline constexpr Index lanes = 16;

/// `size` rounded up to whole panels. Vectors are stored in as many numbers, zeros behind the last one, so that
/// no loop over them has a remainder, and none of their sums depends on where in memory they begin.
constexpr Index padded(Index size) { return (size + lanes - 1) / lanes * lanes; }

/// The first `cols` columns of `panels` panels. Column k of panel p is the 16 numbers from
/// data + (p·stride + k)·16 on.
template <class Scalar>
struct PanelView {
  const Scalar* data;
  Index panels, cols, stride;
};

/// A matrix whose panels of 16 rows are stored column after column: a product of a panel and a vector reads
/// the panel from front to back, gives 16 sums at once that need no adding up across lanes, and takes any
/// number of columns. Rows missing from the last panel are zeros.
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

  /// Copies a matrix of as many columns to the rows from `first` on.
  template <class Matrix>
  void set_rows(Index first, const Matrix& matrix) {
    for (Index i = 0; i < matrix.rows(); ++i)
      columns_.row((first + i) % lanes).segment((first + i) / lanes * cols_, cols_) =
          matrix.row(i).array().template cast<Scalar>();
  }

  PanelView<Scalar> view() const { return corner(rows_, cols_); }

  /// The first `cols` columns of the panels that hold the first `rows` rows.
  PanelView<Scalar> corner(Index rows, Index cols) const {
    return {columns_.data(), padded(rows) / lanes, cols, cols_};
  }

 private:
  using Columns = Eigen::Array<Scalar, lanes, Eigen::Dynamic>;
  Columns columns_;
  Index rows_ = 0, cols_ = 0;
};

}  // namespace transformer

// Dense rows of probabilities: any Eigen expression with direct access, seen without a copy.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <type_traits>

#include "specdec/core/distribution.hpp"
#include "specdec/core/error.hpp"
#include "specdec/core/prefix_sampler.hpp"

namespace specdec {

/// An Eigen matrix of probabilities, one distribution a row, whose entries lie in memory: Matrix, Map
/// (strides included), Ref, Block; row- or column-major; float or double. An expression that would have to be
/// computed (a sum, a product) does not qualify: evaluate it first.
template <class M>
concept DenseProbabilities =
    std::derived_from<std::remove_cvref_t<M>, Eigen::DenseBase<std::remove_cvref_t<M>>> &&
    std::floating_point<typename std::remove_cvref_t<M>::Scalar> &&
    (std::remove_cvref_t<M>::Flags& Eigen::DirectAccessBit) != 0;

/// One row of probabilities in memory. `Stride` is 1 where neighbours in the row are known to be neighbours
/// in memory, else Eigen::Dynamic.
template <std::floating_point Scalar, int Stride = 1>
class DenseRow {
 public:
  DenseRow(const Scalar* data, Index vocab_size, Index stride = 1)
      : data_(data), size_(vocab_size), stride_(stride) {}

  Index vocab_size() const { return size_; }
  double probability(Token x) const { return static_cast<double>(data_[x * step()]); }
  PrefixSampler<DenseRow> sampler() const { return PrefixSampler<DenseRow>(*this); }

  /// Lowest id among equals. Throws InvalidDistribution on NaN and where no token has positive probability.
  /// Cost: one vectorised pass, and a scan of the block that holds the answer.
  Token argmax() const {
    constexpr Index block_size = 1024;
    Scalar largest = 0;
    Index holder = -1;
    for (Index start = 0; start < size_; start += block_size) {
      const Scalar m =
          block(start, std::min(block_size, size_ - start)).template maxCoeff<Eigen::PropagateNaN>();
      if (m <= largest) continue;
      if (std::isnan(m)) throw InvalidDistribution("the largest probability is nan");
      largest = m;
      holder = start;
    }
    if (holder < 0) throw InvalidDistribution("no token has positive probability");
    auto x = static_cast<Token>(holder);
    while (data_[x * step()] != largest) ++x;
    return x;
  }

  /// The entries of `count` tokens from `start` on, as an Eigen array to compute with.
  auto block(Index start, Index count) const {
    using Entries = Eigen::Array<Scalar, Eigen::Dynamic, 1>;
    return Eigen::Map<const Entries, Eigen::Unaligned, Eigen::InnerStride<Stride>>(
        data_ + start * step(), count, Eigen::InnerStride<Stride>(step()));
  }

  double sum(Index start, Index count) const { return static_cast<double>(block(start, count).sum()); }

 private:
  Index step() const {
    if constexpr (Stride == Eigen::Dynamic) return stride_;
    else return Stride;
  }

  const Scalar* data_;
  Index size_, stride_;
};

/// A view of a matrix of probabilities as a DistributionMatrix. The matrix must outlive it.
template <DenseProbabilities M>
class DenseRows {
  static constexpr int stride_of_row = M::IsRowMajor ? static_cast<int>(M::InnerStrideAtCompileTime)
                                                     : static_cast<int>(M::OuterStrideAtCompileTime);

 public:
  using Row = DenseRow<typename M::Scalar, stride_of_row == 1 ? 1 : Eigen::Dynamic>;

  explicit DenseRows(const M& matrix)
      : data_(matrix.derived().data()),
        rows_(matrix.rows()),
        cols_(matrix.cols()),
        down_(M::IsRowMajor ? matrix.outerStride() : matrix.innerStride()),
        across_(M::IsRowMajor ? matrix.innerStride() : matrix.outerStride()) {}

  Index rows() const { return rows_; }
  Index vocab_size() const { return cols_; }
  Row row(Index i) const { return Row(data_ + i * down_, cols_, across_); }

 private:
  const typename M::Scalar* data_;
  Index rows_, cols_, down_, across_;
};

/// What the verifiers accept as a matrix of distributions: Eigen's, or any DistributionMatrix.
template <class M>
concept Probabilities = DenseProbabilities<M> || DistributionMatrix<std::remove_cvref_t<M>>;

/// The matrix as a DistributionMatrix: a view of an Eigen expression, or what was given.
template <Probabilities M>
auto distributions(const M& matrix) {
  if constexpr (DenseProbabilities<M>) return DenseRows<M>(matrix);
  else return matrix;
}

}  // namespace specdec

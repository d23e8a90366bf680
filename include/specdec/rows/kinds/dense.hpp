// Dense rows of probabilities, read in place, without a copy.
// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"

namespace specdec::inline v0_2_0 {

/// One row of probabilities in memory; scalar and stride as in NumberRow.
template <Real S, int Stride = 1>
class DenseRow {
 public:
  DenseRow(const S* data, Index vocab_size, Index stride = 1) : numbers_(data, vocab_size, stride) {}
  explicit DenseRow(const NumberRow<S, Stride>& probabilities) : numbers_(probabilities) {}

  static constexpr bool constant_time_probability = true;
  static constexpr double rounding_of_small = rounding_at_zero<S>;  // see PrefixSampler
  static constexpr double rounding = rounding_of_itself<S>;         // see validate()

  Index vocab_size() const { return numbers_.size(); }
  double probability(Token x) const { return static_cast<double>(numbers_[x]); }
  void prefetch(Token x) const { numbers_.prefetch(x); }
  PrefixSampler<DenseRow> sampler() const { return PrefixSampler<DenseRow>(*this); }

  /// The most probable token, the lowest id among equals.
  /// Throws: InvalidDistribution on NaN, and if no token has positive probability.
  /// Cost: one vectorised pass, and a scan of the segment that holds the answer.
  Token argmax() const {
    const Index x = numbers_.first_largest();
    if (x >= vocab_size() || !(numbers_[x] > 0))
      detail::invalid_distribution("no token has positive probability");
    return static_cast<Token>(x);
  }

  /// The probabilities of `count` tokens from `start` on, as an Eigen array.
  auto segment(Index start, Index count) const { return numbers_.segment(start, count); }

  /// Numeric: see NumberRow::sum.
  double sum(Index start, Index count) const { return numbers_.sum(start, count); }

 private:
  NumberRow<S, Stride> numbers_;
};

/// A view of a matrix of probabilities as a DistributionMatrix. The matrix must outlive it.
template <class Numbers>
class DenseRows {
 public:
  template <NumberMatrix M>
    requires(!detail::OwningTemporary<M>)
  explicit DenseRows(M&& matrix) : numbers_(numbers(std::forward<M>(matrix))) {}

  Index rows() const { return numbers_.rows(); }
  Index vocab_size() const { return numbers_.cols(); }
  auto row(Index i) const { return DenseRow(numbers_.row(i)); }

 private:
  Numbers numbers_;
};

template <NumberMatrix M>
DenseRows(M&&) -> DenseRows<NumbersOf<M>>;

/// A matrix that a verifier takes: numbers in memory, read as probabilities, or any DistributionMatrix.
template <class M>
concept Probabilities = NumberMatrix<M> || DistributionMatrix<std::remove_cvref_t<M>>;

/// The matrix as a DistributionMatrix: a view of numbers in memory, or the argument itself if it is a DistributionMatrix.
/// A temporary that owns its entries is refused.
template <Probabilities M>
  requires(!detail::OwningTemporary<M>)
auto distributions(M&& matrix) {
  if constexpr (NumberMatrix<M>) return DenseRows(matrix);
  else return std::remove_cvref_t<M>(std::forward<M>(matrix));
}

/// What distributions() returns.
template <class M>
using DistributionsOf = decltype(distributions(std::declval<const M&>()));

}  // namespace specdec

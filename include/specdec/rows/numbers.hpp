// Rows of numbers in memory. Rows of probabilities and rows of logits read them.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/kernels/reductions.hpp"
#include "specdec/kernels/widen.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A scalar type that rows may be stored in. Eigen::half and Eigen::bfloat16 are widened to float as they are read.
template <class S>
concept Real = std::floating_point<S> || std::same_as<S, Eigen::half> || std::same_as<S, Eigen::bfloat16>;

/// The scalar type of the arithmetic on stored numbers.
template <Real S>
using Arithmetic = std::conditional_t<std::floating_point<S>, S, float>;

/// The largest rounding error of a stored number near 0. For bfloat16 and wider scalars it is below 1e-40: too small to matter.
template <Real S>
inline constexpr double rounding_at_zero = std::same_as<S, Eigen::half> ? 0x1p-25 : 0.0;

/// The relative rounding error of a stored number: half a unit of its last bit, but 0 for scalars that are exact enough for sums.
template <Real S>
inline constexpr double rounding_of_itself = std::same_as<S, Eigen::bfloat16> ? 0x1p-9
                                             : std::same_as<S, Eigen::half>   ? 0x1p-11
                                                                              : 0.0;

/// One row of numbers in memory. `Stride` is 1 if the numbers are known to lie side by side in memory, else Eigen::Dynamic.
template <Real S, int Stride = 1>
class NumberRow {
 public:
  using Stored = S;
  using Scalar = Arithmetic<S>;

  NumberRow(const S* data, Index size, Index stride = 1) : data_(data), size_(size), stride_(stride) {}

  const S* data() const { return data_; }
  Index size() const { return size_; }
  Scalar operator[](Index x) const { return static_cast<Scalar>(data_[x * step()]); }

  /// A hint that number x will be read soon, so that memory accesses overlap.
  void prefetch([[maybe_unused]] Index x) const {
#ifdef __GNUC__
    __builtin_prefetch(data_ + x * step());
#endif
  }

  /// Writes `count` numbers from `start` on to `out`, as Scalar.
  void read(Index start, Index count, Scalar* out) const {
    Index done = 0;
    if constexpr (!std::floating_point<S>) {
      using Widen = detail::Widen<S>;
      if (step() == 1) {
        done = count / detail::lot * detail::lot;
        detail::run_wide<Widen>(data_ + start, done, out);
      }
      std::array<S, detail::lot> narrow{};
      std::array<Scalar, detail::lot> wide;
      for (; done < count; done += detail::lot) {
        const Index size = std::min(detail::lot, count - done);
        for (Index i = 0; i < size; ++i) detail::at(narrow, i) = data_[(start + done + i) * step()];
        detail::run_wide<Widen>(static_cast<const S*>(narrow.data()), detail::lot, wide.data());
        std::copy_n(wide.begin(), size, out + done);
      }
    } else {
      for (; done < count; ++done) out[done] = (*this)[start + done];
    }
  }

  /// `count` numbers from `start` on, as an Eigen array. At most max_segment_size of half or bfloat16.
  auto segment(Index start, Index count) const {
    if constexpr (std::floating_point<S>) {
      using Stretch = Eigen::Array<S, Eigen::Dynamic, 1>;
      return Eigen::Map<const Stretch, Eigen::Unaligned, Eigen::InnerStride<Stride>>(
          data_ + start * step(), count, Eigen::InnerStride<Stride>(step()));
    } else {
      detail::Segment<Scalar> wide(count);
      read(start, count, wide.data());
      return wide;
    }
  }

  /// Calls f(numbers, offset, size) for `count` numbers from `start` on, in pieces of whole lots (64 numbers) for the
  /// kernels. Numbers that a kernel can read in place are not copied. The last lot is filled up with `filler`.
  template <class F>
  void each_lots(Index start, Index count, Scalar filler, F&& f) const {
    using detail::lot;
    constexpr bool in_place = std::floating_point<S> && Stride == 1;
    constexpr Index room = in_place ? lot : max_segment_size;
    Index done = 0;
    if constexpr (in_place) {
      done = count / lot * lot;
      if (done > 0) f(data_ + start, Index{0}, done);
    }
    std::array<Scalar, std::size_t{room}> copy;
    for (; done < count; done += room) {
      const Index size = std::min(room, count - done), filled = (size + lot - 1) / lot * lot;
      read(start + done, size, copy.data());
      std::fill(copy.begin() + size, copy.begin() + filled, filler);
      f(static_cast<const Scalar*>(copy.data()), done, filled);
    }
  }

  /// Writes all numbers to `out`, as they are stored.
  void copy_to(S* out) const {
    if (step() == 1) return void(std::copy_n(data_, size_, out));
    for (Index x = 0; x < size_; ++x) out[x] = data_[x * step()];
  }

  /// The largest of `count` numbers; NaN if one of them is NaN.
  Scalar max(Index start, Index count) const { return largest(start, count).or_nan(); }

  /// Numeric: in the scalar's own arithmetic over up to 1024 numbers, in double across.
  double sum(Index start, Index count) const {
    double sum = 0;
    each_lots(start, count, Scalar{0}, [&](const Scalar* numbers, Index, Index size) {
      sum += detail::run_wide<detail::SumOfNumbers<Scalar>>(numbers, size);
    });
    return sum;
  }

  /// The first index of the largest number; 0 for an empty row.
  /// Throws: InvalidDistribution on NaN.
  /// Cost: one vectorised pass, and a scan of 256 numbers.
  Index first_largest() const {
    const auto found = largest(0, size_);
    if (found.has_nan) detail::invalid_distribution("the largest entry is nan");
    Index x = found.stretch;
    while (x < size_ && (*this)[x] != found.number) ++x;
    return x;
  }

 private:
  detail::LargestSoFar<Scalar> largest(Index start, Index count) const {
    detail::LargestSoFar<Scalar> found;
    each_lots(start, count, found.number, [&](const Scalar* numbers, Index offset, Index size) {
      found = detail::run_wide<detail::FindLargest<Scalar>>(numbers, size, offset, found);
    });
    return found;
  }

  Index step() const {
    if constexpr (Stride == Eigen::Dynamic) return stride_;
    else return Stride;
  }

  const S* data_;
  Index size_, stride_;
};

namespace detail {

/// Eigen expressions with entries in memory: Matrix, Map (strides included), Ref, Block; row- or column-major. An expression
/// that must be computed (a sum, a product) does not qualify: evaluate it first.
template <class M>
concept DirectExpression = std::derived_from<M, Eigen::DenseBase<M>> && Real<typename M::Scalar> &&
                           (M::Flags & Eigen::DirectAccessBit) != 0;

/// The rows of an Eigen expression. The matrix must outlive it.
template <DirectExpression M>
class EigenNumbers {
  static constexpr int stride_of_row = M::IsRowMajor ? static_cast<int>(M::InnerStrideAtCompileTime)
                                                     : static_cast<int>(M::OuterStrideAtCompileTime);

 public:
  using Row = NumberRow<typename M::Scalar, stride_of_row == 1 ? 1 : static_cast<int>(Eigen::Dynamic)>;

  explicit EigenNumbers(const M& matrix)
      : data_(matrix.derived().data()),
        rows_(matrix.rows()),
        cols_(matrix.cols()),
        down_(M::IsRowMajor ? matrix.outerStride() : matrix.innerStride()),
        across_(M::IsRowMajor ? matrix.innerStride() : matrix.outerStride()) {}

  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  /// A matrix of no entries has no memory to point into.
  Row row(Index i) const { return Row(data_ == nullptr ? nullptr : data_ + i * down_, cols_, across_); }

 private:
  const typename M::Scalar* data_;
  Index rows_, cols_, down_, across_;
};

}  // namespace detail

/// Rows given as one pointer each: row i is the `vocab_size` numbers from pointers[i] on, which lie `stride` apart. Every function
/// that takes an Eigen matrix takes RowPointers. Pointers and numbers must outlive it; a temporary container is refused.
/// Throws: InvalidArgument on a null pointer, a negative vocabulary, a stride below 1 or other than a fixed `Stride`,
/// and a row that is larger than any memory.
template <Real S, int Stride = 1>
class RowPointers {
 public:
  RowPointers(std::span<const S* const> pointers, Index vocab_size, Index stride = 1)
      : pointers_(pointers), cols_(vocab_size), stride_(stride) {
    constexpr Index most = unlimited / static_cast<Index>(sizeof(S));  // that fit into memory
    if (vocab_size < 0 || stride < 1 || vocab_size > most / stride ||
        (Stride != Eigen::Dynamic && stride != Stride))
      detail::invalid_argument("rows by pointer cannot have ", vocab_size, " entries ", stride, " apart");
    for (Index i = 0; vocab_size > 0 && i < rows(); ++i)
      if (detail::at(pointers, i) == nullptr) detail::invalid_argument("pointers[", i, "] is null");
  }
  template <detail::OwningTemporary Temporary>
  RowPointers(Temporary&& pointers, Index vocab_size, Index stride = 1) = delete;

  static constexpr bool lists_numbers = true;  ///< see NumberMatrix

  Index rows() const { return static_cast<Index>(pointers_.size()); }
  Index cols() const { return cols_; }
  NumberRow<S, Stride> row(Index i) const { return {detail::at(pointers_, i), cols_, stride_}; }

 private:
  std::span<const S* const> pointers_;
  Index cols_, stride_;
};

template <class Pointers>
RowPointers(const Pointers&, Index)
    -> RowPointers<std::remove_const_t<std::remove_pointer_t<typename Pointers::value_type>>>;
template <class Pointers>
RowPointers(const Pointers&, Index, Index)
    -> RowPointers<std::remove_const_t<std::remove_pointer_t<typename Pointers::value_type>>, Eigen::Dynamic>;

/// A matrix of numbers in memory, one row per distribution: an Eigen expression with direct access (Matrix, Map, Ref, Block;
/// row- or column-major), RowPointers, RowVectors, or a list of such rows that says so by lists_numbers. The numbers are float, double, Eigen::half or Eigen::bfloat16.
template <class M>
concept NumberMatrix =
    detail::DirectExpression<std::remove_cvref_t<M>> || requires { std::remove_cvref_t<M>::lists_numbers; };

/// The matrix as a view with rows(), cols() and row(i). A temporary that owns its entries is refused.
template <NumberMatrix M>
  requires(!detail::OwningTemporary<M>)
auto numbers(M&& matrix) {
  using Matrix = std::remove_cvref_t<M>;
  if constexpr (detail::DirectExpression<Matrix>) return detail::EigenNumbers<Matrix>(matrix);
  else return matrix;
}

/// The view of a NumberMatrix.
template <NumberMatrix M>
using NumbersOf = decltype(numbers(std::declval<const std::remove_cvref_t<M>&>()));

namespace detail {
/// The view of an expression's numbers, which does not compile before they lie in memory.
template <ComputedExpression M>
  requires(fits_rows<M>())
using NumbersOnceEvaluated = NumbersOf<typename M::PlainObject>;
}  // namespace detail
}  // namespace specdec

// The rows of the C interface: one C++ type for all kinds that a specdec_rows describes, and each kind as rows of its own type.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/more/c/specdec.h"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/given_list.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/sparse.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/read/sum_check.hpp"
#include "specdec/rows/traits.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A list of tokens. All of it is checked where it is made, so it is looked up only where a rule asks.
template <class S>
struct ListOfC : SparseRow<S> {
  using SparseRow<S>::SparseRow;
  static constexpr bool constant_time_probability = false;
};

/// A row of any kind. Halves and bfloat16 are copied to floats wherever they lie, so they need no type for numbers that lie side
/// by side.
class RowOfC
    : public VariantRow<
          DenseRow<float>, DenseRow<float, Eigen::Dynamic>, DenseRow<double>,
          DenseRow<double, Eigen::Dynamic>, DenseRow<Eigen::half, Eigen::Dynamic>,
          DenseRow<Eigen::bfloat16, Eigen::Dynamic>, LogitsRow<float>, LogitsRow<float, Eigen::Dynamic>,
          LogitsRow<double>, LogitsRow<double, Eigen::Dynamic>, LogitsRow<Eigen::half, Eigen::Dynamic>,
          LogitsRow<Eigen::bfloat16, Eigen::Dynamic>, ListOfC<float>, ListOfC<double>, OneHotRow> {
 public:
  using VariantRow::VariantRow;
};

/// Calls f(std::type_identity<R>()), where R is the type of all rows with this description and scalar.
template <class S, int Stride, class F>
auto with_type_of_scalar(const specdec_rows& rows, const F& f) {
  if constexpr (std::floating_point<S>) {
    if (rows.kind == SPECDEC_LISTS) return f(std::type_identity<ListOfC<S>>());
  }
  if (rows.kind == SPECDEC_PROBABILITIES) return f(std::type_identity<DenseRow<S, Stride>>());
  return f(std::type_identity<LogitsRow<S, Stride>>());
}
template <class F>
auto with_type_of(const specdec_rows& rows, const F& f) {
  constexpr int apart = Eigen::Dynamic;
  const bool neighbours = rows.element_stride == 1;
  if (rows.kind == SPECDEC_ONE_HOT) return f(std::type_identity<OneHotRow>());
  switch (rows.scalar) {
    case SPECDEC_FLOAT:
      return neighbours ? with_type_of_scalar<float, 1>(rows, f) : with_type_of_scalar<float, apart>(rows, f);
    case SPECDEC_DOUBLE:
      return neighbours ? with_type_of_scalar<double, 1>(rows, f)
                        : with_type_of_scalar<double, apart>(rows, f);
    case SPECDEC_HALF:
      return with_type_of_scalar<Eigen::half, apart>(rows, f);
    default:
      return with_type_of_scalar<Eigen::bfloat16, apart>(rows, f);
  }
}

/// The matrix that a specdec_rows describes. The numbers and the name must outlive it.
/// Throws: InvalidArgument, with the name, if the description is none. When a row is made: InvalidDistribution if its
/// list does not ascend, holds ids outside the vocabulary, or does not sum to 1 within 1e-3.
class RowsOfC {
 public:
  RowsOfC(const char* name, const specdec_rows& rows) : name_(name), rows_(rows), count_(rows.rows) {
    if (rows_.element_stride == 0) rows_.element_stride = 1;
    check_description();
  }

  /// One-hot rows at the tokens.
  explicit RowsOfC(TokenIds tokens) : name_("draft"), tokens_(tokens), count_(tokens.size()) {
    rows_.kind = SPECDEC_ONE_HOT;
  }

  Index rows() const { return count_; }
  /// 0 for one-hot rows, which fit any vocabulary.
  Index vocab_size() const { return rows_.vocab_size; }

  /// Calls f(std::type_identity<R>()), where R is the type of all rows.
  template <class F>
  auto with_type(const F& f) const {
    return with_type_of(rows_, f);
  }
  /// Whether all rows are of type R.
  template <class R>
  bool are() const {
    return with_type([]<class T>(std::type_identity<T>) { return std::same_as<T, R>; });
  }

  RowOfC row(Index i) const {
    return with_type(
        [&]<class R>(std::type_identity<R> type) { return RowOfC(std::in_place_type<R>, row(i, type)); });
  }
  /// Row i, which is of type R.
  template <class R>
  R row(Index i, std::type_identity<R> type) const {
    return made(type, first_ + i);
  }

  /// `count` rows from row `first` on.
  RowsOfC part(Index first, Index count) const {
    RowsOfC some = *this;
    some.first_ += first;
    some.count_ = count;
    return some;
  }

  /// Rows of logits at temperature number `i` of many; 0 is greedy decoding.
  RowsOfC at_temperature(double temperature, Index i) const {
    if (!(temperature >= 0 && temperature <= std::numeric_limits<double>::max()))
      invalid_argument(name_, "_temperatures[", i, "] = ", temperature, " is no finite number >= 0");
    RowsOfC some = *this;
    some.rows_.kind = temperature == 0 ? SPECDEC_GREEDY_LOGITS : SPECDEC_LOGITS;
    some.rows_.temperature = temperature;
    return some;
  }

  /// A hint that token x of row i will be looked up soon. Rows of another kind than probabilities are not read so.
  void prefetch(Index i, Token x) const {
    if (rows_.kind != SPECDEC_PROBABILITIES || i < 0 || i >= count_ || x < 0) return;
    i += first_;
    if (rows_.scalar == SPECDEC_FLOAT) numbers_of<float>(i).prefetch(x);
    else if (rows_.scalar == SPECDEC_DOUBLE) numbers_of<double>(i).prefetch(x);
    else numbers_of<Eigen::half>(i).prefetch(x);  // as large as bfloat16
  }

 private:
  void check_description() {
    if (rows_.kind < SPECDEC_PROBABILITIES || rows_.kind > SPECDEC_LISTS)
      invalid_argument(name_, ".kind = ", rows_.kind,
                       rows_.kind == SPECDEC_ONE_HOT ? " is for a draft" : " is no kind of rows");
    if (rows_.scalar < SPECDEC_FLOAT || rows_.scalar > SPECDEC_BFLOAT16)
      invalid_argument(name_, ".scalar = ", rows_.scalar, " is no type of numbers");
    if (rows_.rows < 0) invalid_argument(name_, ".rows = ", rows_.rows, " is negative");
    if (rows_.vocab_size < 1 || rows_.vocab_size > std::numeric_limits<Token>::max())
      invalid_argument(name_, ".vocab_size = ", rows_.vocab_size, " is outside 1..",
                       std::numeric_limits<Token>::max());
    if (rows_.kind == SPECDEC_LISTS) check_lists();
    else check_numbers();
    if (rows_.kind == SPECDEC_LOGITS &&
        !(rows_.temperature > 0 && rows_.temperature <= std::numeric_limits<double>::max()))
      invalid_argument(name_, ".temperature = ", rows_.temperature,
                       " is not a finite number > 0: at 0, the kind is SPECDEC_GREEDY_LOGITS");
  }

  void check_lists() const {
    if (rows_.scalar != SPECDEC_FLOAT && rows_.scalar != SPECDEC_DOUBLE)
      invalid_argument(name_, ".scalar = ", rows_.scalar, ": lists hold float or double");
    check_pointer(rows_.offsets, ".offsets");
    if (rows_.offsets[0] < 0) invalid_argument(name_, ".offsets[0] = ", rows_.offsets[0], " is negative");
    for (Index i = 1; i <= rows_.rows; ++i)
      if (rows_.offsets[i] < rows_.offsets[i - 1])
        invalid_argument(name_, ".offsets[", i, "] = ", rows_.offsets[i], ", after ", rows_.offsets[i - 1]);
      else if (rows_.offsets[i] - rows_.offsets[i - 1] > rows_.vocab_size)
        invalid_argument(name_, ".offsets[", i, "] = ", rows_.offsets[i], ", after ", rows_.offsets[i - 1],
                         ": a list of more tokens than .vocab_size = ", rows_.vocab_size);
    if (rows_.offsets[rows_.rows] == rows_.offsets[0]) return;
    check_pointer(rows_.ids, ".ids");
    check_pointer(rows_.data, ".data");
  }

  void check_numbers() {
    check_stride(".element_stride", rows_.element_stride, rows_.vocab_size);
    if (rows_.row_stride == 0) rows_.row_stride = rows_.vocab_size * rows_.element_stride;
    check_stride(".row_stride", rows_.row_stride, rows_.rows);
    if (rows_.rows == 0) return;
    if (rows_.data != nullptr && rows_.pointers != nullptr)
      invalid_argument(name_, ".data and ", name_, ".pointers are both set: one of them is NULL");
    if (rows_.pointers == nullptr) return check_pointer(rows_.data, ".data");
    for (Index i = 0; i < rows_.rows; ++i)
      if (rows_.pointers[i] == nullptr) invalid_argument(name_, ".pointers[", i, "] is NULL");
  }

  // More than fits into any memory would overflow the arithmetic.
  void check_stride(const char* member, Index stride, Index count) const {
    constexpr Index most = unlimited / static_cast<Index>(sizeof(double));
    if (stride < 1 || (count > 0 && stride > most / count))
      invalid_argument(name_, member, " = ", stride, " is outside 1..", count > 0 ? most / count : most);
  }

  void check_pointer(const void* pointer, const char* member) const {
    if (pointer == nullptr) invalid_argument(name_, member, " is NULL");
  }

  template <class S, int Stride = Eigen::Dynamic>
  NumberRow<S, Stride> numbers_of(Index i) const {
    const auto* first = static_cast<const S*>(rows_.pointers != nullptr ? rows_.pointers[i] : rows_.data);
    if (rows_.pointers == nullptr) first += i * rows_.row_stride;
    return {first, rows_.vocab_size, rows_.element_stride};
  }

  OneHotRow made(std::type_identity<OneHotRow>, Index i) const { return OneHotRows(tokens_).row(i); }
  template <class S, int Stride>
  DenseRow<S, Stride> made(std::type_identity<DenseRow<S, Stride>>, Index i) const {
    return DenseRow<S, Stride>(numbers_of<S, Stride>(i));
  }
  template <class S, int Stride>
  LogitsRow<S, Stride> made(std::type_identity<LogitsRow<S, Stride>>, Index i) const {
    const auto numbers = numbers_of<S, Stride>(i);
    if (rows_.kind == SPECDEC_GREEDY_LOGITS) return LogitsRow<S, Stride>(numbers, 0.0);
    if (rows_.log_sum_exp == nullptr) return LogitsRow<S, Stride>(numbers, rows_.temperature);
    return LogitsRow<S, Stride>(numbers, rows_.temperature, LogSumExp{rows_.log_sum_exp[i]});
  }
  // An id out of order would not be found, and a list that a cut left without renormalising has another law: the text would be
  // biased without a word. So all ids and the sum are checked.
  template <class S>
  ListOfC<S> made(std::type_identity<ListOfC<S>>, Index i) const {
    const Index first = rows_.offsets[i];
    const auto size = static_cast<std::size_t>(rows_.offsets[i + 1] - first);
    const std::span<const Token> ids(rows_.ids + first, size);
    const std::span<const S> numbers(static_cast<const S*>(rows_.data) + first, size);
    const ListOfC<S> row(ids, numbers, rows_.vocab_size);
    if (is_clearly_right(ids, numbers)) return row;
    check_list(row);
    check_sum(row, "renormalise them after a cut");
    return row;
  }
  // For short lists, of which a sum of floats is exact enough. A NaN makes the sum a NaN.
  template <class S>
  bool is_clearly_right(std::span<const Token> ids, std::span<const S> numbers) const {
    const std::size_t size = ids.size();
    if (size == 0 || size > max_segment_size || ids[0] < 0 || ids[size - 1] >= rows_.vocab_size) return false;
    Token ascending = 1;  // as wide as the ids, so that a compiler counts whole vectors
    for (std::size_t k = 1; k < size; ++k) ascending += ids[k - 1] < ids[k] ? 1 : 0;
    const Eigen::Map<const Eigen::Array<S, Eigen::Dynamic, 1>> p(numbers.data(), std::ssize(numbers));
    return ascending == static_cast<Token>(size) && p.minCoeff() >= 0 &&
           std::abs(static_cast<double>(p.sum()) - 1) < 9e-4;
  }

  const char* name_;
  specdec_rows rows_ = {};
  TokenIds tokens_;
  Index first_ = 0, count_ = 0;
};

/// Rows that are all of type R, as a matrix of this type. The RowsOfC must outlive it.
template <class R>
class RowsOfType {
 public:
  explicit RowsOfType(const RowsOfC& rows) : rows_(&rows) {}
  Index rows() const { return rows_->rows(); }
  Index vocab_size() const { return rows_->vocab_size(); }
  R row(Index i) const { return rows_->row(i, std::type_identity<R>()); }

 private:
  const RowsOfC* rows_;
};

// A list checks its sum where it is made, so check_every() has only to make it.
template <class S>
inline constexpr bool has_sums<RowsOfType<ListOfC<S>>> = true;

}  // namespace specdec::detail

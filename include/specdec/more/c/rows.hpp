// The rows of the C interface: one C++ type for all kinds that a specdec_rows describes. So each rule is compiled once. Rules for
// lines are also compiled for rows of floats, the most frequent kind, which are judged as fast as in C++.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

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
#include "specdec/rows/read/prefix_sampler.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

// Halves and bfloat16 are copied to floats wherever they lie, so they need no type for numbers that lie side by side.
using AnyRowOfC =
    VariantRow<DenseRow<float>, DenseRow<float, Eigen::Dynamic>, DenseRow<double>,
               DenseRow<double, Eigen::Dynamic>, DenseRow<Eigen::half, Eigen::Dynamic>,
               DenseRow<Eigen::bfloat16, Eigen::Dynamic>, LogitsRow<float>, LogitsRow<float, Eigen::Dynamic>,
               LogitsRow<double>, LogitsRow<double, Eigen::Dynamic>, LogitsRow<Eigen::half, Eigen::Dynamic>,
               LogitsRow<Eigen::bfloat16, Eigen::Dynamic>, SparseRow<float>, SparseRow<double>, OneHotRow>;

/// A row of any kind. A draw gives the token that the held row's own sampler gives.
class RowOfC : public AnyRowOfC {
 public:
  template <class R>
  static RowOfC holding(const R& row) {
    return RowOfC(std::in_place_type<R>, row);
  }

  class Sampler;
  inline Sampler sampler() const;

 private:
  using AnyRowOfC::AnyRowOfC;
};

/// The row that a sampler sums: place k is token k, or entry k of a list. The bound of its sum depends on the scalar.
template <bool of_halves>
class PlacesOfC {
 public:
  explicit PlacesOfC(const RowOfC& row) : row_(row) {}
  static constexpr double rounding_of_small = of_halves ? rounding_at_zero<Eigen::half> : 0.0;

  Index vocab_size() const {
    return ask([](const auto& row) -> Index { return size(row); });
  }
  double probability(Token k) const {
    return ask([k](const auto& row) { return at(row, k); });
  }
  double sum(Index start, Index count) const {
    return ask([start, count](const auto& row) {
      if constexpr (!listed<decltype(row)>) return static_cast<double>(row.sum(start, count));
      double sum = 0;
      for (Index k = start; k < start + count; ++k) sum += at(row, static_cast<Token>(k));
      return sum;
    });
  }
  void prefetch(Token k) const {
    ask([k](const auto& row) {
      if constexpr (!listed<decltype(row)>) specdec::prefetch(row, k);
    });
  }
  /// The token at place k.
  Token token(Token k) const {
    return ask([k](const auto& row) -> Token {
      if constexpr (listed<decltype(row)>) return row.support(k);
      else return k;
    });
  }

 private:
  template <class R>
  static constexpr bool listed = ListedRow<std::remove_cvref_t<R>>;

  static Index size(const auto& row) {
    if constexpr (listed<decltype(row)>) return row.support_size();
    else return row.vocab_size();
  }
  static double at(const auto& row, Token k) {
    if constexpr (listed<decltype(row)>) return row.listed(k);
    else return static_cast<double>(row.probability(k));
  }
  decltype(auto) ask(const auto& question) const { return std::visit(question, row_.held()); }

  RowOfC row_;
};

/// The inverse distribution function of a row. A list was checked when it was made, so the token needs no check.
class RowOfC::Sampler {
 public:
  /// `stretch` is the number of tokens for which the row knows sums already.
  Sampler(const RowOfC& row, Index stretch) : places_(row), draw_(begin(row, stretch)) {}

  Token operator()(double u) {
    if (auto* const draw = std::get_if<2>(&draw_)) return (*draw)(u);
    return places_.token(std::visit([u](auto& draw) { return draw(u); }, draw_));
  }

 private:
  // A row of floats, the most frequent kind, is asked itself: each question to a row of any kind is a call through a table.
  using Draw = std::variant<PrefixSampler<PlacesOfC<false>>, PrefixSampler<PlacesOfC<true>>,
                            PrefixSampler<DenseRow<float>>>;

  static Draw begin(const RowOfC& row, Index stretch) {
    if (const auto* const floats = std::get_if<DenseRow<float>>(&row.held()))
      return Draw(std::in_place_index<2>, *floats);
    if (std::holds_alternative<DenseRow<Eigen::half, Eigen::Dynamic>>(row.held()))
      return Draw(std::in_place_index<1>, PlacesOfC<true>(row), stretch);
    return Draw(std::in_place_index<0>, PlacesOfC<false>(row), stretch);
  }

  PlacesOfC<false> places_;
  Draw draw_;
};

inline RowOfC::Sampler RowOfC::sampler() const {
  // This reads a row of logits, so it must come before the sampler copies the row.
  const Index stretch = known_stretch();
  return Sampler(*this, stretch);
}

/// The matrix that a specdec_rows describes. The numbers and the name must outlive it.
///
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

  RowOfC row(Index i) const {
    i += first_;
    if (rows_.kind == SPECDEC_ONE_HOT) return RowOfC::holding(OneHotRows(tokens_).row(i));
    switch (rows_.scalar) {
      case SPECDEC_FLOAT:
        return rows_.element_stride == 1 ? row_of<float, 1>(i) : row_of<float>(i);
      case SPECDEC_DOUBLE:
        return rows_.element_stride == 1 ? row_of<double, 1>(i) : row_of<double>(i);
      case SPECDEC_HALF:
        return row_of<Eigen::half>(i);
      default:
        return row_of<Eigen::bfloat16>(i);
    }
  }

  /// Whether all rows are probabilities in floats that lie side by side: rows as floats() returns.
  bool are_floats() const {
    return rows_.kind == SPECDEC_PROBABILITIES && rows_.scalar == SPECDEC_FLOAT && rows_.element_stride == 1;
  }
  DenseRow<float> floats(Index i) const { return DenseRow<float>(numbers_of<float, 1>(first_ + i)); }

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
    if (rows_.kind != SPECDEC_PROBABILITIES || i >= count_ || x < 0) return;
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

  template <class S, int Stride = Eigen::Dynamic>
  RowOfC row_of(Index i) const {
    if (rows_.kind == SPECDEC_LISTS) {
      if constexpr (std::floating_point<S>) return list<S>(i);
    }
    const auto numbers = numbers_of<S, Stride>(i);
    if (rows_.kind == SPECDEC_PROBABILITIES) return RowOfC::holding(DenseRow<S, Stride>(numbers));
    if (rows_.kind == SPECDEC_GREEDY_LOGITS) return RowOfC::holding(LogitsRow<S, Stride>(numbers, 0.0));
    if (rows_.log_sum_exp == nullptr)
      return RowOfC::holding(LogitsRow<S, Stride>(numbers, rows_.temperature));
    return RowOfC::holding(LogitsRow<S, Stride>(numbers, rows_.temperature, LogSumExp{rows_.log_sum_exp[i]}));
  }

  // An id out of order would not be found, and a list that a cut left without renormalising has another law: the text would be
  // biased without a word. So all ids and the sum are checked.
  template <class S>
  RowOfC list(Index i) const {
    const Index first = rows_.offsets[i];
    const auto size = static_cast<std::size_t>(rows_.offsets[i + 1] - first);
    const SparseRow<S> row(std::span<const Token>(rows_.ids + first, size),
                           std::span<const S>(static_cast<const S*>(rows_.data) + first, size),
                           rows_.vocab_size);
    check_list(row);
    check_sum(row, "renormalise them after a cut");
    return RowOfC::holding(row);
  }

  const char* name_;
  specdec_rows rows_ = {};
  TokenIds tokens_;
  Index first_ = 0, count_ = 0;
};

/// Rows for which are_floats() holds, as a matrix of one kind of rows. The RowsOfC must outlive it.
class FloatsOfC {
 public:
  explicit FloatsOfC(const RowsOfC& rows) : rows_(&rows) {}
  Index rows() const { return rows_->rows(); }
  Index vocab_size() const { return rows_->vocab_size(); }
  DenseRow<float> row(Index i) const { return rows_->floats(i); }

 private:
  const RowsOfC* rows_;
};

}  // namespace specdec::detail

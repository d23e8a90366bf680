// The rows of several calls of a model, as if one call had returned them.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// Copies the rows of several calls, which return an Output each. Even stable rows are copied: they live until their
/// positions are truncated away, and that may happen before the next call. No allocation in steady state.
template <class Output>
class GatheredRows {
  using Row = RowOf<decltype(distributions(std::declval<const Output&>()))>;
  using Rows = StoredRows<Row, false>;
  using Stored = typename Rows::Stored;

 public:
  /// Forgets all rows and makes room for `count` new ones.
  void begin(Index count, Index vocab_size) {
    vocab_size_ = vocab_size;
    rows_.clear();
    places_.resize(static_cast<std::size_t>(count));
    gathered_.reserve(places_.size());
  }

  /// The rows that a call returned, for put(). The output must outlive them.
  /// Throws: std::invalid_argument unless there are `count` rows over the vocabulary.
  auto checked(const Output& output, Index count) const {
    const auto rows = distributions(output);
    check_shape("model", rows.rows(), row_size(rows), count, vocab_size_);
    return rows;
  }

  /// Copies row i of `rows`: it becomes row number `place`.
  template <class Matrix>
  void put(Index place, const Matrix& rows, Index i) {
    places_[static_cast<std::size_t>(place)] = rows_.size();
    const auto row = rows.row(i);
    rows_.add(NamedRow(row, "model", i));
  }

  /// All rows. Each must have been put in its place. They live until begin().
  RowSpan<Stored> all() & {
    gathered_.clear();
    for (const Index k : places_) gathered_.push_back(rows_[k]);
    return {gathered_, vocab_size_};
  }

 private:
  Rows rows_;                  // in the order of the calls
  std::vector<Index> places_;  // the index in rows_ of each row
  std::vector<Stored> gathered_;
  Index vocab_size_ = 0;
};

/// For models that return numbers, probabilities or logits: copies them in the type in which they are stored.
template <NumberMatrix Output>
class GatheredRows<Output> {
  using Stored = typename std::remove_cvref_t<decltype(std::declval<NumbersOf<Output>&>().row(0))>::Stored;

 public:
  void begin(Index count, Index vocab_size) {
    count_ = count;
    if (rows_.rows() < count || rows_.cols() != vocab_size) rows_.resize(count, vocab_size);
  }

  auto checked(const Output& output, Index count) const {
    const auto rows = numbers(output);
    check_shape("model", rows.rows(), rows.rows() > 0 ? rows.cols() : 0, count, rows_.cols());
    return rows;
  }

  template <class Matrix>
  void put(Index place, const Matrix& rows, Index i) {
    rows.row(i).copy_to(rows_.row(place).data());
  }

  auto all() & { return std::as_const(rows_).topRows(count_); }

 private:
  Eigen::Matrix<Stored, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows_;
  Index count_ = 0;
};

}  // namespace specdec::detail

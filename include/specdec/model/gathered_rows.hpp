// What several calls of a model return, as if one had.
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

/// Copies of the rows of several calls, each of which returns an Output. Always copies: rows that a model calls stable live
/// until their positions are truncated away, which the next call may do. No allocation in steady state.
template <class Output>
class GatheredRows {
  using Row = RowOf<decltype(distributions(std::declval<const Output&>()))>;
  using Rows = StoredRows<Row, false>;
  using Stored = typename Rows::Stored;

 public:
  /// Forgets what there was; room for so many rows.
  void begin(Index count, Index vocab_size) {
    vocab_size_ = vocab_size;
    rows_.clear();
    places_.resize(static_cast<std::size_t>(count));
    gathered_.reserve(places_.size());
  }

  /// The rows that a call returned, as put() takes them. The output must outlive them.
  /// Throws: std::invalid_argument where they are not so many rows over the vocabulary.
  auto checked(const Output& output, Index count) const {
    const auto rows = distributions(output);
    check_shape("model", rows.rows(), row_size(rows), count, vocab_size_);
    return rows;
  }

  /// Row i of them becomes row number `place` of all.
  template <class Matrix>
  void put(Index place, const Matrix& rows, Index i) {
    places_[static_cast<std::size_t>(place)] = rows_.size();
    const auto row = rows.row(i);
    rows_.add(NamedRow(row, "model", i));
  }

  /// All rows, once each has been put in its place. They live until begin().
  RowSpan<Stored> all() & {
    gathered_.clear();
    for (const Index k : places_) gathered_.push_back(rows_[k]);
    return {gathered_, vocab_size_};
  }

 private:
  Rows rows_;                  // in the order of the calls
  std::vector<Index> places_;  // where among them each row is
  std::vector<Stored> gathered_;
  Index vocab_size_ = 0;
};

/// Numbers stay numbers, be they probabilities or logits, as they are stored.
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

// Rows that have to outlive the model's next call.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <iterator>
#include <type_traits>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_copy.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/numbers.hpp"

namespace specdec::inline v0_2_0 {

/// A list of rows that stay valid: copies of the rows, or the rows themselves if they are `stable`. The rows are distributions
/// or plain numbers. No allocation in steady state.
template <class Row, bool stable>
class StoredRows {
 public:
  using Stored = std::conditional_t<stable, Row, typename RowCopy<Row>::View>;
  using Matrix = std::conditional_t<Distribution<Stored>, RowSpan<Stored>, detail::NumberRows<Stored>>;

  StoredRows() = default;
  /// A copy begins empty: its views would point into memory of the other.
  StoredRows(const StoredRows&) {}
  StoredRows& operator=(const StoredRows&) {
    clear();
    return *this;
  }
  StoredRows(StoredRows&&) noexcept = default;
  StoredRows& operator=(StoredRows&&) noexcept = default;
  ~StoredRows() = default;

  void clear() {
    rows_.clear();
    numbers_.clear();
  }

  void add(const Row& row) {
    if constexpr (stable) {
      rows_.push_back(row);
    } else {
      if (copies_.size() == rows_.size()) copies_.emplace_back();
      rows_.push_back(copies_[rows_.size()].assign(row));
    }
  }

  /// Errors during the copy get the row's name.
  template <std::same_as<Row> R>
  void add(const detail::NamedRow<R>& row) {
    row.named([&] { add(row.unnamed()); });
  }

  /// Adds a row for in_places(), where it is row number `place`.
  void add(const Row& row, Index place) {
    if (place >= std::ssize(numbers_)) detail::resize(numbers_, place + 1);
    detail::at(numbers_, place) = size();
    add(row);
  }

  /// Adds a row of this size in which all tokens are equally likely. False if this is not possible for rows of this type.
  bool add_uniform([[maybe_unused]] const Row& like) {
    if constexpr (detail::MakesUniform<RowCopy<Row>, Row, Stored>) {
      while (copies_.size() <= rows_.size()) copies_.emplace_back();
      rows_.push_back(copies_[rows_.size()].uniform(like));
      return true;
    }
    return false;
  }

  Index size() const { return std::ssize(rows_); }
  const Stored& operator[](Index i) const& { return detail::at(rows_, i); }

  /// The first `count` rows as a matrix, which lives until the next add() or clear().
  Matrix first(Index count, Index vocab_size) const& { return {detail::first(rows_, count), vocab_size}; }
  const Stored& operator[](Index i) const&& = delete;
  void first(Index count, Index vocab_size) const&& = delete;

  /// All rows as a matrix, each in its place, until the next add() or clear(). Pre: each was added with a place, none is missing.
  Matrix in_places(Index vocab_size) & {
    in_places_.clear();
    for (const Index k : numbers_) in_places_.push_back(detail::at(rows_, k));
    return {in_places_, vocab_size};
  }

 private:
  std::vector<RowCopy<Row>> copies_;  // unless stable: rows_ are views of these
  std::vector<Stored> rows_;
  std::vector<Index> numbers_;  // of the rows, by their places
  std::vector<Stored> in_places_;
};

namespace detail {

/// The rows of a matrix, which must outlive them, as they lie: numbers in memory, which may be logits, or else distributions.
template <Probabilities M>
auto rows_as_stored(const M& matrix) {
  if constexpr (NumberMatrix<M>) return numbers(matrix);
  else return distributions(matrix);
}

/// The type of these rows.
template <Probabilities M>
using RowAsStored = RowOf<decltype(rows_as_stored(std::declval<const M&>()))>;

}  // namespace detail
}  // namespace specdec

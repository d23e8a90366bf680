// A matrix put together from rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <span>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"

namespace specdec::inline v0_2_0 {

/// A list of rows of one type as a matrix: row(i) is rows[i]. Use it for sparse rows, and for rows with a temperature each.
/// The rows must outlive it; a temporary container of rows is refused.
/// Throws: InvalidArgument if the vocabulary of a row is larger than vocab_size.
template <class Row>
class RowSpan {
  static_assert(Distribution<Row>, "the row is no specdec::Distribution");

 public:
  RowSpan(std::span<const Row> rows, Index vocab_size) : rows_(rows), vocab_size_(vocab_size) {
    for (Index i = 0; i < this->rows(); ++i)
      if (row(i).vocab_size() > vocab_size)
        detail::invalid_argument("rows[", i, "] is over ", row(i).vocab_size(),
                                 " tokens, more than vocab_size = ", vocab_size);
  }
  template <detail::OwningTemporary Temporary>
  RowSpan(Temporary&& rows, Index vocab_size) = delete;

  Index rows() const { return std::ssize(rows_); }
  Index vocab_size() const { return vocab_size_; }
  const Row& row(Index i) const { return detail::at(rows_, i); }

 private:
  std::span<const Row> rows_;
  Index vocab_size_;
};

template <class Rows>
RowSpan(const Rows&, Index) -> RowSpan<typename Rows::value_type>;

namespace detail {

/// A list of NumberRows of `cols` numbers each, as a matrix. The rows must outlive it.
template <class Row>
class NumberRows {
 public:
  NumberRows(std::span<const Row> rows, Index cols) : rows_(rows), cols_(cols) {}

  static constexpr bool lists_numbers = true;

  Index rows() const { return std::ssize(rows_); }
  Index cols() const { return cols_; }
  Row row(Index i) const { return detail::at(rows_, i); }

 private:
  std::span<const Row> rows_;
  Index cols_;
};

}  // namespace detail
}  // namespace specdec

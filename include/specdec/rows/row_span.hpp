// A matrix put together from rows.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>

#include "specdec/rows/distribution.hpp"

namespace specdec {

/// Rows of any one kind as a matrix: row(i) is rows[i]. What sparse rows are passed as, and rows that differ
/// in more than their numbers (a temperature each, say). The rows must outlive it.
template <Distribution Row>
class RowSpan {
 public:
  RowSpan(std::span<const Row> rows, Index vocab_size) : rows_(rows), vocab_size_(vocab_size) {}

  Index rows() const { return std::ssize(rows_); }
  Index vocab_size() const { return vocab_size_; }
  const Row& row(Index i) const { return rows_[static_cast<std::size_t>(i)]; }

 private:
  std::span<const Row> rows_;
  Index vocab_size_;
};

template <class Rows>
RowSpan(const Rows&, Index) -> RowSpan<typename Rows::value_type>;

}  // namespace specdec

// Rows that have to outlive the model's next call.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/row_copy.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/named_row.hpp"

namespace specdec {

/// A list of rows that stay valid: copies of the rows, or the rows themselves if they are `stable`. No allocation in steady
/// state.
template <Distribution Row, bool stable>
class StoredRows {
 public:
  using Stored = std::conditional_t<stable, Row, typename RowCopy<Row>::View>;

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

  void clear() { rows_.clear(); }

  void add(const Row& row) {
    if constexpr (stable) {
      rows_.push_back(row);
    } else {
      if (copies_.size() == rows_.size()) copies_.emplace_back();
      rows_.push_back(copies_[rows_.size()].assign(row));
    }
  }

  /// Errors during the copy get the row's name.
  void add(const detail::NamedRow<Row>& row) {
    row.named([&] { add(row.unnamed()); });
  }

  /// Adds a row of this size in which all tokens are equally likely. False if this is not possible for rows of this type.
  bool add_uniform([[maybe_unused]] const Row& like) {
    if constexpr (requires(RowCopy<Row>& copy) {
                    { copy.uniform(like) } -> std::same_as<Stored>;
                  }) {
      while (copies_.size() <= rows_.size()) copies_.emplace_back();
      rows_.push_back(copies_[rows_.size()].uniform(like));
      return true;
    } else {
      return false;
    }
  }

  Index size() const { return std::ssize(rows_); }
  const Stored& operator[](Index i) const& { return rows_[static_cast<std::size_t>(i)]; }

  /// The first `count` rows as a matrix, which lives until the next add() or clear().
  RowSpan<Stored> first(Index count, Index vocab_size) const& {
    return {std::span<const Stored>(rows_).first(static_cast<std::size_t>(count)), vocab_size};
  }
  const Stored& operator[](Index i) const&& = delete;
  void first(Index count, Index vocab_size) const&& = delete;

 private:
  std::vector<RowCopy<Row>> copies_;  // unless stable: rows_ are views of these
  std::vector<Stored> rows_;
};

}  // namespace specdec

// Rows of numbers given as a range of vectors.
// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <span>  // and std::ranges::contiguous_range: <ranges> takes a while to compile

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Rows given as a range of vectors (or of arrays, spans or other contiguous ranges of numbers): row i is rows[i]. Every
/// function that takes an Eigen matrix takes RowVectors. The rows must outlive it; a temporary container of rows is refused.
///
///   std::vector<std::vector<float>> target, draft;
///   verifier(RowVectors{target}, RowVectors{draft}, tokens, rng)
///
/// Throws: InvalidArgument if the rows differ in length.
/// Cost: one check of each row's length.
template <std::ranges::contiguous_range Row>
  requires std::ranges::sized_range<const Row> && Real<std::ranges::range_value_t<Row>>
class RowVectors {
  using S = std::ranges::range_value_t<Row>;

 public:
  explicit RowVectors(std::span<const Row> rows)
      : rows_(rows), cols_(rows.empty() ? 0 : length(rows.front())) {
    for (Index i = 0; i < this->rows(); ++i)
      if (length(at(i)) != cols_)
        detail::invalid_argument("rows[", i, "] has ", length(at(i)), " numbers, but rows[0] has ", cols_);
  }
  template <detail::OwningTemporary Temporary>
  explicit RowVectors(Temporary&& rows) = delete;

  static constexpr bool lists_numbers = true;  ///< see NumberMatrix

  Index rows() const { return std::ssize(rows_); }
  Index cols() const { return cols_; }
  NumberRow<S> row(Index i) const { return {std::ranges::data(at(i)), cols_}; }

 private:
  static Index length(const Row& row) { return static_cast<Index>(std::ranges::size(row)); }
  const Row& at(Index i) const { return detail::at(rows_, i); }

  std::span<const Row> rows_;
  Index cols_;
};

template <std::ranges::contiguous_range Rows>
RowVectors(const Rows&) -> RowVectors<std::ranges::range_value_t<Rows>>;

}  // namespace specdec

// A range of rows of a matrix, as a matrix.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A view of `count` rows of a matrix from row `first` on: the rows of one sequence in the matrix of a batch, for example.
/// Throws: InvalidArgument if the matrix does not have these rows.
template <DistributionMatrix M>
class RowRange {
 public:
  RowRange(const M& matrix, Index first, Index count) : matrix_(matrix), first_(first), count_(count) {
    if (first < 0 || count < 0 || count > matrix.rows() - first)
      detail::invalid_argument("rows ", first, "..", first + count - 1, " are asked for of a matrix of ",
                               Index{matrix.rows()});
  }

  Index rows() const { return count_; }
  Index vocab_size() const
    requires has_vocab_size<M>
  {
    return matrix_.vocab_size();
  }
  decltype(auto) row(Index i) const { return matrix_.row(first_ + i); }

  /// Writes the probability of tokens[i] in row i, for all i in one call. For matrices that can do this from any first row.
  void probabilities(TokenIds tokens, std::span<double> out) const
    requires detail::LooksUpFromAnyRow<M>
  {
    matrix_.probabilities(tokens, out, first_);
  }

 private:
  M matrix_;
  Index first_, count_;
};

}  // namespace specdec

// Some rows of a matrix as a matrix.
#pragma once

#include <span>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// `count` rows of a matrix from row `first` on: a sequence's own of what many have in one. A view as the matrix is one.
///
/// Throws: std::invalid_argument where the matrix does not have them.
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

  /// The probability of tokens[i] in row i, all together, where the matrix looks tokens up from any row on.
  void probabilities(TokenIds tokens, std::span<double> out) const
    requires requires(const M& matrix, Index first) { matrix.probabilities(tokens, out, first); }
  {
    matrix_.probabilities(tokens, out, first_);
  }

 private:
  M matrix_;
  Index first_, count_;
};

}  // namespace specdec

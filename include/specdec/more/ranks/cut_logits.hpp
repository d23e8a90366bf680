// Rows of logits without the tokens below a cut.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <vector>

#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The result of the sampling steps for each row: a temperature, a cut (tokens with lower logits are gone), or an error. It
/// is equal on all ranks.
struct RowsLeft {
  std::vector<double> temperatures, cuts;
  std::vector<double> cuts_before;  // of each MinKeep that is under way: the cuts at its beginning
  std::vector<Index> dead_ends;     // 1 for a row that is known to have no finite logit; else 0
  std::vector<std::exception_ptr> errors;
};

}  // namespace detail

/// A matrix of logits as a DistributionMatrix. Tokens with a logit below the row's cut have probability 0. Asking for a row
/// throws the row's error, if it has one. The logits and `left` must outlive the object.
template <class Numbers>
class CutLogits {
 public:
  CutLogits(const Numbers& logits, const detail::RowsLeft& left) : logits_(logits), left_(&left) {}

  Index rows() const { return logits_.rows(); }
  Index vocab_size() const { return logits_.cols(); }
  auto row(Index i) const {
    detail::rethrow_error_of(left_->errors, i);
    using Row = decltype(LogitsRow(logits_.row(i)));
    return LogitsRow(logits_.row(i), detail::at(left_->temperatures, i),
                     static_cast<typename Row::Scalar>(detail::at(left_->cuts, i)));
  }

 private:
  Numbers logits_;
  const detail::RowsLeft* left_;
};

}  // namespace specdec

// The logits that one rank has computed.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <span>
#include <utility>

#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The columns of tokens first, first + 1, ... of a matrix of logits. A model that is spread over ranks returns it.
///
///   return specdec::LogitColumns{logits_, first_};
///
/// If this rank could not make row i, errors[i] is the exception. row(i) throws it, and the row fails on all ranks.
/// The matrix and the errors must outlive this; a temporary that owns its entries does not compile.
template <class Numbers>
class LogitColumns {
 public:
  /// For ProcessedModel: what a row that is changed in place is handed out as.
  using RowToChange = PartialLogits<typename decltype(std::declval<const Numbers&>().row(0))::Scalar>;

  template <NumberMatrix M>
    requires(!detail::OwningTemporary<M>)
  LogitColumns(M&& logits, Index first, std::span<const std::exception_ptr> errors = {})
      : logits_(numbers(std::as_const(logits))), first_(first), errors_(errors) {}
  template <NumberMatrix M>
    requires detail::OwningTemporary<M>
  LogitColumns(M&& logits, Index first, std::span<const std::exception_ptr> errors = {}) = delete;

  Index rows() const { return logits_.rows(); }
  Index cols() const { return logits_.cols(); }
  Index first() const { return first_; }
  auto row(Index i) const {
    detail::rethrow_error_of(errors_, i);
    return logits_.row(i);
  }
  /// These columns after a change, and the errors of the change.
  template <NumberMatrix M>
  auto changed(M&& logits, std::span<const std::exception_ptr> errors) const {
    return specdec::LogitColumns(std::forward<M>(logits), first_, errors);
  }

 private:
  Numbers logits_;
  Index first_;
  std::span<const std::exception_ptr> errors_;
};

template <NumberMatrix M>
LogitColumns(M&&, Index) -> LogitColumns<NumbersOf<M>>;
template <NumberMatrix M>
LogitColumns(M&&, Index, std::span<const std::exception_ptr>) -> LogitColumns<NumbersOf<M>>;

}  // namespace specdec

// The logits that one rank has computed.
#pragma once

#include <exception>
#include <span>
#include <utility>

#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Some columns of a matrix of logits: those of tokens first, first + 1, ... What a model returns that is spread over ranks.
///
///   return specdec::LogitColumns{logits_, first_};
///
/// errors[i], if there is one, is thrown where row i is asked for, which this rank could not make: so it fails on all ranks.
/// The matrix and the errors must outlive it; a temporary that owns its entries is refused.
template <class Numbers>
class LogitColumns {
 public:
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

 private:
  Numbers logits_;
  Index first_;
  std::span<const std::exception_ptr> errors_;
};

template <NumberMatrix M>
LogitColumns(M&&, Index) -> LogitColumns<NumbersOf<M>>;
template <NumberMatrix M>
LogitColumns(M&&, Index, std::span<const std::exception_ptr>) -> LogitColumns<NumbersOf<M>>;

namespace detail {
template <class T>
inline constexpr bool is_logit_columns = false;
template <class Numbers>
inline constexpr bool is_logit_columns<LogitColumns<Numbers>> = true;
}  // namespace detail

}  // namespace specdec

// The logits that one rank has computed.
#pragma once

#include <utility>

#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Some columns of a matrix of logits: those of tokens first, first + 1, ... What a model returns that is spread over ranks.
///
///   return specdec::LogitColumns{logits_, first_};
///
/// The matrix must outlive it; a temporary that owns its entries is refused.
template <class Numbers>
class LogitColumns {
 public:
  template <NumberMatrix M>
    requires(!detail::OwningTemporary<M>)
  LogitColumns(M&& logits, Index first) : logits_(numbers(std::as_const(logits))), first_(first) {}
  template <NumberMatrix M>
    requires detail::OwningTemporary<M>
  LogitColumns(M&& logits, Index first) = delete;

  const Numbers& logits() const { return logits_; }
  Index first() const { return first_; }

 private:
  Numbers logits_;
  Index first_;
};

template <NumberMatrix M>
LogitColumns(M&&, Index) -> LogitColumns<NumbersOf<M>>;

namespace detail {
template <class T>
inline constexpr bool is_logit_columns = false;
template <class Numbers>
inline constexpr bool is_logit_columns<LogitColumns<Numbers>> = true;
}  // namespace detail

}  // namespace specdec

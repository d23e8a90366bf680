// Some columns of a row of logits, for processors and hooks over ranks; and what processors do to a logit.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include "specdec/eigen.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The logits of tokens first(), first() + 1, ... of a row. Other ranks have the other columns of the row. A processor or a
/// hook is handed a PartialLogits in place of an Eigen::Ref if the model returns LogitColumns:
///
///   void apply(specdec::PartialLogits<float> logits) const {
///     if (float* const logit = logits.find(eos)) *logit = -infinity;    // null on the ranks that do not have it
///   }
///
/// A view: the logits must outlive it.
template <std::floating_point S>
class PartialLogits {
 public:
  using Scalar = S;
  using Columns = Eigen::Matrix<S, 1, Eigen::Dynamic>;

  PartialLogits(Eigen::Ref<Columns> columns, Index first, Index vocab_size)
      : logits_(columns.data()), size_(columns.size()), first_(first), vocab_size_(vocab_size) {}

  /// The number of tokens of the whole row.
  Index vocab_size() const { return vocab_size_; }
  Index first() const { return first_; }
  /// columns()[k] is the logit of token first() + k.
  Eigen::Map<Columns> columns() const { return {logits_, size_}; }
  /// The logit of a token; null if the token is not in these columns.
  S* find(Token x) const {
    const Index k = x - first_;
    return k >= 0 && k < size_ ? logits_ + k : nullptr;
  }

 private:
  S* logits_;
  Index size_, first_, vocab_size_;
};

namespace detail {

/// Makes a PartialLogits of a processor's logits, a whole row or some columns: so a processor works on both.
template <class Logits>
auto partial(Logits& logits) {
  using Partial = PartialLogits<typename Logits::Scalar>;
  if constexpr (std::same_as<std::remove_const_t<Logits>, Partial>) return logits;
  else return Partial(logits, 0, logits.size());
}

/// Forbids the token, if it has a logit here.
template <class S>
void forbid(const PartialLogits<S>& row, Token x) {
  if (S* const logit = row.find(x)) *logit = -std::numeric_limits<S>::infinity();
}

/// The finite Scalar that is nearest to x. Not for NaN.
template <class Scalar>
Scalar nearest_finite(double x) {
  using Limits = std::numeric_limits<Scalar>;
  return static_cast<Scalar>(
      std::clamp(x, static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max())));
}

/// Sets a logit to `changed`. If the logit was finite, the result is kept finite.
template <class Scalar>
void change_finite(Scalar& logit, Scalar changed) {
  using Limits = std::numeric_limits<Scalar>;
  logit = std::isfinite(logit) ? std::clamp(changed, Limits::lowest(), Limits::max()) : changed;
}

}  // namespace detail
}  // namespace specdec

// Some columns of a row of logits, for what changes them.
#pragma once

#include <Eigen/Core>
#include <concepts>
#include <type_traits>

#include "specdec/types.hpp"

namespace specdec {

/// The logits of tokens first(), first() + 1, ... of a row whose other columns other ranks have. A processor or a hook is
/// handed them in place of an Eigen::Ref where the model returns LogitColumns:
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

  /// How many tokens the whole row has.
  Index vocab_size() const { return vocab_size_; }
  Index first() const { return first_; }
  /// columns()[k] is the logit of token first() + k.
  Eigen::Map<Columns> columns() const { return {logits_, size_}; }
  /// The logit of a token; null where it is not among these.
  S* find(Token x) const {
    const Index k = x - first_;
    return k >= 0 && k < size_ ? logits_ + k : nullptr;
  }

 private:
  S* logits_;
  Index size_, first_, vocab_size_;
};

namespace detail {

/// What a processor is handed, be it some columns of a row or all: a processor that asks this works on both.
template <class Logits>
auto partial(Logits& logits) {
  using Partial = PartialLogits<typename Logits::Scalar>;
  if constexpr (std::same_as<std::remove_const_t<Logits>, Partial>) return logits;
  else return Partial(logits, 0, logits.size());
}

}  // namespace detail

}  // namespace specdec

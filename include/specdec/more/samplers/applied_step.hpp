// A sampling step as a processor: for samplers in any order.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// What a sampler that needs whole rows is given. Over ranks a processor gets a PartialLogits, which has a part of a row. What
/// works over ranks: the steps in the chain of a ShardedModel (see ChainOverRanks), and processors that look at single tokens.
template <class Logits>
concept WholeRow = requires(std::remove_cvref_t<Logits>& logits) { logits.data(); };

/// Writes into the logits what a step makes of them: removed tokens get −inf, the others are divided by the temperature.
/// So a processor after it sees only the tokens that are left.
///
/// A row without a finite largest logit is not changed: a draw from it throws InvalidDistribution.
/// Numeric: a temperature also shifts the logits such that the largest is 0. So dividing cannot make it infinite.
/// Cost: that of the step, and two passes over the row.
template <RowStep Step>
class AppliedStep {
 public:
  AppliedStep(Step step) : step_(std::move(step)) {}

  template <WholeRow Logits>
  void apply(Logits&& logits) const {
    using Scalar = typename std::remove_cvref_t<Logits>::Scalar;
    constexpr Scalar none = -std::numeric_limits<Scalar>::infinity();
    const NumberRow<Scalar> numbers(logits.data(), logits.size());
    const Scalar largest = numbers.max(0, numbers.size());
    if (!std::isfinite(largest)) return;
    const LogitsRow<Scalar> left = step_(LogitsRow<Scalar>(numbers));
    const Scalar cut = left.cut(), factor = left.inverse_temperature();
    const Index best = left.is_argmax() ? Index{left.argmax()} : Index{-1};
    const bool tempered = left.temperature() != 1;
    for (Index x = 0; x < numbers.size(); ++x) {
      Scalar& l = logits[x];
      if (best >= 0) l = x == best ? l : none;
      else if (l < cut) l = none;
      else if (tempered) l = (l - largest) * factor;
    }
  }
  void push(Token) {}
  void pop(Index) {}

 private:
  Step step_;
};

}  // namespace specdec::detail

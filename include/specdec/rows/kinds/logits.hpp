// Matrices of logits as distributions.
// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <limits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"

namespace specdec::inline v0_2_0 {

/// How logits become probabilities.
struct LogitsOptions {
  double temperature = 1;  ///< at 0 the largest logit has probability 1; among equals, the lowest id
  detail::BorrowedSpan<const double> log_sum_exp =
      {};  ///< log Σ exp(logits/temperature), one per row, if you know them
};

/// A matrix of logits as a DistributionMatrix of softmax(logits / temperature). Nothing is computed before it is needed, and
/// an unused row is never read. The logits must outlive it, and so must log_sum_exp.
///
///   verifier(Logits{target, {.temperature = 0.8}}, Logits{draft, {.temperature = 0.8}}, tokens, rng)
///
/// Throws: InvalidArgument if the temperature is negative or not finite, or if log_sum_exp is given for more or fewer rows.
template <class Numbers>
class Logits {
 public:
  template <NumberMatrix M>
    requires(!detail::OwningTemporary<M>)
  explicit Logits(M&& logits, const LogitsOptions& options = {})
      : numbers_(numbers(std::forward<M>(logits))), options_(options) {
    if (!(options.temperature >= 0 && options.temperature <= std::numeric_limits<double>::max()))
      detail::invalid_argument("temperature = ", options.temperature, " is not a finite number >= 0");
    if (!options.log_sum_exp.empty() && std::ssize(options.log_sum_exp) != rows())
      detail::invalid_argument("log_sum_exp has ", options.log_sum_exp.size(), " entries for ", rows(),
                               " rows of logits");
  }
  template <NumberMatrix Temporary>
    requires detail::OwningTemporary<Temporary>
  explicit Logits(Temporary&& logits, const LogitsOptions& options = {}) = delete;
  /// An expression that is not evaluated: a compile error that says so.
  template <detail::ComputedExpression M>
  explicit Logits(const M& logits, const LogitsOptions& options = {});

  Index rows() const { return numbers_.rows(); }
  Index vocab_size() const { return numbers_.cols(); }

  auto row(Index i) const {
    if (options_.log_sum_exp.empty()) return LogitsRow(numbers_.row(i), options_.temperature);
    return LogitsRow(numbers_.row(i), options_.temperature, LogSumExp{detail::at(options_.log_sum_exp, i)});
  }

 private:
  Numbers numbers_;
  LogitsOptions options_;
};

template <NumberMatrix M>
Logits(M&&, const LogitsOptions& = {}) -> Logits<NumbersOf<M>>;
template <detail::ComputedExpression M>
Logits(const M&, const LogitsOptions& = {}) -> Logits<detail::NumbersOnceEvaluated<M>>;

}  // namespace specdec

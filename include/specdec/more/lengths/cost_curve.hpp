// The cost of a model call as a function of its number of tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The numbers from low to high: a confidence interval, or all that a number can be by what is known.
struct Interval {
  double low = 0;
  double high = 1;
};

/// A mean of values that lose weight over time. Call fade() once per step, before you add the values of the step.
class FadingMean {
 public:
  void fade(double decay) {
    sum_ *= decay;
    weight_ *= decay;
  }
  void add(double value) { add(value, 1); }
  /// Adds values of this sum and this weight.
  void add(double sum, double weight) {
    sum_ += sum;
    weight_ += weight;
  }
  /// Adds a value to values that lose weight with it.
  void add_fading(double value, double decay) {
    fade(decay);
    add(value);
  }
  void add(const FadingMean& other) { add(other.sum_, other.weight_); }
  /// Lowers the weight of all values so far to at most `values` fresh values.
  void limit(double values) {
    if (weight_ > values) fade(values / weight_);
  }

  bool empty() const { return weight_ == 0; }
  /// The weight of all values so far, in fresh values.
  double weight() const { return weight_; }
  double value() const { return sum_ / weight_; }
  /// The mean with a guess added `weight` times.
  double with(double guess, double weight) const { return (sum_ + weight * guess) / (weight_ + weight); }

 private:
  double sum_ = 0, weight_ = 0;
};

namespace detail {

/// The fraction of a weight that is left after a step. Throws unless it is within [0, 1].
inline double checked_decay(double decay) {
  if (!(decay >= 0 && decay <= 1)) invalid_argument("decay = ", decay, " is outside [0, 1]");
  return decay;
}

/// The decay after which a step is mostly forgotten in `window` steps.
inline double decay_of(double window) {
  if (!(window >= 1)) invalid_argument("window = ", window, " is below 1");
  return 1 - 1 / window;
}

}  // namespace detail

/// Measured costs by size, with an estimate for all other sizes.
///
/// A size is estimated if it was never measured, or if its weight has faded because it was measured long ago. Between two
/// known sizes the estimate lies on the line between them. Outside it lies on the line through the nearest two, within two
/// bounds: a larger call does not cost less than a smaller one, and a smaller call does not cost less per token than the
/// smallest known one. A line through two sizes may be far off: bounds() says what follows from these two rules alone.
///
/// Outliers (say, another process had the processor) are damped. A cost counts as at most twice the mean, so a real rise is
/// followed within some steps. A cost below half the mean replaces the mean: then the mean was the outlier.
/// Throws: InvalidArgument unless 0 <= decay <= 1; if a size is negative; if a size that needs memory is above
/// largest_size; if a cost is negative, infinite or NaN.
class CostCurve {
 public:
  CostCurve() = default;
  /// `decay` is the fraction of a cost's weight that is left after another cost is added; 1, the default, forgets nothing.
  explicit CostCurve(double decay) : decay_(detail::checked_decay(decay)) {}

  /// Sets the decay from now on.
  void decay(double decay) { decay_ = detail::checked_decay(decay); }

  /// The largest size that a cost can be added for.
  static constexpr Index largest_size = std::numeric_limits<std::int32_t>::max();

  /// Allocates memory for sizes up to `largest`. Changes no value.
  void reserve(Index largest) {
    check_kept("largest", largest);
    detail::reserve(means_, largest + 1);
  }

  /// Adds a measured cost. Allocates nothing after reserve(size).
  void add(Index size, double cost) {
    check_kept("size", size);
    if (!(cost >= 0 && std::isfinite(cost)))
      detail::invalid_argument("cost = ", cost, " of size ", size, " is no finite number >= 0");
    if (std::ssize(means_) <= size) detail::resize(means_, size + 1);
    for (FadingMean& other : means_) other.fade(decay_);
    FadingMean& mean = detail::at(means_, size);
    if (!known(size) || cost < mean.value() / 2) mean = {};
    mean.add(mean.empty() ? cost : std::min(cost, 2 * mean.value()));
  }

  /// Adds all measurements of another curve, with their weights.
  CostCurve& operator+=(const CostCurve& other) {
    means_.resize(std::max(means_.size(), other.means_.size()));
    for (std::size_t i = 0; i < other.means_.size(); ++i) means_[i].add(other.means_[i]);
    return *this;
  }

  /// A copy without the sizes whose costs weigh less than `costs` fresh ones.
  CostCurve without_rare(double costs) const {
    CostCurve kept = *this;
    for (FadingMean& mean : kept.means_)
      if (mean.weight() < costs) mean = {};
    return kept;
  }

  /// Whether costs of exactly this size were added and have not faded away.
  bool measured(Index size) const { return size >= 0 && size < sizes() && known(size); }
  /// One more than the largest size with an added cost.
  Index sizes() const { return std::ssize(means_); }

  /// The cost of a call of this size, in the unit of the added costs; 0 if nothing is known.
  double operator()(Index size) const {
    check_size("size", size);
    if (measured(size)) return value(size);
    const Index below = last_known(size), above = first_known(size);
    if (below < 0 && above < 0) return 0;
    if (below < 0) return before_all(size, above);
    if (above >= 0) return on_line(below, above, size);
    const Index before = last_known(below);
    return before < 0 ? value(below) : std::max(value(below), on_line(before, below, size));
  }

  /// What the cost of a call of this size can be: its mean, if that is measured. Else what the nearest measured sizes leave open,
  /// if a larger call costs no less than a smaller one, and no more per token. From 0 to infinity if nothing is known.
  Interval bounds(Index size) const {
    check_size("size", size);
    if (measured(size)) return {value(size), value(size)};
    const Index below = last_known(size), above = first_known(size);
    Interval out{0, std::numeric_limits<double>::infinity()};
    if (below >= 0) out.low = value(below);
    if (below > 0) out.high = per_token(below, size);
    if (above >= 0) {
      out.low = std::max(out.low, per_token(above, size));
      out.high = std::min(out.high, value(above));
    }
    return {std::min(out.low, out.high), std::max(out.low, out.high)};
  }

 private:
  static constexpr double faded = 0.1;

  static void check_size(const char* name, Index size) {
    if (size < 0) detail::invalid_argument(name, " = ", size, " is negative");
  }
  static void check_kept(const char* name, Index size) {
    check_size(name, size);
    if (size > largest_size)
      detail::invalid_argument(name, " = ", size, " is more than ", largest_size, ", the largest size");
  }

  bool known(Index size) const { return detail::at(means_, size).weight() > faded; }
  double value(Index size) const { return detail::at(means_, size).value(); }

  // The cost of `size` tokens, each at the price of a token of the known size.
  double per_token(Index known, Index size) const {
    return value(known) * static_cast<double>(size) / static_cast<double>(known);
  }

  // The nearest known size below or above; −1 where there is none.
  Index last_known(Index size) const {
    Index i = std::min(size, std::ssize(means_)) - 1;
    while (i >= 0 && !known(i)) --i;
    return i;
  }
  Index first_known(Index size) const {
    for (Index i = std::min(size, sizes()) + 1; i < sizes(); ++i)
      if (known(i)) return i;
    return -1;
  }

  double before_all(Index size, Index above) const {
    const Index next = first_known(above);
    if (next < 0) return value(above);
    return std::clamp(on_line(above, next, size), per_token(above, size), value(above));
  }

  double on_line(Index a, Index b, Index size) const {
    const double share = static_cast<double>(size - a) / static_cast<double>(b - a);
    return (1 - share) * value(a) + share * value(b);
  }

  double decay_ = 1;
  std::vector<FadingMean> means_;
};

}  // namespace specdec

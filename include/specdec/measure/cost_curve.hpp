// What a call costs, as a function of how many tokens it takes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A mean whose values lose weight: fade() once a step, before what the step adds.
class FadingMean {
 public:
  void fade(double decay) {
    sum_ *= decay;
    weight_ *= decay;
  }
  void add(double value) {
    sum_ += value;
    weight_ += 1;
  }
  void add(const FadingMean& other) {
    sum_ += other.sum_;
    weight_ += other.weight_;
  }
  /// From now on, what was seen so far counts as `values` values at most.
  void limit(double values) {
    if (weight_ > values) fade(values / weight_);
  }

  bool empty() const { return weight_ == 0; }
  /// How many fresh values it is worth.
  double weight() const { return weight_; }
  double value() const { return sum_ / weight_; }
  /// The value when a guess joins in as if it had been seen `weight` times.
  double with(double guess, double weight) const { return (sum_ + weight * guess) / (weight_ + weight); }

 private:
  double sum_ = 0, weight_ = 0;
};

namespace detail {

/// What is left of a weight after a step.
inline double checked_decay(double decay) {
  if (!(decay >= 0 && decay <= 1)) invalid_argument("decay = ", decay, " is outside [0, 1]");
  return decay;
}

}  // namespace detail

/// Measured costs by size. Sizes that have not been measured, or not for so long that it has faded, are
/// guessed: on the line between the nearest two that have or, beyond them, on the line through the nearest two, as far
/// as a larger call does not cost less, nor more for each of its tokens, than a smaller one.
///
/// Outliers (another process had the processor) are held against what is known: a cost counts as twice the
/// mean at most, so that costs that really rise are followed within some steps; and one below half the mean
/// shows that the mean was the outlier.
/// Throws: std::invalid_argument unless 0 <= decay <= 1, on a size that is negative or, where memory would be taken
/// for it, above largest_size, and on a cost that is negative, infinite or NaN.
class CostCurve {
 public:
  /// `decay`: what is left of a cost's weight after another one has been added; 1 forgets nothing.
  explicit CostCurve(double decay = 1) : decay_(detail::checked_decay(decay)) {}

  /// The most tokens of a call that costs are kept of.
  static constexpr Index largest_size = std::numeric_limits<std::int32_t>::max();

  /// Makes room for sizes up to `largest`, without a change to see.
  void reserve(Index largest) {
    check_kept("largest", largest);
    means_.reserve(static_cast<std::size_t>(largest) + 1);
  }

  /// Allocates nothing after reserve(size).
  void add(Index size, double cost) {
    check_kept("size", size);
    if (!(cost >= 0 && std::isfinite(cost)))
      detail::invalid_argument("cost = ", cost, " of size ", size, " is no finite number >= 0");
    if (static_cast<Index>(means_.size()) <= size) means_.resize(static_cast<std::size_t>(size) + 1);
    for (FadingMean& other : means_) other.fade(decay_);
    FadingMean& mean = means_[static_cast<std::size_t>(size)];
    if (!known(size) || cost < mean.value() / 2) mean = {};
    mean.add(mean.empty() ? cost : std::min(cost, 2 * mean.value()));
  }

  /// Enters all that another curve knows, as if it had been added here.
  CostCurve& operator+=(const CostCurve& other) {
    means_.resize(std::max(means_.size(), other.means_.size()));
    for (std::size_t i = 0; i < other.means_.size(); ++i) means_[i].add(other.means_[i]);
    return *this;
  }

  /// Whether costs of this very size have been added, and not faded away.
  bool measured(Index size) const { return size >= 0 && size < sizes() && known(size); }
  /// One more than the largest size that costs were added of.
  Index sizes() const { return static_cast<Index>(means_.size()); }

  /// In the unit of what was added; 0 where nothing is known.
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

  bool known(Index size) const { return means_[static_cast<std::size_t>(size)].weight() > faded; }
  double value(Index size) const { return means_[static_cast<std::size_t>(size)].value(); }

  // The nearest known size below or above; −1 where there is none.
  Index last_known(Index size) const {
    Index i = std::min(size, static_cast<Index>(means_.size())) - 1;
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
    const double least = value(above) * static_cast<double>(size) / static_cast<double>(above);
    return std::clamp(on_line(above, next, size), least, value(above));
  }

  double on_line(Index a, Index b, Index size) const {
    const double share = static_cast<double>(size - a) / static_cast<double>(b - a);
    return (1 - share) * value(a) + share * value(b);
  }

  double decay_;
  std::vector<FadingMean> means_;
};

}  // namespace specdec

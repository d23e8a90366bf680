// What sampling steps leave of a row of logits, by sorting: the fuzzer's reference.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <specdec/specdec.hpp>
#include <vector>

#include "fuzz/bytes.hpp"

namespace fuzz {

// A row with logits that are numbers or −inf; at least one is a number. Each step keeps the beginning of the sorted
// row.
class SortedRow {
 public:
  explicit SortedRow(const std::vector<double>& logits) : logits_(logits) {
    for (const double l : logits)
      if (l >= std::numeric_limits<double>::lowest()) sorted_.push_back(l);
    std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
  }

  template <class Row>
  void check(const specdec::Temperature& step, const Row& before, const Row& after) const {
    const double product = std::min(before.temperature() * step.value(), std::numeric_limits<double>::max());
    require(after.temperature() == product && kept(after) == kept(before));
  }

  template <class Row>
  void check(const specdec::TopK& step, const Row& before, const Row& after) const {
    const auto k = static_cast<std::size_t>(step.value());
    const bool all = k == 0 || k >= kept(before) || before.is_argmax();
    require(kept(after) == (all ? kept(before) : at_least(sorted_[k - 1])));
  }

  // A token with a logit within rounding of the edge may stay or go.
  template <class Row>
  void check(const specdec::MinP& step, const Row& before, const Row& after) const {
    const double drop = before.temperature() * std::log(step.value()), least = sorted_[0] + drop;
    const double rounding = 1e-15 * (std::abs(sorted_[0]) + std::abs(drop));
    if (step.value() == 0 || before.is_argmax() || std::isinf(least)) {
      require(kept(after) == kept(before));
      return;
    }
    require(kept(after) >= std::min(kept(before), at_least(least + rounding)));
    require(kept(after) <= std::min(kept(before), at_least(least - rounding)));
  }

  // If a mass is within rounding of p, this set or the next larger one may stay.
  template <class Row>
  void check(const specdec::TopP& step, const Row& before, const Row& after) const {
    const std::size_t all = kept(before), some = kept(after);
    if (step.value() == 1 || before.is_argmax()) {
      require(some == all);
      return;
    }
    require(some > 0 && some <= all);
    double total = 0, mass = 0, without_last = 0;
    for (std::size_t i = 0; i < all; ++i) {
      const double w = weight(before, sorted_[i]);
      total += w;
      if (i < some) mass += w;
      if (sorted_[i] > sorted_[some - 1]) without_last += w;
    }
    const double rounding = tolerance<Row>;
    require(mass / total > step.value() - rounding || some == all);
    require(without_last / total < step.value() + rounding);
  }

  // log Σ exp(l/T) of the whole row, at the temperature that rows of this arithmetic use.
  template <class Row>
  double log_sum_exp(const Row& row) const {
    double sum = 0;
    for (const double l : sorted_) sum += weight(row, l);
    return sorted_[0] * inverse_temperature(row) + std::log(sum);
  }

  // Whether log Σ exp is known to enough digits, and no difference of nearby logits overflows.
  template <class Row>
  bool has_log_sum_exp(const Row& row) const {
    constexpr auto most = static_cast<double>(std::numeric_limits<typename Row::Scalar>::max());
    return std::abs(log_sum_exp(row)) < 1e6 && sorted_.front() < most / 4 && sorted_.back() > -most / 4;
  }

  // Checks that the row's probabilities are those of the tokens above its cut, and that draws follow them.
  template <class Row>
  void check_probabilities(const Row& row) const {
    const std::vector<double> p = probabilities(row);
    double below = 0;
    for (std::size_t x = 0; x < p.size(); ++x) {
      const double found = row.probability(static_cast<Token>(x));
      require(std::abs(found - p[x]) <= tolerance<Row> * p[x] + 1e-290);
      require((found > 0) == (p[x] > 0) || p[x] < 1e-290);
      if (found > 0) require(row.possible(static_cast<Token>(x)));
    }
    check_segments(row, p);
    auto sampler = row.sampler();
    std::size_t x = 0;
    for (const double u : {0.0, 0.1, 0.5, 0.9, 0.999}) {
      const auto drawn = static_cast<std::size_t>(sampler(u));
      require(drawn >= x && drawn < p.size() && p[drawn] > 0);
      for (; x < drawn; ++x) below += p[x];
      require(below < u + 1e-4 && below + p[drawn] > u - 1e-4);
    }
    require(p[static_cast<std::size_t>(row.argmax())] > 0);
    require(logits_[static_cast<std::size_t>(row.argmax())] == sorted_[0]);
  }

 private:
  template <class Row>
  static constexpr bool is_double = std::same_as<typename Row::Scalar, double>;
  template <class Row>
  static constexpr double tolerance = is_double<Row> ? 1e-9 : 5e-6;

  std::size_t at_least(double cut) const {
    return static_cast<std::size_t>(
        std::partition_point(sorted_.begin(), sorted_.end(), [=](double l) { return l >= cut; }) -
        sorted_.begin());
  }
  template <class Row>
  std::size_t kept(const Row& row) const {
    return at_least(static_cast<double>(row.cut()));
  }

  // Temperatures are alike if only the inverse of the smallest number is left of them.
  template <class Row>
  static double inverse_temperature(const Row& row) {
    constexpr auto least = static_cast<double>(std::numeric_limits<typename Row::Scalar>::min());
    return std::max(1 / row.temperature(), least);
  }
  template <class Row>
  double weight(const Row& row, double l) const {
    return std::exp((l - sorted_[0]) * inverse_temperature(row));
  }

  template <class Row>
  std::vector<double> probabilities(const Row& row) const {
    std::vector<double> p(logits_.size());
    if (row.is_argmax()) {
      p[static_cast<std::size_t>(std::find(logits_.begin(), logits_.end(), sorted_[0]) - logits_.begin())] =
          1;
      return p;
    }
    double total = 0;
    for (std::size_t x = 0; x < p.size(); ++x)
      total += p[x] = logits_[x] >= static_cast<double>(row.cut()) ? weight(row, logits_[x]) : 0;
    for (double& one : p) one /= total;
    return p;
  }

  // In the row's own arithmetic, in which exponents have fewer digits and small ones vanish.
  template <class Row>
  static void check_segments(const Row& row, const std::vector<double>& p) {
    constexpr double relative = is_double<Row> ? 1e-9 : 4e-5, absolute = is_double<Row> ? 1e-280 : 1e-28;
    const Index size = std::ssize(p);
    for (Index start = 0; start < size; start += specdec::max_segment_size) {
      const Index count = std::min(specdec::max_segment_size, size - start);
      const auto segment = row.segment(start, count);
      double sum = 0;
      for (Index i = 0; i < count; ++i) {
        const double expected = p[static_cast<std::size_t>(start + i)];
        sum += expected;
        require(std::abs(static_cast<double>(segment[i]) - expected) <= relative * expected + absolute);
      }
      require(std::abs(row.sum(start, count) - sum) <= relative * sum + 512 * absolute);
    }
  }

  std::vector<double> logits_, sorted_;
};

}  // namespace fuzz

// Means, their standard errors, and the gain of one rule over another on the same drafts.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "specdec/more/analysis/acceptance.hpp"

namespace acceptance {

using specdec::Estimate;

/// The mean of independent samples.
inline Estimate mean(const std::vector<double>& samples) {
  const auto n = static_cast<double>(samples.size());
  double sum = 0, squares = 0;
  for (const double x : samples) sum += x;
  const double value = sum / n;
  for (const double x : samples) squares += (x - value) * (x - value);
  return {value, n > 1 ? std::sqrt(squares / (n * (n - 1))) : 0};
}

/// mean(b)/mean(a) − 1, where a[i] and b[i] were measured together. This is the ratio estimator. Its error is
/// the error of the differences b − (mean(b)/mean(a))·a, so that variation which a and b share does not count.
inline Estimate gain(const std::vector<double>& a, const std::vector<double>& b) {
  const double ratio = mean(b).value / mean(a).value;
  std::vector<double> rest(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) rest[i] = b[i] - ratio * a[i];
  return {ratio - 1, mean(rest).standard_error / mean(a).value};
}

}  // namespace acceptance

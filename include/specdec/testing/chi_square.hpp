// A sampled check of a law, for what cannot be enumerated.
#pragma once

#include <cmath>
#include <concepts>
#include <map>
#include <ostream>
#include <vector>

#include "specdec/core/error.hpp"
#include "specdec/testing/law.hpp"

namespace specdec::testing {

/// The outcome of a chi-square test of outputs against a law.
struct SampledReport {
  bool accepted = true;
  double statistic = 0;  ///< Pearson's X²
  double threshold = 0;  ///< accepted up to here
  Index degrees = 0;     ///< of freedom
  Index impossible = 0;  ///< outputs seen that have probability 0
  explicit operator bool() const { return accepted; }

  friend std::ostream& operator<<(std::ostream& out, const SampledReport& report) {
    return out << (report.accepted ? "accepted" : "REJECTED") << ": X² = " << report.statistic << " on "
               << report.degrees << " degrees of freedom, threshold " << report.threshold << ", "
               << report.impossible << " impossible outputs";
  }
};

/// Draws `samples` outputs by calling sample() and tests them against the joint law `expected`. Joint laws of
/// several tokens are what to test: bugs of verifiers often leave every marginal intact.
///
/// A right law is rejected with probability at most `false_alarm` (as far as X² has its limiting law): the
/// threshold is the tail bound P(X²_k >= k + 2√(k·t) + 2t) <= e^-t with t = −ln(false_alarm) (Laurent and
/// Massart, 2000, Lemma 1). Outputs with an expected count below 10 are pooled. An output of probability 0 is
/// rejected at once. Throws std::invalid_argument where samples are too few for two cells.
template <std::invocable Sample>
SampledReport check_sampled(Sample&& sample, const Law& expected, Index samples, double false_alarm = 1e-6) {
  std::map<std::vector<Token>, Index> counts;
  for (Index i = 0; i < samples; ++i) ++counts[sample()];

  SampledReport report;
  double pooled_expected = 0, pooled_count = 0;
  Index cells = 0;
  const auto enter = [&](double mean, double count) {
    report.statistic += (count - mean) * (count - mean) / mean;
    ++cells;
  };
  for (const auto& [tokens, p] : expected) {
    const auto found = counts.find(tokens);
    const double count = found == counts.end() ? 0.0 : static_cast<double>(found->second);
    const double mean = p * static_cast<double>(samples);
    if (found != counts.end() && p > 0) counts.erase(found);
    if (mean >= 10) {
      enter(mean, count);
    } else {
      pooled_expected += mean;
      pooled_count += count;
    }
  }
  if (pooled_expected >= 10) enter(pooled_expected, pooled_count);
  for (const auto& [tokens, count] : counts) report.impossible += count;
  if (cells < 2)
    specdec::detail::invalid_argument("samples = ", samples, " are too few: fewer than two cells expect 10");

  report.degrees = cells - 1;
  const double k = static_cast<double>(report.degrees), t = -std::log(false_alarm);
  report.threshold = k + 2 * std::sqrt(k * t) + 2 * t;
  report.accepted = report.impossible == 0 && report.statistic <= report.threshold;
  return report;
}

}  // namespace specdec::testing

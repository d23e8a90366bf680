// A sampled check of a law, for what cannot be enumerated.
#pragma once

#include <algorithm>
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
/// Massart, 2000, Lemma 1). Outputs with an expected count below 10 are pooled, with the smallest cell if
/// need be. An output of probability 0 is rejected at once. Throws std::invalid_argument where samples are
/// too few for two cells.
template <std::invocable Sample>
SampledReport check_sampled(Sample&& sample, const Law& expected, Index samples, double false_alarm = 1e-6) {
  std::map<std::vector<Token>, Index> counts;
  for (Index i = 0; i < samples; ++i) ++counts[sample()];

  struct Cell {
    double mean, count;
  };
  std::vector<Cell> cells;
  Cell pool{0, 0};
  for (const auto& [tokens, p] : expected) {
    if (!(p > 0)) continue;
    const auto found = counts.find(tokens);
    const Cell cell{p * static_cast<double>(samples),
                    found == counts.end() ? 0.0 : static_cast<double>(found->second)};
    if (found != counts.end()) counts.erase(found);
    if (cell.mean >= 10) {
      cells.push_back(cell);
    } else {
      pool = {pool.mean + cell.mean, pool.count + cell.count};
    }
  }
  if (cells.empty() || (cells.size() < 2 && pool.mean > 0 && pool.mean < 10))
    specdec::detail::invalid_argument("samples = ", samples, " are too few: fewer than two cells expect 10");
  if (pool.mean >= 10) {
    cells.push_back(pool);
  } else {  // what is rare is not to be overlooked: it joins the smallest cell
    Cell& smallest = *std::ranges::min_element(cells, {}, &Cell::mean);
    smallest = {smallest.mean + pool.mean, smallest.count + pool.count};
  }

  SampledReport report;
  for (const auto& [tokens, count] : counts) report.impossible += count;
  for (const Cell& cell : cells)
    report.statistic += (cell.count - cell.mean) * (cell.count - cell.mean) / cell.mean;
  report.degrees = static_cast<Index>(cells.size()) - 1;
  const double k = static_cast<double>(report.degrees), t = -std::log(false_alarm);
  report.threshold = k + 2 * std::sqrt(k * t) + 2 * t;
  report.accepted = report.impossible == 0 && report.statistic <= report.threshold;
  return report;
}

}  // namespace specdec::testing

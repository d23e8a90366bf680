// Checks a law by sampling, where it cannot be enumerated.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/testing/law.hpp"

namespace specdec::inline v0_2_0::testing {

/// The outcome of a chi-square test of outputs against a law.
struct [[nodiscard]] SampledReport {
  bool accepted = true;
  double statistic = 0;  ///< Pearson's X²
  double threshold = 0;  ///< accepted up to here
  Index degrees = 0;     ///< of freedom
  Index impossible = 0;  ///< outputs seen that have probability 0
  Index rare = 0;        ///< outputs seen that are too rare for a cell, even pooled
  double rare_expected = 0;
  /// In words, if the law is rejected: the output, or the beginning of outputs, whose count is the least likely under it.
  std::string worst = {};
  explicit operator bool() const { return accepted; }

  friend std::ostream& operator<<(std::ostream& out, const SampledReport& report) {
    out << (report.accepted ? "accepted" : "REJECTED") << ": X^2 = " << report.statistic << " on "
        << report.degrees << " degrees of freedom, threshold " << report.threshold << ", "
        << report.impossible << " impossible outputs, " << report.rare << " rare ones where "
        << report.rare_expected << " are expected";
    if (!report.worst.empty()) out << "; " << report.worst;
    return out;
  }
};

namespace detail {

/// Adds the law of the beginnings of the outputs.
inline Law with_beginnings(const Law& law) {
  Law all;
  for (const auto& [tokens, p] : law)
    for (std::size_t n = std::min<std::size_t>(tokens.size(), 1); n <= tokens.size(); ++n)
      all[{tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)}] += p;
  return all;
}

/// The shortest output, or beginning of outputs, whose count is the least likely under the law by Chernoff's bound.
inline std::string worst_output(const Law& counts, const Law& law, Index samples) {
  const double all = static_cast<double>(samples);
  const Law seen = with_beginnings(counts), expected = with_beginnings(law);
  double most = -1;
  std::vector<Token> worst;
  const auto look = [&](const std::vector<Token>& tokens) {
    const double n = probability_of(tokens, seen),
                 mean = std::max(all * probability_of(tokens, expected), 1e-300);
    const double surprise = mean - n + (n > 0 ? n * std::log(n / mean) : 0.0);
    if (surprise > most) {
      most = surprise;
      worst = tokens;
    }
  };
  for (const auto& [tokens, count] : seen) look(tokens);
  for (const auto& [tokens, p] : expected) look(tokens);
  std::string shown = to_string(worst);
  if (!counts.contains(worst) && !law.contains(worst)) shown.insert(shown.size() - 1, " ...");
  std::ostringstream text;
  text << std::setprecision(4) << "output " << shown << " has frequency " << probability_of(worst, seen) / all
       << ", expected " << probability_of(worst, expected);
  return text.str();
}

}  // namespace detail

/// Draws `samples` outputs by calling sample(), and tests them against the joint law `expected`. Test joint laws of several
/// tokens: a bug of a verifier often leaves every marginal correct.
///
/// A correct law is rejected with probability at most `false_alarm` (as far as X² has its limiting law). Half is for X², half for
/// outputs too rare for it. Let t = −ln(false_alarm/2). X² on k degrees of freedom is rejected above k + 2√(k·t) + 2t (tail bound
/// of Laurent and Massart, 2000, Lemma 1). Outputs with an expected count below 10 are pooled. If the pool expects μ < 10 and is
/// seen n > μ times, it is rejected if μ − n + n·ln(n/μ) > t (Chernoff's bound). An output of probability 0 is rejected at once.
///
/// `fitted`: how many numbers of the law were estimated from these samples (how often each context occurred, say). Each such
/// number takes one degree of freedom from X².
/// Throws: InvalidArgument if samples are too few for two cells (unless the law has one output only), if `fitted` is
/// negative or leaves no degree of freedom, and unless 0 < false_alarm < 1.
template <std::invocable Sample>
SampledReport check_sampled(Sample&& sample, const Law& expected, Index samples, double false_alarm = 1e-6,
                            Index fitted = 0) {
  if (!(false_alarm > 0 && false_alarm < 1))
    specdec::detail::invalid_argument("false_alarm = ", false_alarm, " is outside (0, 1)");
  Law counts;
  for (Index i = 0; i < samples; ++i) {
    const std::vector<Token> output = sample();
    ++counts[output];
  }

  struct Cell {
    double mean, count;
  };
  std::vector<Cell> cells;
  Cell pool{0, 0};
  for (const auto& [tokens, p] : expected) {
    if (!(p > 0)) continue;
    const Cell cell{p * static_cast<double>(samples), detail::probability_of(tokens, counts)};
    if (cell.mean >= 10) cells.push_back(cell);
    else pool = {pool.mean + cell.mean, pool.count + cell.count};
  }
  const bool rare = pool.mean > 0 && pool.mean < 10;
  if (pool.mean >= 10) cells.push_back(pool);
  if (cells.empty() || (cells.size() < 2 && rare))
    specdec::detail::invalid_argument("samples = ", samples, " are too few: fewer than two cells expect 10");

  SampledReport report;
  for (const auto& [tokens, count] : counts)
    if (!(detail::probability_of(tokens, expected) > 0)) report.impossible += static_cast<Index>(count);
  for (const Cell& cell : cells)
    report.statistic += (cell.count - cell.mean) * (cell.count - cell.mean) / cell.mean;
  report.degrees = static_cast<Index>(cells.size()) - (rare ? 0 : 1) - fitted;
  if (fitted < 0 || (fitted > 0 && report.degrees < 1))
    specdec::detail::invalid_argument("fitted = ", fitted, ", but there are ", report.degrees + fitted,
                                      " degrees of freedom");
  const double k = static_cast<double>(report.degrees), t = -std::log(false_alarm / 2);
  report.threshold = k + 2 * std::sqrt(k * t) + 2 * t;
  if (rare) {
    report.rare = static_cast<Index>(pool.count);
    report.rare_expected = pool.mean;
  }
  const bool too_many = rare && pool.count > pool.mean &&
                        pool.mean - pool.count + pool.count * std::log(pool.count / pool.mean) > t;
  report.accepted = report.impossible == 0 && !too_many && report.statistic <= report.threshold;
  if (!report.accepted) report.worst = detail::worst_output(counts, expected, samples);
  return report;
}

}  // namespace specdec::testing

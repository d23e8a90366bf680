// The report of an audit of a text.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <ostream>

#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing {

/// What a text looks like, by the bet that won most against it.
enum class TextFault {
  none,           ///< no bet won
  impossible,     ///< a token has probability 0 in its row
  liked_often,    ///< tokens that the reference likes come too often
  liked_seldom,   ///< tokens that the reference likes come too seldom
  likely_often,   ///< likely tokens come too often
  likely_seldom,  ///< likely tokens come too seldom
  ids,            ///< tokens are as likely as their rows say, but small ids or large ids come too often
};

/// Prints a fault, and its likely causes.
inline std::ostream& operator<<(std::ostream& out, TextFault fault) {
  switch (fault) {
    case TextFault::none:
      return out << "nothing speaks against the text";
    case TextFault::impossible:
      return out << "a token came whose probability is 0 (the row of another position? a row that is cut "
                    "otherwise than the one that was drawn from? tokens accepted with p = 0?)";
    case TextFault::liked_often:
      return out << "tokens that the reference likes come too often (replacements drawn from p, not from the "
                    "residual? lenient or relaxed acceptance? a bonus token of the draft?)";
    case TextFault::liked_seldom:
      return out << "tokens that the reference likes come too seldom (a coin without q? the residual drawn "
                    "from where nothing was rejected?)";
    case TextFault::likely_often:
      return out << "likely tokens come too often (a lower temperature or another cut than the rows have? "
                    "argmax?)";
    case TextFault::likely_seldom:
      return out << "likely tokens come too seldom (a higher temperature than the rows have? replacements "
                    "drawn from p, not from the residual, which a reference would tell? the row of another "
                    "position? a stale cache?)";
    case TextFault::ids:
      break;
  }
  return out << "tokens are as likely as their rows say, but come in an order of their ids (one random "
                "number used twice, for coin and draw or for draft and replacement?)";
}

/// The outcome of an audit of a text.
struct [[nodiscard]] TextAuditReport {
  TextFault fault = TextFault::none;  ///< of the bet that won most; none if it did not even reach 10
  double evidence = 0;                ///< log10 of E now
  double largest_evidence = 0;        ///< log10 of the largest E so far, which counts
  Index tokens = 0;                   ///< tokens seen
  Index impossible = 0;               ///< tokens of probability 0
  Index unreadable = 0;  ///< tokens left out: NaN, negative numbers, no mass, in a row or in two numbers
  Index unreadable_references = 0;  ///< reference rows left out, for the same reasons
  Index bad_sums = 0;               ///< rows that do not sum to 1 within 0.01; they count as if they did
  double least_sum = 1, largest_sum = 1;        ///< of rows
  double by_rank = 0, by_id = 0, by_ratio = 0;  ///< log10 of what each bet has won
  double by_two_numbers = 0;                    ///< of the better one of two bets

  /// Whether the text is not its rows': wrongly with probability alpha at most, however often it is asked.
  /// Throws: InvalidArgument unless 0 < alpha < 1.
  bool convicts(double alpha) const {
    if (!(alpha > 0 && alpha < 1)) specdec::detail::invalid_argument("alpha = ", alpha, " is outside (0, 1)");
    return largest_evidence >= -std::log10(alpha);
  }

  friend std::ostream& operator<<(std::ostream& out, const TextAuditReport& report) {
    out << report.tokens << " tokens, evidence 10^" << report.evidence << ", at most 10^"
        << report.largest_evidence << ": " << report.fault << "\n  bets: rank 10^" << report.by_rank
        << ", id 10^" << report.by_id << ", ratio 10^" << report.by_ratio << ", two numbers 10^"
        << report.by_two_numbers;
    if (report.impossible > 0) out << "\n  of probability 0: " << report.impossible;
    if (report.unreadable > 0)
      out << "\n  left out, as their rows hold no probabilities: " << report.unreadable;
    if (report.unreadable_references > 0)
      out << "\n  reference rows left out, for the same reason: " << report.unreadable_references;
    if (report.bad_sums > 0)
      out << "\n  rows that do not sum to 1 (cut, and not normalised again?): " << report.bad_sums
          << ", sums from " << report.least_sum << " to " << report.largest_sum;
    return out;
  }
};

}  // namespace specdec::testing

// The report of an audit of a drafter.
// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <ostream>

#include "specdec/testing/chi_square.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing {

/// The fault that an audit found.
enum class DraftFault {
  none,        ///< nothing speaks against the drafter
  bad_row,     ///< a row is no distribution
  impossible,  ///< a token has probability 0 in its row
  likelier,    ///< the tokens are likelier than their rows say
  rarer,       ///< the tokens are rarer than their rows say
  unrelated,   ///< the tokens have little to do with their rows
  repeated,    ///< the tokens are as likely as their rows say, but are no random draws
};

/// Prints a fault, and its likely causes.
inline std::ostream& operator<<(std::ostream& out, DraftFault fault) {
  switch (fault) {
    case DraftFault::none:
      return out << "nothing speaks against the drafter";
    case DraftFault::bad_row:
      return out << "a row is no distribution (cut, or without elder siblings, and not normalised again?)";
    case DraftFault::impossible:
      return out << "a token was drawn where q is 0 (the row of another position? a q that is cut, or "
                    "without elder siblings, beside a draw that is not?)";
    case DraftFault::likelier:
      return out << "tokens are likelier than q says (a raw q beside a draw that is sharpened, cut or "
                    "greedy? tokens dropped after they were drawn?)";
    case DraftFault::rarer:
      return out
             << "tokens are rarer than q says (a raw q beside a draw at a higher temperature? some rows of "
                "another position? siblings without replacement beside a q that still has their elders?)";
    case DraftFault::unrelated:
      return out << "tokens have little to do with q (the row of another position, or one for all? a sampler "
                    "that is reseeded before each draft?)";
    case DraftFault::repeated:
      break;
  }
  return out << "tokens are as likely as q says, but no random draws from it (a sampler that is reseeded "
                "before each draft?)";
}

/// The outcome of an audit.
struct [[nodiscard]] DraftAuditReport {
  DraftFault fault = DraftFault::none;
  Index tokens = 0;       ///< drafted tokens seen
  Index informative = 0;  ///< tokens with an informative row, see DraftAudit
  Index impossible = 0;   ///< tokens of probability 0
  Index bad_rows = 0;
  double likelier = 0, rarer = 0;      ///< largest log-likelihood ratios against q
  double threshold = 0;                ///< a ratio above it convicts
  std::optional<SampledReport> order;  ///< U in 16 cells, if there were enough tokens
  std::optional<SampledReport> pairs;  ///< successive U in 4 × 4 cells, if there were enough tokens
  std::optional<SampledReport> ids;    ///< W in 16 cells, if there were enough tokens

  /// With fewer informative tokens there is no acquittal: a fault may not have shown yet.
  static constexpr Index least_informative = 320;

  bool convicted() const { return fault != DraftFault::none; }
  /// Whether no fault was found in enough tokens.
  bool acquitted() const { return !convicted() && informative >= least_informative; }
  /// Not convicted: acquitted, or too few tokens.
  explicit operator bool() const { return !convicted(); }

  friend std::ostream& operator<<(std::ostream& out, const DraftAuditReport& report) {
    out << (report.convicted()   ? "CONVICTED"
            : report.acquitted() ? "acquitted"
                                 : "no verdict")
        << ": " << report.tokens << " drafted tokens, " << report.informative << " informative";
    if (!report.convicted() && !report.acquitted()) out << " (" << least_informative << " are needed)";
    if (report.convicted()) out << "\n  " << report.fault;
    out << "\n  of probability 0: " << report.impossible
        << ", from rows that are no distribution: " << report.bad_rows
        << "\n  log-likelihood ratio, likelier " << report.likelier << ", rarer " << report.rarer
        << ", threshold " << report.threshold;
    if (report.order) out << "\n  order " << *report.order;
    if (report.pairs) out << "\n  pairs " << *report.pairs;
    if (report.ids) out << "\n  ids " << *report.ids;
    return out;
  }
};

}  // namespace specdec::testing

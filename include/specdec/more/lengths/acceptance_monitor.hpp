// Tells when drafts are accepted less than they should be: a test by betting that may be looked at after each step.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Watches which share of the drafted tokens is accepted, and tells when that has fallen below `least`: because the text has come to
/// a place where drafts fail, or because a prompt was written to make them fail (arXiv:2610.10929).
///
///   AcceptanceMonitor monitor{0.3};
///   monitor.observe(step);                       // after each step: see DraftLength
///   if (monitor.fallen()) ...
///
/// As long as the share that is expected of each step, given all steps before it, is `least` or more, it takes `patience` steps on
/// average until fallen(), or longer, however acceptance varies above `least`. There is no other assumption.
///
/// Source: gamblers bet against `least`. With x the share of a step, who bets λ multiplies a stake by 1 + λ·(least − x), and a new
/// stake of 1 is added before each step. A factor has a mean of at most 1, so after t steps the stakes are worth at most t in
/// expectation, and fallen() says that they are worth `patience` (Ville 1939; Shin, Ramdas and Rinaldo, "E-detectors",
/// arXiv:2203.03532: the Shiryaev–Roberts form). Where acceptance falls to 0 this takes about soonest() steps.
/// Units: shares in 0..1, patience in steps with a draft. A step's share is the mean survival of its tokens, in a tree the share of
/// the longest path. It is smaller in longer drafts: let `least` suit the longest.
/// Throws: InvalidArgument unless 0 < least < 1 and patience >= 1.
class AcceptanceMonitor {
 public:
  explicit AcceptanceMonitor(double least, double patience = 1e4) : least_(least), patience_(patience) {
    if (!(least > 0 && least < 1)) detail::invalid_argument("least = ", least, " is outside (0, 1)");
    if (!(patience >= 1)) detail::invalid_argument("patience = ", patience, " is below 1");
  }

  /// A step that drafted nothing says nothing.
  void observe(const StepRecord& step) {
    if (step.drafted == 0) return;
    const double share = share_of(step);
    for (std::size_t k = 0; k < stakes_.size(); ++k) {
      const double bet = bets[k] / (1 - least_);  // below 1: a stake is never lost whole
      stakes_[k] = std::min((stakes_[k] + 1) * (1 + bet * (least_ - share)), most);
    }
  }

  /// Whether the stakes are worth `patience`. Once they are, begin anew: restart().
  bool fallen() const { return evidence() >= patience_; }
  /// What the stakes are worth.
  double evidence() const {
    return std::reduce(stakes_.begin(), stakes_.end()) / static_cast<double>(stakes_.size());
  }
  void restart() { stakes_ = {}; }
  /// About how many steps it takes where nothing is accepted: ln(patience) / least.
  double soonest() const { return std::log(patience_) / least_; }

 private:
  static constexpr std::array bets{0.1, 0.3, 0.9};
  static constexpr double most = 1e300;  // so that no factor makes them infinite

  static double share_of(const StepRecord& step) {
    if (step.tree.depth >= 0)
      return static_cast<double>(step.accepted) / static_cast<double>(std::max<Index>(step.tree.depth, 1));
    return std::reduce(step.survival.begin(), step.survival.end()) / static_cast<double>(step.drafted);
  }

  double least_, patience_;
  std::array<double, bets.size()> stakes_ = {};
};

}  // namespace specdec

// The steps with which a draft length learns: its first steps, and later probes.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Throws unless so many texts can share their calls.
inline void check_batch(Index texts) {
  constexpr Index most = Index{1} << 30;
  if (texts < 1 || texts > most) invalid_argument("batch = ", texts, " is outside 1..", most);
}

/// When a draft length tries a draft that it does not expect to be the best.
///
/// The first steps draft 2, 0 and 4 tokens, two steps each: in the first step a draft model may have to catch up, and such a
/// step is not timed. Later a probe may cost a share of the time. Each step earns that share of its cost. A probe waits until
/// the steps since the last probe have earned its expected loss, and for a few steps in any case. While nothing is drafted a
/// probe has two steps, because the first may not be timed; and it goes on as long as it pays, until that is certain: it may
/// be long until the next one. All texts that share a draft length take part in a probe. The first steps are six of all texts
/// together: six texts are through with them after their first call, and probes try the rest.
/// Units: costs are in seconds, or in a unit of the caller's.
/// Throws: InvalidArgument unless 0 < share < 1.
class Trials {
 public:
  explicit Trials(double share) : share_(share) {
    if (!(share > 0 && share < 1)) invalid_argument("probing = ", share, " is outside (0, 1)");
  }

  /// From now on this many texts share the draft length.
  void share_by(Index texts) {
    texts_ = texts;
    left_ = std::min(left_, steps(false));
  }
  Index texts() const { return texts_; }

  // ---- The first steps ----------------------------------------------------------------------------------

  bool begin() const { return first_ < first_lengths; }
  /// Pre: begin().
  Index first_length() const { return lengths_to_try[first_]; }
  /// Enters one of the first steps. `asked` is what next() returned for it. Steps that are not timed do not count, and
  /// neither do those that ask for more, because next() was called before they were.
  void begin_with(const StepRecord& step, Index asked) {
    if (step.asked > asked || step.fed != step.drafted + 1 || ++tries_ < 2) return;
    tries_ = 0;
    ++first_;
  }

  // ---- Probes -------------------------------------------------------------------------------------------

  bool probe() const { return left_ > 0; }
  /// How many probes there were.
  Index number() const { return number_; }

  /// Enters a text's step that was no probe. Texts that share their calls pay for a step together: its cost counts once.
  void earn(double cost) {
    earned_ += share_ * cost / static_cast<double>(texts_);
    ++rest_;
  }

  /// Whether a probe may lose so much.
  bool affords(double loss) const { return rest_ >= least_rest * texts_ && !(earned_ < loss); }

  /// Begins a probe if `costs` allow it now. `drafts`: whether the steps draft at present. `loss`: what a step of the probe is
  /// expected to cost more than another step.
  template <class Costs>
  bool begin_probe(const Costs& costs, bool drafts, double loss) {
    if (!costs.allow(*this, static_cast<double>(rounds(drafts)) * loss)) return false;
    earned_ = 0;
    rest_ = 0;
    tokens_ = cost_ = 0;
    ++number_;
    left_ = steps(drafts);
    return true;
  }

  /// Enters a step of a probe. Returns whether it was the last one.
  template <class Costs>
  bool end_with(const StepRecord& step, const Costs& costs) {
    tokens_ += static_cast<double>(step.accepted + 1);
    cost_ += costs(step.drafted, step.depth());
    return --left_ == 0;
  }

  /// After the last step of a probe and what is decided by it: lets the probe go on if nothing is drafted although its tokens
  /// cost less than in steps that cost `plain` and emit one token each.
  void go_on(bool drafts, double plain) {
    if (!drafts && cost_ < plain * tokens_) left_ = steps(false);
  }

 private:
  static constexpr Index lengths_to_try[] = {2, 0, 4};
  static constexpr int first_lengths = 3;
  static constexpr Index least_rest = 4;  // steps between probes, whatever they cost

  static Index rounds(bool drafts) { return drafts ? 1 : 2; }
  Index steps(bool drafts) const { return rounds(drafts) * texts_; }

  double share_;
  Index texts_ = 1;
  int first_ = 0, tries_ = 0;     // which of the first lengths is in use
  double earned_ = 0;             // what the next probe may lose
  Index rest_ = 0;                // steps since the last probe
  Index left_ = 0, number_ = 0;   // steps that are left of the probe
  double tokens_ = 0, cost_ = 0;  // of the probe
};

}  // namespace specdec::detail

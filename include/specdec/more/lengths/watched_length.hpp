// A draft length that stops where drafts are no longer accepted.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <utility>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/lengths/acceptance_monitor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Drafts as another length says, and not at all for a while after a monitor has told that acceptance has fallen. It needs no clock:
/// `least` says below which share of accepted tokens drafts do not pay here. (CostOptimalLength finds that out by time.)
///
///   SpecDec decoder{target, drafter, BlockVerifier{}, WatchedLength{AcceptanceMonitor{0.25}}};
///   SpecDec decoder{target, drafter, BlockVerifier{}, WatchedLength{AcceptanceMonitor{0.25}, ScheduledLength{5}}};
///
/// The first rest has 64 steps, or four times those in which the monitor tells that nothing is accepted, if these are more. If drafts
/// fail again before as many steps, the next rest is twice as long, up to four times the first. So where nothing is accepted, one step
/// in 17 drafts at most, and where drafts come back, this is noticed after that rest. (Acceptance a little below `least` costs little, and is
/// told late.) One of an each() watches one text; one for all texts of a Batch watches what they accept together, and counts the
/// steps of each.
template <DraftLength Length = FixedLength>
class WatchedLength : public Length {  // so it has all that the length has beside these two
 public:
  explicit WatchedLength(AcceptanceMonitor monitor, Length length = {})
      : Length(std::move(length)),
        monitor_(monitor),
        first_rest_(static_cast<Index>(std::clamp(4 * monitor.soonest(), 64.0, 1e6))) {}

  Index next(Index most, const DraftedText& text) {
    const Index length = detail::next_length(static_cast<Length&>(*this), most, text);
    return rests() ? 0 : length;
  }

  void observe(const StepRecord& step) {
    Length::observe(step);
    if (rests()) {
      --left_;
      return;
    }
    monitor_.observe(step);
    ++drafting_;
    if (!monitor_.fallen()) return;
    rest_ = drafting_ > first_rest_ ? first_rest_ : std::clamp(2 * rest_, first_rest_, 4 * first_rest_);
    left_ = rest_;
    drafting_ = 0;
    monitor_.restart();
  }

  /// Whether the next step drafts nothing, because acceptance has fallen.
  bool rests() const { return left_ > 0; }

 private:
  AcceptanceMonitor monitor_;
  Index first_rest_;
  Index rest_ = 0, left_ = 0;  // the last rest, and what is left of it
  Index drafting_ = 0;         // steps since then
};

}  // namespace specdec

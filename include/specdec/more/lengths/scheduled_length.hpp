// A draft length that grows after success, as Hugging Face Transformers has it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Asks for two tokens more after a fully accepted draft, and for one less after any other draft; between 1 and 1024.
/// Source: the "heuristic" schedule of Hugging Face Transformers' assisted generation.
/// Throws: InvalidArgument unless initial >= 1.
class ScheduledLength {
 public:
  explicit ScheduledLength(Index initial = 5) : length_(std::min(initial, longest)) {
    if (initial < 1) detail::invalid_argument("initial = ", initial, " is below 1");
  }

  Index next(Index most) const { return std::min(length_, most); }

  /// A step that drafted nothing (the budget ended, or the drafter had no guess) changes nothing.
  void observe(const StepRecord& step) {
    if (step.drafted == 0) return;
    length_ = step.accepted == step.drafted ? std::max(length_, std::min(step.drafted, longest)) + 2
                                            : std::max<Index>(1, length_ - 1);
    length_ = std::min(length_, longest);
  }

 private:
  static constexpr Index longest = 1024;  // no overflow if every draft is accepted
  Index length_;
};

}  // namespace specdec

// Why a request could not be judged on a device. A kernel throws nothing: it writes a code.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::device {

enum class FaultKind : std::int32_t {
  none = 0,
  target_is_nan = 1,            ///< a logit of the target row is NaN
  target_is_infinite = 2,       ///< a logit of the target row is +inf, or above largest_scaled
  target_has_no_mass = 3,       ///< all logits of the target row are −inf, or below −largest_scaled
  unknown_token = 4,            ///< the drafted token `row` is in no vocabulary
  token_was_not_drawn = 5,      ///< the drafted token `row` has q = 0: it was not drawn from its draft row
  draft_is_no_probability = 6,  ///< a number of the draft row is NaN, negative, or above 1 + 2^-8
  bad_setting = 7,              ///< of Settings, or top-k or top-p without WorkSpace::largest
  too_long = 8,                 ///< the draft has more than most_drafted tokens
  no_verdict = 9,  ///< a coin has probability NaN, or the rule accepted a token beyond the vocabulary
};

/// The first fault of a request, and the row or token that it is about: counted from 0 within the request.
struct Fault {
  FaultKind kind = FaultKind::none;
  std::int32_t row = 0;

  friend constexpr bool operator==(const Fault&, const Fault&) = default;
};

}  // namespace specdec::device

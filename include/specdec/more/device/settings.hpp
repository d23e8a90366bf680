// How a request samples, on a device.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "specdec/more/device/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::device {

/// How a request samples: Chain{Temperature, TopK, TopP, MinP} of the host, in this order.
struct Settings {
  float temperature = 1;   ///< 0: the largest logit has probability 1; among equals the lowest id
  float min_p = 0;         ///< tokens with less than this share of the largest probability are left out
  std::int32_t top_k = 0;  ///< only the largest logits are kept, and those equal to the last of them; 0: all
  float top_p = 1;         ///< only the likeliest tokens that together have this probability are kept
};

/// The factor of the logits: log2(e)/temperature. At temperature 0 the sums are not used, and any factor will do.
SPECDEC_TEAM float scale_of(Settings settings) {
  return settings.temperature > 0 ? log2_of_e / settings.temperature : log2_of_e;
}
SPECDEC_TEAM bool are_valid(Settings settings) {
  return settings.temperature >= 0 && settings.temperature < infinity && scale_of(settings) < infinity &&
         settings.min_p >= 0 && settings.min_p <= 1 && settings.top_k >= 0 && settings.top_p > 0 &&
         settings.top_p <= 1;
}
/// Whether the settings need the largest logit of each lane: see cut_of.
SPECDEC_TEAM bool need_search(Settings settings) { return settings.top_k > 0 || settings.top_p < 1; }

}  // namespace specdec::device

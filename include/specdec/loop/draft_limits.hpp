// How large the next draft of a text may be.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>

#include "specdec/draft/draft.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/text.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0::detail {

/// The limits of a draft for which the draft length asks for `wanted` tokens, and of which the rule needs `least`. The target can
/// take in, and drop again, `most` tokens: all tokens of a tree must fit there. Only a path must fit in the budget.
/// Throws: InvalidArgument if `wanted` is outside 0..gamma, or if nothing keeps a line to longest_draft tokens.
inline DraftLimits limits_of_draft(const Text& text, bool branches, Index wanted, Index least, Index most) {
  const Options& options = text.options();
  if (wanted < 0 || wanted > options.gamma)
    invalid_argument("the draft-length policy asks for ", wanted,
                     " tokens, outside 0..gamma = ", options.gamma);
  const Index nodes = std::min(std::max(wanted, least), most);
  const Index depth = std::min(std::max(text.remaining() - 1, least), most);
  if (branches) return {.nodes = std::min(nodes, longest_draft), .depth = std::min(depth, longest_draft)};
  const Index length = std::min(nodes, depth);
  if (length > longest_draft)
    invalid_argument("gamma = ", options.gamma, " and nothing else keeps drafts to ", longest_draft,
                     " tokens, neither the draft length nor max_new_tokens = ", options.max_new_tokens,
                     " nor the target's context");
  return {.nodes = length, .depth = length};
}

/// The limits, and for paths that may end early the stop tokens: a view of the text's options.
inline DraftLimits with_stops(DraftLimits limits, const Text& text) {
  if (limits.fixed) return limits;
  limits.stop_tokens = text.options().stop_tokens.ids();
  limits.stops_from = text.options().min_new_tokens - std::ssize(text.tokens()) - 1;
  return limits;
}

}  // namespace specdec::detail

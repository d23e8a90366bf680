// What a draft length is asked about a draft that grows, and what it answers.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The text that a draft is for, as its draft length sees it.
struct DraftedText {
  Index context = 0;       ///< its tokens so far, with the prompt
  Index room = unlimited;  ///< how many tokens a line may have, by the budget and the target's context
};

/// A token that a tree may get.
struct CandidateToken {
  /// Of a chosen token its probability in the draft model's row, of one that will be drawn the largest probability of the row.
  /// Before temperature, cuts and hooks, if these are known.
  double reading = 0;
  Index rank = 0;      ///< how many siblings precede it: likelier ones if chosen, elder ones if drawn
  bool drawn = false;  ///< whether it will be drawn
};

/// What a draft is so far. A line or a trunk has readings; a tree has values. The value of a token is the probability that it
/// is accepted: the product along its path of DraftLength's acceptance(). The lists live until more() returns.
struct GrowingDraft {
  std::span<const double> readings = {};  ///< of the rows that the line or trunk was drawn from
  std::span<const double> values = {};    ///< of the best tokens, the largest first
  /// Of the tokens that would get children in the next level, in no order. Empty where none can.
  std::span<const double> leaves = {};
  Index levels = 0;  ///< how often the draft model was called for this draft
};

/// How much further a draft goes.
struct More {
  bool level = true;         ///< whether to call the draft model again: for another token, or level
  Index tokens = unlimited;  ///< how many of GrowingDraft::values are worth their time; at most all of them
};

}  // namespace specdec

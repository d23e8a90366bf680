// The record of a step of the loop, and the clock that times it. Draft lengths and statistics learn from it.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <mutex>  // brings the durations and clocks of <chrono>, whose calendars and time zones compile slowly
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {

/// The record of a draft that may branch.
struct TreeRecord {
  Index depth = -1;                     ///< tokens of the longest path; −1 for a linear draft
  std::span<const Index> ranks = {};    ///< for each accepted token: the number of its elder siblings
  std::span<const Index> offered = {};  ///< for the context and each accepted token: how many children
  /// The probabilities by which these children were rated: first of the children of the context, then of each accepted token
  /// in turn. Of a chosen token its draft probability, of a drawn one the largest probability of its row. Empty where the
  /// draft length does not rate such tokens, or the drafter does not ask it to (DraftLength's acceptance).
  std::span<const double> probabilities = {};
  bool drawn = false;  ///< whether the children that were rated were drawn
};

/// The record of one step of the loop.
struct StepRecord {
  Index asked = 0;     ///< tokens the drafter was asked for
  Index drafted = 0;   ///< tokens it proposed
  Index accepted = 0;  ///< tokens that survived
  /// Tokens of the target call: drafted + 1, and earlier tokens new to the target. Drafted tokens may be left out (Feed).
  Index fed = 0;

  /// [i], i < drafted: P(τ > i | x_1..x_{i+1}) under the rule in use. If that is unknown: 1 for tokens that survived, 0 for
  /// the others. In both cases the mean is P(τ > i).
  std::span<const double> survival = {};

  /// [i]: what the draft length read in the row that token i of the line, or of the trunk, was drawn from (DraftLength's
  /// reading). Shorter than the draft, or empty, where the drafter does not show its rows.
  std::span<const double> readings = {};

  /// In a batch: the text's part of the time of all drafts, by the tokens of its draft. The mean of all parts is that time.
  std::chrono::nanoseconds draft_time{0};
  std::chrono::nanoseconds target_time{0};
  std::chrono::nanoseconds verify_time{0};  ///< of the verdict, with what observers read of it

  TreeRecord tree = {};

  /// Of a line: the number of the first drafted token with which the text would end (a stop token, the end of a stop string).
  /// Tokens after it belong to no text. −1 if there is none.
  Index ending = -1;

  /// The number of tokens of the longest path of the draft.
  Index depth() const { return tree.depth < 0 ? drafted : tree.depth; }
};

namespace detail {

/// A program that simulates models may bring a clock of its own, with nanoseconds: define SPECDEC_CLOCK as its type, equally in
/// all files, before the first include. Then draft lengths that measure time see the simulated times, and every run is equal.
#ifdef SPECDEC_CLOCK
using Clock = SPECDEC_CLOCK;
#else
using Clock = std::chrono::steady_clock;
#endif

inline double seconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e9; }

/// What a draft length has read in the rows of a draft.
struct DraftReadings {
  std::vector<double> of_rows;    ///< see StepRecord::readings
  std::vector<double> of_tokens;  ///< of each token of a tree: the probability by which it was rated
  bool drawn = false;             ///< see TreeRecord

  void clear() {
    of_rows.clear();
    of_tokens.clear();
    drawn = false;
  }
};

/// Throws unless depth, ranks and offers of a branching draft fit together.
inline void check_tree(const StepRecord& step) {
  const auto& [depth, ranks, offered, probabilities, drawn] = step.tree;
  if (depth < step.accepted || depth > step.drafted)
    invalid_argument("step.tree.depth = ", depth, " is outside ", step.accepted, "..", step.drafted);
  if (std::ssize(ranks) != step.accepted || std::ssize(offered) != step.accepted + 1)
    invalid_argument("step.tree has ", ranks.size(), " ranks and ", offered.size(), " offers, expected ",
                     step.accepted, " and one more");
  for (std::size_t i = 0; i < offered.size(); ++i) {
    if (i < ranks.size() && (ranks[i] < 0 || ranks[i] >= step.drafted))
      invalid_argument("step.tree.ranks[", i, "] = ", ranks[i], " is outside 0..", step.drafted - 1);
    const Index least = i < ranks.size() ? ranks[i] + 1 : 0;
    if (offered[i] < least || offered[i] > step.drafted)
      invalid_argument("step.tree.offered[", i, "] = ", offered[i], " is outside ", least, "..",
                       step.drafted);
  }
  Index children = 0;
  for (const Index count : offered) children += count;
  if (!probabilities.empty() && std::ssize(probabilities) != children)
    invalid_argument("step.tree has ", probabilities.size(), " probabilities for ", children, " children");
  for (std::size_t i = 0; i < probabilities.size(); ++i)
    if (!(probabilities[i] >= 0 && probabilities[i] <= 1))
      invalid_argument("step.tree.probabilities[", i, "] = ", probabilities[i], " is outside [0, 1]");
}

/// Throws on an impossible step. Call it before any number of the step is used.
inline void check_step(const StepRecord& step) {
  check_drafted("step.asked", step.asked);
  check_drafted("step.drafted", step.drafted);
  if (step.accepted < 0 || step.accepted > step.drafted)
    invalid_argument("step.accepted = ", step.accepted, " is outside 0..", step.drafted,
                     ", the tokens that were drafted");
  if (step.ending < -1 || step.ending >= step.drafted)
    invalid_argument("step.ending = ", step.ending, " is outside -1..", step.drafted - 1);
  if (step.tree.depth >= 0) return check_tree(step);
  if (!step.tree.ranks.empty() || !step.tree.offered.empty() || !step.tree.probabilities.empty())
    invalid_argument("step.tree has ranks, offers or probabilities, but no depth");
}

}  // namespace detail
}  // namespace specdec

// How many tokens to draft: what a draft length is asked, what it has to offer, and the length that always asks for gamma.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <span>

#include "specdec/measure/step_record.hpp"
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

/// Whether a draft length looks at rows: whether it has more().
template <class P>
inline constexpr bool reads_rows = requires(P& policy, const GrowingDraft& draft) {
  { policy.more(draft) } -> std::same_as<More>;
};

/// Whether a draft length rates the tokens of trees: whether it has acceptance() and more().
template <class P>
inline constexpr bool rates_tokens = reads_rows<P> && requires(P& policy, const CandidateToken& candidate) {
  { policy.acceptance(candidate) } -> std::convertible_to<double>;
};

namespace detail {

template <class P>
concept SeesText = requires(P& policy, Index most, const DraftedText& text) {
  { policy.next(most, text) } -> Count;
};
template <class P>
concept TellsLength = SeesText<P> || requires(P& policy, Index most) {
  { policy.next(most) } -> Count;
};

/// Asks a draft length for the next step of a text.
template <class P>
Index next_length(P& policy, Index most, [[maybe_unused]] const DraftedText& text) {
  if constexpr (SeesText<P>) return policy.next(most, text);
  else return policy.next(most);
}

/// What a drafter asks the draft length. This one reads no rows, and lets every draft go on. `remembers`: whether the verifier
/// remembers its sequence. A bool, not the verifier's type: so a drafter is compiled once for all verifiers that do not remember.
template <class Policy, bool remembers>
struct KeepDrafting {
  static_assert(!reads_rows<Policy>,
                "the draft length has more(), and who asks it is in specdec/draft/length/keep_drafting.hpp: "
                "include it");
  Policy* length = nullptr;
  DraftReadings* readings = nullptr;  ///< of this draft

  bool more(const auto&, Index) const { return true; }
};

}  // namespace detail

/// A rule for the draft length, the fourth argument of SpecDec:
///
///   next(most)       how many tokens to ask for in the next step, 0..most. `most` is always Options::gamma, which may be
///                    `unlimited`. Where the budget or a context has room for fewer tokens, the loop cuts the number;
///                    StepRecord::asked is the number after the cut. Called once for a step, even if the step is tried
///                    several times; where one draft length serves all sequences of a Batch, once for each Batch::step() with drafts.
///   next(most, text) in place of next(most): sees the text, too (DraftedText). Where it serves all texts, it sees the
///                    longest context and the largest room
///   observe(step)    called after every step with its StepRecord. Must not throw.
///
/// A draft length may look at the draft model's rows, if the drafter shows them (ModelDrafter), and then say how far a draft
/// goes. The question is one for lines, trunks and trees: what the draft is so far goes in, how much further it goes comes out.
///
///   more(draft)      how much further a draft goes (More), by what it is so far (GrowingDraft). For a line or a trunk, asked
///                    after each draw, before the next call of the draft model: draft.readings[i] is what was read in the row
///                    that token i was drawn from, and More::level says whether another token is drafted. observe() gets the
///                    readings in StepRecord::readings
///   reading(row, i)  optional: the number that is read in the row of token i. Without it, confidence_of(row, i)
///
/// For trees, the length is a number of nodes. A draft length made for trees has a member
/// `static constexpr bool counts_nodes = true`. A draft length that learns P(τ > i) by position is for lines. Where a tree grows
/// by its rows, a draft length may rate tokens. It then offers more(draft) and
///
///   acceptance(candidate)  P(a token is accepted, given that its parent is), in 0..1, by what is known of it (CandidateToken).
///                    The product along a path is the value of its last token
///
/// Of a tree of chosen tokens (ConfidentTree) draft.values are the tokens found so far. More::level says whether there is another
/// level. If there is none, More::tokens of the most valuable tokens are proposed.
/// Of a tree of drawn tokens (Tree), more(draft) is asked up to three times a level. Before the draws draft.values are the tokens
/// of the tree and the children that may be drawn: of these, those among the best More::tokens are drawn, and at least one. After
/// the draws they are the tokens of the tree and, once more, those that may get children: those among the best may get some.
/// Then draft.leaves are these: More::level says whether there is another level. All drawn tokens are proposed.
/// observe() finds the readings of all tokens whose parents were accepted in StepRecord::tree.probabilities.
///
/// No row is shown under greedy block verification, which needs one length for all drafts: there only chosen tokens are rated.
/// Every such rule leaves a lossless verifier lossless, because the rule sees only past steps and rows. Do not drop a drawn
/// token because of its value: the tokens that stay would no longer be distributed as their rows say.
/// A more() or acceptance() of another form, which nobody would call, makes it no DraftLength. The loops ask more() by what is in
/// draft/length/keep_drafting.hpp, which specdec.hpp and the draft lengths of the library include.
template <class P>
concept DraftLength = detail::TellsLength<P> && (reads_rows<P> || !requires { &P::more; }) &&
                      (rates_tokens<P> || !requires { &P::acceptance; }) &&
                      requires(P& policy, const StepRecord& step) { policy.observe(step); };

/// Whether a draft length may give the number of nodes of a tree.
template <class P>
inline constexpr bool counts_nodes = requires { requires static_cast<bool>(P::counts_nodes); };

/// Always Options::gamma: the default.
struct FixedLength {
  static constexpr bool counts_nodes = true;

  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}
};

}  // namespace specdec

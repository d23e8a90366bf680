// How a drafter asks a draft length whether its draft goes on.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// What a drafter asks the draft length. `remembers`: whether the verifier remembers its sequence. A bool, not the verifier's
/// type: so a drafter is compiled once for all verifiers that do not remember.
///
/// A drafter of lines, and Spares about its trunk, calls more(row, i) after each draw. A drafter of trees, where rates() says
/// so, calls acceptance() for the children of each node, more(draft) for how many of them and whether there is another level,
/// and propose() for each token of the draft. A draft length that does not rate tokens leaves trees as they are. Checks its answers.
/// Throws: InvalidArgument if the draft length returns no probability, or no number of tokens that were found;
/// InvalidDistribution on a row whose number for a token is no probability.
/// Example: Line, Tree, ConfidentTree.
template <class Policy, bool remembers>
struct KeepDrafting {
  Policy* length = nullptr;
  DraftReadings* readings = nullptr;  ///< of this draft

  /// Whether to draft a token after token i, which was drawn from the row.
  template <class Row>
  bool more([[maybe_unused]] const Row& row, [[maybe_unused]] Index i) const {
    if constexpr (reads_rows<Policy>) {
      static_assert(!remembers,
                    "a verifier with state needs a draft length that does not depend on what was drafted");
      readings->of_rows.push_back(read(row, i));
      const auto& all = readings->of_rows;
      return length->more(GrowingDraft{.readings = view_of(all), .levels = std::ssize(all)}).level;
    }
    return true;
  }

  /// True. A draft length that hides another may not know before it runs, and has a rates() of its own.
  bool rates() const
    requires rates_tokens<Policy>
  {
    if constexpr (requires { length->rates(); }) return length->rates();
    else return true;
  }

  /// P(a token of a tree is accepted, given that its parent is), at most `least`, which is that of its elder sibling: so a token
  /// is proposed only after its elder siblings.
  double acceptance(const CandidateToken& child, double least) const
    requires rates_tokens<Policy>
  {
    const double accepted = length->acceptance(child);
    if (!(accepted >= 0 && accepted <= 1))
      invalid_argument("the draft length's acceptance of a ", child.drawn ? "drawn" : "chosen",
                       " token of rank ", child.rank, ", reading ", child.reading, ", is ", accepted,
                       ", outside [0, 1]");
    return std::min(accepted, least);
  }

  /// How much further the tree goes.
  More more(const GrowingDraft& draft) const
    requires rates_tokens<Policy>
  {
    const Index most = std::ssize(draft.values);
    More answer = length->more(draft);
    answer.tokens = std::min(answer.tokens, most);
    if (answer.tokens < 0)
      invalid_argument("the draft length proposes ", answer.tokens, " tokens of a tree, outside 0..", most);
    return answer;
  }

  /// Records the reading by which the draft's next token was rated.
  void propose(double reading, bool drawn) const {
    readings->of_tokens.push_back(reading);
    readings->drawn = drawn;
  }

 private:
  template <class Row>
  double read(const Row& row, Index i) const {
    if constexpr (requires { length->reading(row, i); }) {
      static_assert(
          requires { double{length->reading(row, i)}; },
          "the draft length's reading(row, i) returns no double: see specdec::DraftLength");
      return length->reading(row, i);
    } else {
      return confidence_of(row, i);
    }
  }
};

}  // namespace specdec::detail

// What a draft length reads in a row, and how a drafter asks it whether the draft goes on.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/largest_probability.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Calls f with the row before temperature, cuts and hooks, where it is known, and else with the row itself. At temperature 0
/// the processed row is one-hot, and says nothing about the draft model's confidence. Errors name draft row i.
template <class Row, class F>
double read_unprocessed(const Row& row, Index i, const F& f) {
  return in_row("draft", i, [&] {
    if constexpr (KnowsUnprocessed<Row>) return f(row.unprocessed());
    else return f(row);
  });
}

}  // namespace detail

/// The largest probability of draft row i, before temperature, cuts and hooks, where these are known.
/// Throws: InvalidDistribution if the row's largest number is no probability.
template <class Row>
double confidence_of(const Row& row, Index i) {
  return detail::read_unprocessed(row, i, [](const auto& raw) { return detail::largest_probability(raw); });
}

namespace detail {

/// What a drafter asks a draft length that reads rows.
///
/// A drafter of lines, and Spares about its trunk, calls more(row, i) after each draw. A drafter of trees, where rates() says
/// so, calls acceptance() for the children of each node, more(draft) for how many of them and whether there is another level,
/// and propose() for each token of the draft. A draft length that does not rate tokens leaves trees as they are. Checks its answers.
/// Throws: InvalidArgument if the draft length returns no probability, or no number of tokens that were found;
/// InvalidDistribution on a row whose number for a token is no probability.
/// Example: Line, Tree, ConfidentTree.
template <class Policy, bool remembers>
  requires reads_rows<Policy>
struct KeepDrafting<Policy, remembers> {
  Policy* length = nullptr;
  DraftReadings* readings = nullptr;  ///< of this draft

  /// Whether to draft a token after token i, which was drawn from the row.
  template <class Row>
  bool more(const Row& row, Index i) const {
    static_assert(!remembers,
                  "a verifier with state needs a draft length that does not depend on what was drafted");
    readings->of_rows.push_back(read(row, i));
    const auto& all = readings->of_rows;
    return length->more(GrowingDraft{.readings = view_of(all), .levels = std::ssize(all)}).level;
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

}  // namespace detail
}  // namespace specdec

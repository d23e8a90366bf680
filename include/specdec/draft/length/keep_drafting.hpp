// Whether a draft length that looks at rows lets a draft go on.
#pragma once

#include <span>
#include <vector>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/rated_tree.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// What a drafter asks the draft length: before it draws from a row, and after it has drawn. The answer is yes if the draft
/// length has no function for the question. `remembers`: whether the verifier remembers its sequence. A bool, not the
/// verifier's type: so a drafter is compiled once for all verifiers that do not remember.
template <class Policy, bool remembers>
struct KeepDrafting {
  Policy* length = nullptr;
  DraftReadings* readings = nullptr;  ///< of this draft

  /// Whether token i may be drawn from the row.
  template <class Row>
  bool operator()([[maybe_unused]] const Row& row, [[maybe_unused]] Index i) const {
    if constexpr (requires { length->keep_drafting(row, i); }) {
      check_rule();
      return length->keep_drafting(row, i);
    } else {
      return true;
    }
  }

  /// Whether to draft a token after token i, which was drawn from the row.
  template <class Row>
  bool another([[maybe_unused]] const Row& row, [[maybe_unused]] Index i) const {
    if constexpr (requires { length->draft_another(std::span<const double>()); }) {
      static_assert(
          requires { double{length->reading(row, i)}; },
          "the draft length has draft_another(readings), but no reading(row, i) that returns a double for "
          "such a row: see specdec::DraftLength");
      check_rule();
      std::vector<double>& of_rows = readings->of_rows;
      of_rows.push_back(length->reading(row, i));
      return length->draft_another(std::span<const double>(of_rows.data(), of_rows.size()));
    } else {
      return true;
    }
  }

  /// For trees of chosen tokens: nothing is drawn there, so any verifier may judge them.
  RatedTree<Policy> tree() const
    requires rates_tokens<Policy>
  {
    return {*length, *readings};
  }

  /// For trees of drawn tokens, which are rated before they are drawn.
  RatedDraws<Policy> drawn_tree() const
    requires rates_draws<Policy>
  {
    check_rule();
    return {*length, *readings};
  }

 private:
  static void check_rule() {
    static_assert(!remembers,
                  "a verifier with state needs a draft length that does not depend on what was drafted");
  }
};

}  // namespace specdec::detail

// Whether a draft length that looks at rows lets a draft go on.
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/tree_candidates.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// What a drafter of chosen trees asks a draft length that rates tokens (DraftLength's acceptance).
template <class Policy>
class RatedTree {
 public:
  RatedTree(Policy& length, std::vector<double>& probabilities)
      : length_(length), probabilities_(probabilities) {}

  /// Calls f(token, probability, acceptance) for each of these tokens of draft row i, the likeliest first. `probability` is
  /// the token's in the row before temperature, cuts and hooks. `acceptance` is no larger than a likelier sibling's: so a
  /// token is proposed only after its likelier siblings, and its rank is the number of its elder siblings.
  template <class Row, class Tokens, class F>
  void rate(const Row& row, Index i, const Tokens& tokens, const F& f) const {
    read_unprocessed(row, i, [&](const auto& raw) {
      const NamedRow checked(raw, "draft", i);
      double least = 1;
      Index rank = 0;
      for (const auto& [token, processed] : tokens) {
        const double probability = std::min(checked.probability(token), 1.0);
        least = std::min(least, acceptance(probability, rank++));
        f(token, probability, least);
      }
      return least;
    });
  }

  bool another_level(const TreeCandidates& found) const { return length_.draft_level(found); }

  /// How many of the best tokens to propose.
  Index proposed(const TreeCandidates& found) const {
    const Index count = length_.propose(found), most = std::ssize(found.values);
    if (count < 0 || count > most)
      invalid_argument("the draft length proposes ", count, " tokens of a tree, outside 0..", most);
    return count;
  }

  /// Records the probability of the draft's next token.
  void propose(double probability) const { probabilities_.push_back(probability); }

 private:
  double acceptance(double probability, Index rank) const {
    const double accepted = length_.acceptance(probability, rank);
    if (!(accepted >= 0 && accepted <= 1))
      invalid_argument("the draft length's acceptance(", probability, ", ", rank, ") = ", accepted,
                       " is outside [0, 1]");
    return accepted;
  }

  Policy& length_;
  std::vector<double>& probabilities_;
};

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
    return {*length, readings->of_tokens};
  }

 private:
  static consteval void check_rule() {
    static_assert(!remembers,
                  "a verifier with state needs a draft length that does not depend on what was drafted");
  }
};

}  // namespace specdec::detail

// What a draft length says about a tree of chosen tokens.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/tree_candidates.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// What keep_drafting.tree() gives to a drafter of trees whose tokens are chosen by their probabilities, if the draft length
/// rates tokens (DraftLength's acceptance). Checks what the draft length says.
///
/// Throws: std::invalid_argument if the draft length returns no probability, or no number of tokens that were found;
/// InvalidDistribution on a row whose number for a token is no probability.
/// Example: ConfidentTree, and examples/generate/any_drafter.hpp, which hides the types of drafter and draft length.
template <class Policy>
class RatedTree {
 public:
  RatedTree(Policy& length, std::vector<double>& probabilities)
      : length_(&length), probabilities_(&probabilities) {}

  /// Calls f(token, probability, acceptance) for each of these tokens of draft row i, the likeliest first. `probability` is
  /// the token's in the row before temperature, cuts and hooks. `acceptance` is no larger than a likelier sibling's: so a
  /// token is proposed only after its likelier siblings, and its rank is the number of its elder siblings.
  template <class Row, class Tokens, class F>
  void rate(const Row& row, Index i, const Tokens& tokens, const F& f) const {
    detail::read_unprocessed(row, i, [&](const auto& raw) {
      const detail::NamedRow checked(raw, "draft", i);
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

  bool another_level(const TreeCandidates& found) const { return length_->draft_level(found); }

  /// How many of the best tokens to propose.
  Index proposed(const TreeCandidates& found) const {
    const Index count = length_->propose(found), most = std::ssize(found.values);
    if (count < 0 || count > most)
      detail::invalid_argument("the draft length proposes ", count, " tokens of a tree, outside 0..", most);
    return count;
  }

  /// Records the probability of the draft's next token.
  void propose(double probability) const { probabilities_->push_back(probability); }

 private:
  double acceptance(double probability, Index rank) const {
    const double accepted = length_->acceptance(probability, rank);
    if (!(accepted >= 0 && accepted <= 1))
      detail::invalid_argument("the draft length's acceptance(", probability, ", ", rank, ") = ", accepted,
                               " is outside [0, 1]");
    return accepted;
  }

  Policy* length_;
  std::vector<double>* probabilities_;
};

}  // namespace specdec

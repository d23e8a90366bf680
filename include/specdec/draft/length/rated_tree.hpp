// What a draft length says about a tree that grows by its rows.
#pragma once

#include <algorithm>
#include <iterator>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/tree_candidates.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// What a drafter asks a draft length about a tree, whether its tokens are chosen or drawn. Checks what the draft length
/// says.
template <class Policy>
class GrowingTree {
 public:
  GrowingTree(Policy& length, DraftReadings& readings) : length_(&length), readings_(&readings) {}

  /// True. A type that hides the draft length may not know before it runs, and answer no: then nothing else may be asked.
  static constexpr bool rates() { return true; }

  bool another_level(const TreeCandidates& found) const { return length_->draft_level(found); }

  /// How many of the best tokens to propose.
  Index proposed(const TreeCandidates& found) const {
    const Index count = length_->propose(found), most = std::ssize(found.values);
    if (count < 0 || count > most)
      invalid_argument("the draft length proposes ", count, " tokens of a tree, outside 0..", most);
    return count;
  }

 protected:
  Policy& length() const { return *length_; }

  void record(double probability, bool drawn) const {
    readings_->of_tokens.push_back(probability);
    readings_->drawn = drawn;
  }

  static double checked(const char* function, double probability, Index rank, double accepted) {
    if (!(accepted >= 0 && accepted <= 1))
      invalid_argument("the draft length's ", function, "(", probability, ", ", rank, ") = ", accepted,
                       " is outside [0, 1]");
    return accepted;
  }

 private:
  Policy* length_;
  DraftReadings* readings_;
};

}  // namespace detail

/// What keep_drafting.tree() gives to a drafter of trees whose tokens are chosen by their probabilities, if the draft length
/// rates tokens (DraftLength's acceptance). Checks what the draft length says.
///
/// Throws: std::invalid_argument if the draft length returns no probability, or no number of tokens that were found;
/// InvalidDistribution on a row whose number for a token is no probability.
/// Example: ConfidentTree, and examples/generate/any_drafter.hpp, which hides the types of drafter and draft length.
template <class Policy>
class RatedTree : public detail::GrowingTree<Policy> {
 public:
  using detail::GrowingTree<Policy>::GrowingTree;

  /// Calls f(token, probability, acceptance) for each of these tokens of draft row i, the likeliest first. `probability` is
  /// the token's in the row before temperature, cuts and hooks. `acceptance` is no larger than a likelier sibling's: so a
  /// token is proposed only after its likelier siblings, and its rank is the number of its elder siblings.
  template <class Row, class Tokens, class F>
  void rate(const Row& row, Index i, const Tokens& tokens, const F& f) const {
    detail::read_unprocessed(row, i, [&](const auto& raw) {
      const detail::NamedRow named(raw, "draft", i);
      double least = 1;
      Index rank = 0;
      for (const auto& [token, processed] : tokens) {
        const double probability = std::min(named.probability(token), 1.0);
        const double accepted = this->length().acceptance(probability, rank);
        least = std::min(least, this->checked("acceptance", probability, rank++, accepted));
        f(token, probability, least);
      }
      return least;
    });
  }

  /// Records the probability of the draft's next token.
  void propose(double probability) const { this->record(probability, false); }
};

/// What keep_drafting.drawn_tree() gives to a drafter of trees whose tokens are drawn, if the draft length rates draws
/// (DraftLength's drawn_acceptance). The drafter asks before it draws, and proposes all that it has drawn.
///
/// Throws: as RatedTree.
/// Example: Tree.
template <class Policy>
class RatedDraws : public detail::GrowingTree<Policy> {
 public:
  using detail::GrowingTree<Policy>::GrowingTree;

  /// Calls f(confidence, acceptance) for each of `count` children that may be drawn from draft row i. `confidence` is the
  /// largest probability of the row before temperature, cuts and hooks. `acceptance` is no larger than an elder sibling's.
  template <class Row, class F>
  void rate(const Row& row, Index i, Index count, const F& f) const {
    const double confidence = std::min(detail::largest_probability(row, i), 1.0);
    double least = 1;
    for (Index rank = 0; rank < count; ++rank) {
      const double accepted = this->length().drawn_acceptance(confidence, rank);
      least = std::min(least, this->checked("drawn_acceptance", confidence, rank, accepted));
      f(confidence, least);
    }
  }

  /// Records the confidence of the row that the draft's next token was drawn from.
  void propose(double confidence) const { this->record(confidence, true); }
};

}  // namespace specdec

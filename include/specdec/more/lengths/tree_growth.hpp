// How large a tree should grow.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/lists.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/lengths/by_probability.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Learns which tokens of trees are accepted, and says which levels and which tokens of a tree are worth their time.
///
/// The likeliest token of a row is accepted more often than a chosen sibling of equal probability, most of all where the
/// target takes the likeliest token of its own row. So the two are learnt apart. Of drawn tokens each rank is learnt apart,
/// by the confidence of the row.
/// Source: Wang et al., "OPT-Tree", arXiv:2406.17276, sections 3.2 and 3.3: a tree of the nodes with the largest product of
/// probabilities, which grows while a level adds enough expected tokens. Deviations: the probabilities are calibrated, the
/// measured time decides what is enough, and the gain of a level is estimated before the draft model is called for it.
class TreeGrowth {
 public:
  /// From now on everything seen so far has `decay` times its weight.
  void fade(double decay) {
    eldest_.fade(decay);
    others_.fade(decay);
    for (SurvivalByConfidence& drawn : drawn_) drawn.fade(decay);
    goes_on_.fade(decay);
  }
  /// Everything seen so far counts as at most `parents` nodes with children.
  void limit(double parents) {
    if (goes_on_.weight() > parents) fade(parents / goes_on_.weight());
  }

  /// Learns from the children of the context and of all accepted tokens.
  void learn(const TreeRecord& tree) {
    auto probability = tree.probabilities.begin();
    for (std::size_t i = 0; i < tree.offered.size(); ++i) {
      const Index accepted = i < tree.ranks.size() ? tree.ranks[i] : -1;
      for (Index rank = 0; rank < tree.offered[i]; ++rank) add(tree.drawn, *probability++, rank, accepted);
      if (tree.offered[i] > 0) goes_on_.add(accepted < 0 ? 0 : 1);
    }
  }

  /// P(a token is accepted, given that its parent is).
  double acceptance(const CandidateToken& token) const {
    const auto& [reading, rank, drawn] = token;
    return drawn ? drawn_acceptance(reading, rank) : (rank == 0 ? eldest_ : others_)(reading);
  }

  /// Whether one more level, or some more, are worth their time, beside the `nodes` tokens that are (paying_tokens). `price`: the
  /// tokens per time that steps attain. `time(nodes, levels)`: the time of a step.
  template <class Time>
  bool pays_level(const GrowingDraft& found, Index nodes, double price, const Time& time) const {
    const Index wide = std::ssize(found.leaves);
    const double now = time(nodes, found.levels);
    // A leaf whose child is expected to bring less than the time of a token gets no child.
    const double token = price * (time(nodes + wide, found.levels) - now) / static_cast<double>(wide);
    double gain = 0, reached = 1;
    for (Index more = 1; more <= looks_ahead; ++more) {
      reached *= goes_on_.with(1, 0.1);  // 1 while nothing is known, so that trees grow at first
      for (const double leaf : found.leaves) gain += std::max(0.0, leaf * reached - token);
      if (gain > price * (time(nodes, found.levels + more) - now)) return true;
    }
    return false;
  }

  /// How many of the best tokens are worth their time, at least one. Looks at all sizes, because the time of a target call
  /// may jump at some sizes, and hardly grow between them.
  template <class Time>
  Index paying_tokens(const GrowingDraft& found, double price, const Time& time) const {
    double tokens = 0, best_gain = 0;
    Index best = 0;
    for (Index nodes = 1; nodes <= std::ssize(found.values); ++nodes) {
      tokens += at(found.values, nodes - 1);
      const double gain = tokens - price * time(nodes, found.levels);
      if (best > 0 && !(gain > best_gain)) continue;
      best_gain = gain;
      best = nodes;
    }
    return best;
  }

 private:
  static constexpr Index looks_ahead = 4;
  static constexpr std::size_t ranks = 5;  // younger siblings are alike

  static std::size_t place(Index rank) { return std::min(static_cast<std::size_t>(rank), ranks - 1); }

  double drawn_acceptance(double confidence, Index rank) const {
    const std::size_t own = place(rank);
    double elders_rejected = 1;
    for (std::size_t elder = 0; elder < own; ++elder) elders_rejected *= 1 - drawn_[elder](confidence);
    const double accepted = drawn_[own](confidence);
    return elders_rejected * std::pow(1 - accepted, rank - static_cast<Index>(own)) * accepted;
  }

  // `accepted`: the rank of the sibling that was accepted, or −1.
  void add(bool drawn, double probability, Index rank, Index accepted) {
    if (!drawn) return (rank == 0 ? eldest_ : others_).add(probability, rank == accepted);
    if (accepted < 0 || rank <= accepted) drawn_[place(rank)].add(probability, 1, rank == accepted ? 1 : 0);
  }

  AcceptanceByProbability eldest_, others_;  // of chosen tokens
  std::array<SurvivalByConfidence, ranks>
      drawn_;           // of drawn tokens whose elder siblings were rejected, by rank
  FadingMean goes_on_;  // how often one of the children of an accepted token is accepted
};

}  // namespace specdec::detail

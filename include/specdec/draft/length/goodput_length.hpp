// The draft length of a batch's greatest goodput.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/running_survival.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Chooses the γ of greatest goodput, for sequences that share their target calls:
///
///   batch · (1 + Σ_{i < γ} P(τ > i)) / (target_cost(tokens of the call) + γ · draft_cost(batch)),
///
/// Goodput is emitted tokens per unit of cost. A target call takes in batch · (1 + the proposed tokens) tokens. Calls of
/// large batches are bound by arithmetic, not by reading weights: there each drafted token costs time, and γ shrinks, down
/// to 0. The objective is CostOptimalLength's, but the costs are known beforehand.
///
///   GoodputLength length{32, target_cost, draft_cost};    // one for the whole batch
///   const Index gamma = length.next(16);                  // once for each call that all sequences share
///   length.observe(step);                                 // then for every sequence
///   length.batch(29);                                     // as sequences end
///
/// `target_cost(n)` is the cost of a target call over n tokens of all sequences together. `draft_cost(b)` is the cost of
/// drafting one token for each of b sequences. Each may be a CostCurve that is filled when the engine starts.
///
/// Source: SmartSpec's goodput (Liu et al., "Optimizing Speculative Decoding for Serving Large Language Models
/// Using Goodput", arXiv:2406.14066). Deviation: acceptance by position, from StepRecord::survival, not a single rate.
/// While γ = 0 nothing is learnt about the drafter. So a probe drafts now and then: when `probing` times the cost since the
/// last draft covers the probe's expected loss. The first steps draft to learn, too. What the draft model must then read of
/// the texts that were written without it is not part of the loss: its cost is not known here.
/// Considers lengths up to RunningSurvival::reach.
/// Throws: std::invalid_argument unless 1 <= batch <= largest_batch, window >= 1 and 0 < probing < 1, and where
/// next() gets a negative number.
/// Cost: O(1) a step for each length considered.
template <std::invocable<Index> TargetCost, std::invocable<Index> DraftCost>
class GoodputLength {
 public:
  /// `window`: steps of the batch after which a step is mostly forgotten.
  GoodputLength(Index batch, TargetCost target_cost, DraftCost draft_cost, double window = 100,
                double probing = 0.01)
      : batch_(batch),
        target_cost_(std::move(target_cost)),
        draft_cost_(std::move(draft_cost)),
        probing_(probing),
        window_(window),
        survival_(1) {
    if (!(window >= 1)) detail::invalid_argument("window = ", window, " is below 1");
    if (!(probing > 0 && probing < 1)) detail::invalid_argument("probing = ", probing, " is outside (0, 1)");
    this->batch(batch);
  }

  /// The most sequences: the tokens of one call of all of them fit into an Index.
  static constexpr Index largest_batch = Index{1} << 30;

  /// From now on, calls are shared by this many sequences.
  void batch(Index sequences) {
    if (sequences < 1) detail::invalid_argument("batch = ", sequences, " is below 1");
    if (sequences > largest_batch)
      detail::invalid_argument("batch = ", sequences, " is more than ", largest_batch, " sequences");
    batch_ = sequences;
    survival_.decay(1 - 1 / (window_ * static_cast<double>(sequences)));
  }

  Index next(Index gamma) {
    const Index most = survival_.reach(gamma);
    survival_.reserve(most);
    if (drafts_ < first_drafts) return std::min(most, first_length);
    const Index best = best_from(0, most);
    if (best > 0 || most == 0) return best;
    const Index probe = best_from(1, most);
    const Expected lost = estimate(probe);
    return earned_ >= lost.cost - lost.tokens / goodput(0) ? probe : 0;
  }

  /// Enters the step of one of the batch's sequences.
  void observe(const StepRecord& step) {
    if (step.asked > 0) {
      ++drafts_;
      earned_ = 0;
    } else {
      earned_ += probing_ * target_cost_(batch_) / static_cast<double>(batch_);
    }
    survival_.observe(step);
  }

  /// The tokens that the batch is expected to emit per unit of cost if each sequence drafts gamma tokens.
  /// Throws: std::invalid_argument unless gamma is in 0..most of an earlier next(most), and is a length that is considered
  /// (see the class).
  double goodput(Index gamma) const {
    if (gamma < 0 || gamma > survival_.most())
      detail::invalid_argument("gamma = ", gamma, " is outside 0..", survival_.most(),
                               ", the lengths that are looked at");
    return estimate(gamma).goodput();
  }

 private:
  struct Expected {
    double tokens = 0, cost = 0;  // of a step of the batch
    double goodput() const { return tokens / cost; }
  };

  // Calls f(gamma, estimate) for gamma = 0, 1, ... as far as there is room for drafts.
  template <class F>
  void for_each_length(F&& f) const {
    const double sequences = static_cast<double>(batch_), drafted_token = draft_cost_(batch_);
    double emitted = 1, fed = 1;  // of each sequence
    const auto of = [&](Index gamma) {
      const auto tokens = static_cast<Index>(sequences * fed + 0.5);
      return Expected{sequences * emitted, target_cost_(tokens) + static_cast<double>(gamma) * drafted_token};
    };
    f(Index{0}, of(0));
    survival_.for_each_position([&](Index i, double proposed, double survival) {
      fed += proposed;
      emitted += survival;
      f(i + 1, of(i + 1));
    });
  }

  Expected estimate(Index gamma) const {
    Expected out;
    for_each_length([&](Index length, const Expected& e) {
      if (length == gamma) out = e;
    });
    return out;
  }

  // Among equally good lengths, the shortest.
  Index best_from(Index first, Index most) const {
    Index best = first;
    double goodput = -1;
    for_each_length([&](Index length, const Expected& e) {
      if (length < first || length > most || !(e.goodput() > goodput)) return;
      best = length;
      goodput = e.goodput();
    });
    return best;
  }

  static constexpr Index first_drafts = 8, first_length = 4;

  Index batch_;
  TargetCost target_cost_;
  DraftCost draft_cost_;
  double probing_, window_;
  RunningSurvival survival_;
  Index drafts_ = 0;
  double earned_ = 0;  // what the next probe may lose
};

}  // namespace specdec

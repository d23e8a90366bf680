// Ends a draft where the next token is not worth its time.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <iterator>
#include <span>
#include <utility>

#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/keep_drafting.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/lengths/by_probability.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/more/lengths/step_costs.hpp"
#include "specdec/more/lengths/tree_growth.hpp"
#include "specdec/more/lengths/trials.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {

/// The options of EarlyStoppingLength.
struct EarlyStoppingOptions {
  double window = 200;    ///< steps after which a step is mostly forgotten
  double probing = 0.01;  ///< the share of the time that probes may cost
};

/// Ends a draft where the next token is not worth its time. Looks at each row of the draft model: where the model is confident
/// drafts are long, where it is not they end.
///
///   SpecDec decoder{target, ModelDrafter{small}, BlockVerifier{}, EarlyStoppingLength{}};
///
/// After a drawn token let c_1..c_n be the confidences of the rows so far: the largest probability of each row, before
/// temperature and cuts. The draft goes on if for some k >= 1, up to 4,
///
///   a(c_1)···a(c_n) · b(c_n) · (1 + m + ... + m^{k−1})  >  λ · (time of a step with n + k tokens − time of one with n).
///
/// a(c) is the probability that a token drawn from a row of confidence c survives, and b(c) that of the token after it, both
/// given that all tokens before it survive; m is the mean of a. λ is the tokens a second that the steps attain: a token that
/// brings less is better left to the next step. All of these are running estimates from the steps' survival and times.
///
/// If steps with drafts emit fewer tokens a second than steps without, nothing is drafted. Probes are steps that try a longer
/// draft or none, or while nothing is drafted any draft, for two steps and as long as it pays. A probe waits until `probing`
/// times the time spent since the last probe covers its cost, with what the draft model must read then, as in CostOptimalLength.
/// For the first steps see detail::Trials. If the drafter shows no rows (it drafts from text), all drafts have one length, by m.
/// In a batch, one EarlyStoppingLength{BatchCosts{target_cost, draft_cost}} is for all texts: see BatchCosts. With Spares this is
/// the length of the trunk, and Options::gamma counts all tokens of the tree.
///
/// With ConfidentTree each tree gets the levels and the tokens that are worth their time:
///
///   SpecDec decoder{target, ModelDrafter{small, ConfidentTree{.depth = 8, .nodes = 64}},
///                   TrunkAndSpares<SampleMatchVerifier>{}, EarlyStoppingLength{}};
///
/// The value of a token is the probability that it is accepted: the product along its path of what is learnt about tokens of such
/// a draft probability (before temperature and cuts), for the likeliest tokens of rows and for their siblings. The most valuable
/// tokens are proposed: as many as have the largest Σ value − λ · (time of the target call). Another level is grown if its tokens
/// are expected to bring more than λ · (time of a call of the draft model). The numbers of ConfidentTree and Options::gamma,
/// which counts all tokens, are the largest that are considered. With Tree and drawn siblings, each node gets as many of the
/// shape's children as are worth their time, before they are drawn. The acceptance of a child is learnt by the number of its
/// elder siblings and by the confidence of the row. The shape may be large: no more is drawn than pays.
///
///   SpecDec decoder{target, ModelDrafter{small, Tree{TreeShape::of_widths({6, 2, 2, 1, 1, 1}), WithoutReplacement{}}},
///                   TraversalVerifier{}, EarlyStoppingLength{}};
///
/// For trees of other drafters the length is a number of tokens, by how often the eldest tokens are accepted.
/// Source: ours; a threshold on the probability of survival, as in Huang et al., "SpecDec++", arXiv:2405.19715. Deviation: that
/// paper trains a network to predict survival, and fixes the cost of a token. For trees: see detail::TreeGrowth. Lossless, like
/// every DraftLength. But the tokens for a seed depend on the speed of the machine (with KeyedVerifier they do not).
/// Throws: InvalidArgument unless window >= 1 and 0 < probing < 1, and if `most` is negative; InvalidDistribution on a
/// row if its largest number is no probability.
/// Cost: an argmax of each row of the draft model, and the log-sum-exp of each row of logits; for a tree at most O(tokens²)
/// for each level. No allocation, except where a draft is longer than ever before.
template <class Costs = detail::StepCosts>
class EarlyStoppingLength {
 public:
  using Options = EarlyStoppingOptions;
  static constexpr bool counts_nodes = true;

  static constexpr bool serves_one_text = std::same_as<Costs, detail::StepCosts>;  ///< each() may copy it

  explicit EarlyStoppingLength(const Options& options = {})
    requires std::same_as<Costs, detail::StepCosts>
      : EarlyStoppingLength(Costs(detail::decay_of(options.window)), options) {}
  explicit EarlyStoppingLength(Costs costs, const Options& options = {})
      : decay_(detail::decay_of(options.window)), trials_(options.probing), costs_(std::move(costs)) {}

  /// This length serves so many texts from now on, which share their calls. A Batch or a CascadeDrafter calls it.
  void batch(Index texts) {
    costs_.batch(texts);
    trials_.share_by(texts);
  }

  Index next(Index most) {
    if (most < 0) detail::invalid_argument("most = ", most, " is negative");
    const Index reach = std::min(most, std::max(least_reach, std::min(2 * longest_, longest_draft)));
    costs_.reserve({.nodes = reach, .depth = reach});
    plan(reach);
    return most_;
  }

  More more(const GrowingDraft& draft) const {
    if (!draft.readings.empty()) return {.level = is_longer(draft.readings)};
    // First trees and probes are larger, not only deeper.
    const Index least = least_ > 1 ? nodes_of(least_) : 1, all = std::ssize(draft.values);
    const double price = tokens_per_second();
    const Index paying = survival_.tree.paying_tokens(draft, price, costs_);
    return {.level = !draft.leaves.empty() && is_higher(draft, paying, price),
            .tokens = std::min(std::max(least, paying), all)};
  }

  /// Of the tokens of trees, chosen and drawn ones.
  double acceptance(const CandidateToken& candidate) const { return survival_.tree.acceptance(candidate); }

  void observe(const StepRecord& step) {
    detail::check_step(step);
    if (step.tree.depth < 0 && std::ssize(step.survival) < step.drafted)
      detail::invalid_argument("step.survival has ", step.survival.size(), " numbers for ", step.drafted,
                               " drafted tokens");
    if (most_ < 0) return;  // next() was never asked
    costs_.observe(step);
    if (step.drafted > 0) learn(step);
    if (trials_.begin()) return trials_.begin_with(step, most_);
    schedule(step);
  }

  /// Whether steps with drafts are expected to emit more tokens a second than steps without.
  bool drafts() const { return drafts_; }

 private:
  // ---- How far a draft goes ------------------------------------------------------------------------------

  // Every draft has at least least_ and at most most_ tokens, if the drafter proposes so many.
  void plan(Index reach) {
    const bool probes = trials_.probe();
    if (trials_.begin()) {
      most_ = least_ = std::min(trials_.first_length(), reach);
    } else if (probes && drafts_ ? probe_length_ == 0 : !drafts_ && !probes) {
      most_ = least_ = 0;
    } else {
      most_ = reach;
      least_ = std::min(probes && drafts_ ? probe_length_ : 1, reach);
      if (unread_ < recently) most_ = least_ = std::min(std::max(least_, common_length(reach)), reach);
    }
  }

  // The length of all drafts of a drafter that shows no rows.
  Index common_length(Index reach) const {
    Index length = 1;
    const double mean = survival_.read.mean();
    for (double survives = mean; length < reach && pays(length, survives *= mean);) ++length;
    return length;
  }

  // Whether a line or a trunk goes on after rows of these confidences.
  bool is_longer(std::span<const double> confidences) const {
    const Index drafted = std::ssize(confidences);
    if (drafted >= most_) return false;
    double survives = survival_.after(confidences.back());
    for (const double confidence : confidences) survives *= survival_.read(confidence);
    return drafted < least_ || pays(drafted, survives);
  }
  // Whether a tree gets another level.
  bool is_higher(const GrowingDraft& tree, Index paying, double price) const {
    if (tree.levels < least_) return true;
    return !trials_.begin() && survival_.tree.pays_level(tree, paying, price, costs_);
  }

  // Whether some more tokens after `drafted` tokens are worth their time. The first of them survives with this probability.
  bool pays(Index drafted, double survives) const {
    const double known = time(drafted), price = tokens_per_second();
    double gain = 0;
    for (Index more = 1; more <= looks_ahead; ++more) {
      gain += survives;
      if (gain > price * (time(drafted + more) - known)) return true;
      survives *= survival_.read.mean();
    }
    return false;
  }

  // Of a step with a line of so many tokens, or with a trunk and its spares.
  double time(Index length) const { return costs_(nodes_of(length), length); }
  // The usual number of tokens in so many levels.
  Index nodes_of(Index length) const {
    const double nodes = static_cast<double>(length) * (shape_.width.empty() ? 1 : shape_.width.value());
    return static_cast<Index>(nodes + 0.5);
  }

  double tokens_per_second() const { return std::max(drafting_rate(), 1 / costs_.plain()); }
  // Of steps with drafts; 0 while it is not known.
  double drafting_rate() const {
    return emitted_.tokens.empty() ? 0 : emitted_.tokens.value() / emitted_.seconds.value();
  }

  // ---- What a step teaches -------------------------------------------------------------------------------

  void learn(const StepRecord& step) {
    longest_ = std::max(longest_, step.drafted);
    const bool shown = !step.readings.empty() || !step.tree.probabilities.empty();
    unread_ = shown ? std::min(unread_ + 1, recently) : 0;
    survival_.fade(decay_);
    const double tokens = step.tree.depth < 0 ? learn_line(step) : learn_tree(step);
    shape_.depth.add_fading(static_cast<double>(step.depth()), decay_);
    shape_.width.add_fading(static_cast<double>(step.drafted) / static_cast<double>(step.depth()), decay_);
    if (trials_.begin()) return;  // times are not known yet
    emitted_.tokens.add_fading(tokens, decay_);
    emitted_.seconds.add_fading(costs_(step.drafted, step.depth()), decay_);
  }

  // Both return how many tokens the step is expected to emit.
  double learn_line(const StepRecord& step) {
    double reached = 1, tokens = 1;
    for (Index i = 0; i < step.drafted; ++i) {
      const double survived = detail::at(step.survival, i);
      enter(step, i, reached, survived);
      tokens += reached = survived;
    }
    return tokens;
  }
  double learn_tree(const StepRecord& step) {
    if (step.tree.probabilities.empty()) learn_trunk(step);
    else survival_.tree.learn(step.tree);
    return static_cast<double>(step.accepted) + 1;
  }
  void learn_trunk(const StepRecord& step) {
    const auto& ranks = step.tree.ranks;
    const auto off = std::find_if(ranks.begin(), ranks.end(), [](Index rank) { return rank > 0; });
    const Index survived = off - ranks.begin(), drafted = std::ssize(step.readings);
    for (Index i = 0; i < std::min(survived + 1, drafted); ++i) enter(step, i, 1, i < survived ? 1 : 0);
  }

  void enter(const StepRecord& step, Index i, double reached, double survived) {
    const auto at = [&](Index k) { return detail::at(step.readings, k); };
    auto& [read, after, tree] = survival_;
    if (i < std::ssize(step.readings)) read.add(at(i), reached, survived);
    else read.add(reached, survived);
    if (i > 0 && i <= std::ssize(step.readings)) after.add(at(i - 1), reached, survived);
  }

  // ---- Whether to draft at all, and probes ---------------------------------------------------------------

  void schedule(const StepRecord& step) {
    if (trials_.probe()) {
      if (!trials_.end_with(step, costs_)) return;
      decide();
      return trials_.go_on(drafts_, costs_.plain());
    }
    if (drafts_) decide();  // else only a probe decides: what the drafter must read then has its price
    trials_.earn(step.drafted > 0 ? costs_(step.drafted, step.depth()) : costs_.plain());
    if (shape_.depth.empty()) return;
    const Index length = to_probe();
    if (trials_.begin_probe(costs_, drafts_, loss_of_probe(length))) probe_length_ = length;
  }

  void decide() {
    const double plain = 1 / costs_.plain();
    if (emitted_.tokens.weight() < (drafts_ ? few : 1)) return;  // a few drafts may fail by chance
    if (drafts_ ? drafting_rate() >= plain : !(drafting_rate() > (1 + margin) * plain)) return;
    drafts_ = !drafts_;
    if (drafts_) return;
    // From now on probes alone teach something, and they are rare: what was seen so far must not outvote them for long.
    emitted_.tokens.limit(few);
    emitted_.seconds.limit(few);
    survival_.limit(few);
  }

  Index usual() const { return std::max<Index>(1, static_cast<Index>(shape_.depth.value() + 0.5)); }
  // Lengths above the usual one, up to twice as long, in turn. While steps draft, every fourth probe drafts nothing: what a
  // step without a draft costs must not be forgotten.
  Index to_probe() const {
    const Index number = trials_.number(), longer = number - number / 4;
    return drafts_ && number % 4 == 3 ? 0 : usual() + 1 + longer % (usual() + 1);
  }

  // Of a step, in seconds, and no more than some ordinary steps take: a length that was measured once, on a stalled machine,
  // must get another try some day.
  double loss_of_probe(Index length) const {
    const double step = time(usual());
    const double loss = !drafts_      ? step * (1 - drafting_rate() * costs_.plain())
                        : length == 0 ? costs_.plain() - 1 / drafting_rate()
                                      : time(length) - step;
    return std::clamp(loss, 0.0, 3 * step);
  }

  static constexpr Index looks_ahead = 4, recently = 32, least_reach = 64;
  static constexpr double margin = 0.01, few = 12;

  struct Survival {
    detail::SurvivalByConfidence read, after;  // a and b
    detail::TreeGrowth tree;

    void fade(double decay) {
      read.fade(decay);
      after.fade(decay);
      tree.fade(decay);
    }
    void limit(double tokens) {
      read.limit(tokens);
      after.limit(tokens);
      tree.limit(tokens);
    }
  };
  struct Shape {
    FadingMean depth, width;  // width: the tokens for each level
  };
  struct Emitted {
    FadingMean tokens, seconds;
  };

  double decay_;
  detail::Trials trials_;
  Costs costs_;
  Survival survival_;
  Shape shape_;                  // of drafts
  Emitted emitted_;              // by steps with drafts
  Index longest_ = 0;            // tokens of the largest draft so far
  Index unread_ = recently;      // steps since a drafter showed no rows
  Index least_ = 0, most_ = -1;  // of the next draft: see plan(); most_ is −1 before the first next()
  bool drafts_ = true;
  Index probe_length_ = 0;
};

}  // namespace specdec

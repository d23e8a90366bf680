// Chooses the trunk and the spares that cost the least time per token, as measured while they are drafted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "specdec/draft/length/probe_budget.hpp"
#include "specdec/draft/length/spare_shares.hpp"
#include "specdec/draft/length/tree_costs.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/running_survival.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A draft length for trunks with spares: how long the trunk is, and how many spares stand beside which of its tokens; a
/// line or nothing at all where that is better.
///
///   CostOptimalSpares spares;
///   SpecDec decoder{target, ModelDrafter{small, Spares{std::cref(spares)}}, TrunkAndSpares<BlockVerifier>{}, spares};
///
/// With s(d, k) the chance that the rule leaves the trunk at depth d for the k-th spare there, each spare adds s(d, k)
/// tokens to a step, for no call of the drafter. So of n spares the n greatest are the best, and γ and n are those of the
/// least expected time per token,
///
///   (draft cost(γ) + target cost(γ + n + 1)) / (1 + Σ_{i < γ} P(τ > i) + Σ s(d, k)),
///
/// by running estimates of both sides: what survives of the trunk at each position, which of the spares there is hit
/// where it stops (of all depths together as long as little is known of one), and what drafts of each depth and target
/// calls of each size take. It begins with two steps each of spares, of a line, of nothing and of a longer line. What it
/// drafts gives way to what is better by 2 %, as less may be noise. A probe now and then has a spare more, some more, none,
/// or another trunk, and while switched off the best draft there is, for two steps; it waits until the share `probing` of
/// the time spent would pay for what it is expected to lose.
/// Source: ours; the objective is that of CostOptimalLength.
/// Lossless: a shape depends on the past alone. The tokens of a seed then depend on how fast the machine was (not under KeyedVerifier).
/// Throws: std::invalid_argument unless most_nodes is in 1..256, most_trunk in 1..64, window >= 16 and 0 < probing < 1.
/// Cost: some microseconds every fourth step. No allocation but where it changes what is drafted.
class CostOptimalSpares {
 public:
  struct Options {
    Index most_nodes = 64;  ///< tokens of the trunk, and spares
    Index most_trunk = 16;
    double window = 300;    ///< steps after which an estimate has mostly forgotten
    double probing = 0.01;  ///< share of the time that probes may cost
  };

  static constexpr bool counts_nodes = true;

  CostOptimalSpares() : CostOptimalSpares(Options{}) {}

  explicit CostOptimalSpares(const Options& options)
      : options_(checked(options)),
        budget_(options.probing),
        costs_(1 - 1 / options.window),
        survival_(1 - 1 / options.window),
        shares_(options.most_trunk, 1 - 1 / options.window),
        survived_(static_cast<std::size_t>(options.most_trunk)),
        beside_(survived_.size()) {
    survival_.reserve(options.most_trunk);
    costs_.reserve(options.most_nodes, options.most_trunk);
    for (Plan* plan : {&plan_, &best_, &probe_}) plan->spares.reserve(survived_.size());
  }

  Index next(Index most) {
    most_ = std::min(most, options_.most_nodes);
    follow(current());
    return std::min(shape_.size(), most_);
  }

  void observe(const StepRecord& step) {
    detail::check_step(step);
    learn(step);
    costs_.observe(step);
    ++steps_;
    if (steps_ < first_steps) return;
    schedule(step);
    if (probe_steps_ == 0 && steps_ % choice_every == 0) choose();
  }

  /// The shape of the next tree, for a drafter: what next() has chosen. The eldest children are the trunk.
  const TreeShape& shape() const& { return shape_; }
  const TreeShape& shape() const&& = delete;

  /// The shape of the least estimated time per token, probes apart.
  TreeShape best() const { return shape_of(best_); }

 private:
  // spares[d] beside the token of the trunk behind d others.
  struct Plan {
    std::vector<Index> spares;

    Index trunk() const { return std::ssize(spares); }
    Index nodes() const {
      Index sum = trunk();
      for (const Index beside : spares) sum += beside;
      return sum;
    }
    friend bool operator==(const Plan&, const Plan&) = default;
  };

  static constexpr Index first_steps = 8, choice_every = 4, few_spares = 3;
  static constexpr double margin = 0.02, few = 12;

  static const Options& checked(const Options& options) {
    if (options.most_nodes < 1 || options.most_nodes > 256)
      detail::invalid_argument("most_nodes = ", options.most_nodes, " is outside 1..256");
    if (options.most_trunk < 1 || options.most_trunk > 64)
      detail::invalid_argument("most_trunk = ", options.most_trunk, " is outside 1..64");
    if (!(options.window >= 16)) detail::invalid_argument("window = ", options.window, " is below 16");
    return options;
  }

  // ---- What is drafted --------------------------------------------------------------------------------

  const Plan& current() {
    if (steps_ >= first_steps) return probe_steps_ > 0 ? probe_ : best_;
    // Two steps of each, as the first of them may let a draft model catch up, which is not timed.
    static constexpr Index trunks[] = {2, 2, 0, 4};
    const auto setting = static_cast<std::size_t>(steps_ / 2);
    probe_.spares.assign(static_cast<std::size_t>(std::min(trunks[setting], options_.most_trunk)), 0);
    if (setting == 0)
      for (std::size_t d = 0; d < probe_.spares.size(); ++d) probe_.spares[d] = d == 0 ? 2 : 1;
    return probe_;
  }

  void follow(const Plan& plan) {
    if (plan_ == plan) return;
    shape_ = shape_of(plan);
    plan_.spares.assign(plan.spares.begin(), plan.spares.end());
  }

  static TreeShape shape_of(const Plan& plan) {
    std::vector<Index> parents;
    Index trunk = -1;
    for (const Index beside : plan.spares) {
      const Index drawn = std::ssize(parents);
      parents.insert(parents.end(), static_cast<std::size_t>(beside) + 1, trunk);
      trunk = drawn;
    }
    return TreeShape(std::span<const Index>(parents));
  }

  // ---- What is learnt ---------------------------------------------------------------------------------

  void learn(const StepRecord& step) {
    const Index trunk = std::min(step.depth(), options_.most_trunk);
    if (trunk == 0) return;
    const auto& [depth, ranks, offered] = step.tree;
    const auto off = std::ranges::find_if(ranks, [](Index rank) { return rank > 0; });
    const Index accepted = std::min(depth < 0 ? step.accepted : off - ranks.begin(), trunk);
    std::fill_n(survived_.begin(), accepted, 1.0);
    std::fill(survived_.begin() + accepted, survived_.end(), 0.0);
    survival_.observe({.asked = trunk, .drafted = trunk, .accepted = accepted, .survival = survived_});
    if (depth < 0 || accepted == trunk) return;
    const Index spares = offered[static_cast<std::size_t>(accepted)] - 1;
    shares_.observe(accepted, spares, off == ranks.end() ? -1 : *off - 1);
  }

  // ---- The best plan ----------------------------------------------------------------------------------

  // What a token beside the trunk adds to a step, by depth and rank; and the tokens of a step with the trunk alone.
  struct Beside {
    double survival = 0;  // P(τ > d)
    double stop = 0;      // P(τ = d) where the trunk goes on
    detail::SpareShares::Shares shares{};

    double spare(Index k) const {
      return k < static_cast<Index>(shares.size()) ? stop * shares[static_cast<std::size_t>(k)] : 0;
    }
    double all_spares() const {
      double sum = 0;
      for (const double share : shares) sum += stop * share;
      return sum;
    }
  };

  void estimate() {
    double before = 1;
    survival_.for_each_position([&](Index d, double, double survival) {
      Beside& here = beside_[static_cast<std::size_t>(d)];
      here.survival = std::min(survival, before);
      here.stop = before - here.survival;
      here.shares = shares_.at(d);
      before = here.survival;
    });
  }

  double tokens(const Plan& plan) const {
    double sum = 1;
    for (std::size_t d = 0; d < plan.spares.size(); ++d) {
      sum += beside_[d].survival;
      for (Index k = 0; k < plan.spares[d]; ++k) sum += beside_[d].spare(k);
    }
    return sum;
  }
  double time(const Plan& plan) const { return costs_(plan.nodes(), plan.trunk()); }
  double time_per_token(const Plan& plan) const { return time(plan) / tokens(plan); }

  struct Size {
    Index trunk = 0, nodes = 0;
    double time = 0;  // per token
  };

  void choose() {
    estimate();
    now_ = time_per_token(best_);
    const Size drafting = best_draft();
    const Size nothing{0, 0, costs_(0, 0)}, found = drafting.time < nothing.time ? drafting : nothing;
    if (found.time < (1 - margin) * now_ || best_.nodes() > most_) {
      fill(best_, found);
      now_ = found.time;
    }
    plan_probe(drafting);
  }

  // Of those that draft something.
  Size best_draft() {
    if (most_ < 1) return {0, 0, costs_(0, 0)};
    Size best{1, 1, costs_(1, 1) / (1 + beside_[0].survival)};
    double line = 1, most_tokens = 1;  // by the trunk; with all the spares that there may be
    for (Index trunk = 1; trunk <= std::min(options_.most_trunk, most_); ++trunk) {
      const Beside& last = beside_[static_cast<std::size_t>(trunk - 1)];
      line += last.survival;
      most_tokens += last.survival + last.all_spares();
      consider_spares(trunk, line, most_tokens, best);
    }
    return best;
  }

  void consider_spares(Index trunk, double tokens, double most_tokens, Size& best) {
    probe_.spares.assign(static_cast<std::size_t>(trunk), 0);
    for (Index nodes = trunk; nodes <= most_; ++nodes) {
      const double time = costs_(nodes, trunk);
      if (!(time < best.time * most_tokens)) return;
      if (time < best.time * tokens) best = {trunk, nodes, time / tokens};
      tokens += add_spare(probe_);
    }
  }

  // The spare that adds most; what it adds.
  double add_spare(Plan& plan) const {
    std::size_t best = 0;
    for (std::size_t d = 1; d < plan.spares.size(); ++d)
      if (beside_[d].spare(plan.spares[d]) > beside_[best].spare(plan.spares[best])) best = d;
    return beside_[best].spare(plan.spares[best]++);
  }

  void fill(Plan& plan, const Size& size) const {
    plan.spares.assign(static_cast<std::size_t>(size.trunk), 0);
    for (Index nodes = size.trunk; nodes < size.nodes; ++nodes) add_spare(plan);
  }

  // ---- Probes -----------------------------------------------------------------------------------------

  void schedule(const StepRecord& step) {
    if (probe_steps_ > 0) {
      --probe_steps_;
      return;
    }
    budget_.earn(step);
    if (probe_ == best_ || !budget_.affords(probe_loss_)) return;
    budget_.spend();
    ++probes_;
    probe_steps_ = steps_of_probe();
    // While nothing is drafted nothing is learnt but from probes, which are rare: what is known of acceptance is not to
    // outvote them for long.
    if (best_.trunk() == 0) survival_.limit(few);
  }

  // After a step without a draft the first one with it may not be timed.
  Index steps_of_probe() const { return best_.trunk() == 0 ? 2 : 1; }

  void plan_probe(const Size& drafting) {
    if (best_.trunk() == 0) {
      fill(probe_, drafting);
    } else {
      probe_.spares.assign(best_.spares.begin(), best_.spares.end());
      vary(probe_);
    }
    // What has been measured once, by a stalled machine, is not to be shunned for good.
    const double loss = std::min(time(probe_) - tokens(probe_) * now_, 3 * time(best_));
    probe_loss_ = static_cast<double>(steps_of_probe()) * loss;
  }

  void vary(Plan& plan) const {
    const Index room = most_ - plan.nodes();
    switch (probes_ % 5) {
      case 0:
        if (room > 0) add_spare(plan);
        else plan.spares.pop_back();
        return;
      case 1:
        if (room > 0 && plan.trunk() < options_.most_trunk) plan.spares.push_back(0);
        else plan.spares.pop_back();
        return;
      case 2:
        plan.spares.pop_back();
        return;
      case 3:
        std::ranges::fill(plan.spares, 0);
        if (plan == best_) plan.spares.pop_back();
        return;
      default:
        if (room == 0) plan.spares.pop_back();
        for (Index more = 0; more < std::min(room, few_spares); ++more) add_spare(plan);
    }
  }

  Options options_;
  detail::ProbeBudget budget_;
  detail::TreeCosts costs_;
  RunningSurvival survival_;  // of the trunk
  detail::SpareShares shares_;
  std::vector<double> survived_;  // of one step's trunk
  std::vector<Beside> beside_;    // by depth
  TreeShape shape_;
  Plan plan_, best_, probe_;  // plan_ is that of shape_
  double now_ = 0;            // seconds per token of the best
  double probe_loss_ = 0;     // seconds
  Index most_ = 0, steps_ = 0;
  Index probes_ = 0, probe_steps_ = 0;
};

}  // namespace specdec

// The draft of the least time per token, as measured.
#pragma once

#include <algorithm>
#include <limits>

#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/line_shapes.hpp"
#include "specdec/draft/length/probe_budget.hpp"
#include "specdec/draft/length/shape_plan.hpp"
#include "specdec/draft/length/step_costs.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// What CostOptimalLength does whatever shapes it chooses from.
struct CostOptimalOptions {
  double window = 0;      ///< steps after which an estimate has mostly forgotten; 0: what suits the family
  double probing = 0.01;  ///< share of the time that probes may cost
};

/// Chooses, step by step, the draft of the least expected time per token,
///
///   (E[draft time] + E[target time]) / (1 + the drafted tokens that are expected to be accepted),
///
/// among the shapes of a family: lines, trunks with spares, trees. To draft nothing, ordinary decoding, is one of the choices:
/// a drafter that does not pay is switched off.
///
///   SpecDec line{target, ModelDrafter{small}, BlockVerifier{}, CostOptimalLength{}};
///   CostOptimalLength trees{TreeShapes{.most_nodes = 32}};                          // or SpareShapes{}
///   SpecDec tree{target, ModelDrafter{small, Tree{std::cref(trees), WithoutReplacement{}}}, TraversalVerifier{}, trees};
///
/// Both sides are running estimates: the family learns what survives of a draft, and drafts of each depth and target calls
/// of each size are timed; a size that was not measured is taken to lie on a line through those that were. It begins with
/// two steps each of a tree (in families that branch), a line, nothing and a longer line. What it drafts gives way to what
/// is better by 1 %, as less may be noise.
/// What is not tried cannot be known. So now and then a probe drafts a longer, smaller, barer or bushier shape or, among
/// lines, the next of a round over all lengths. While nothing is drafted, a probe is the best draft there is, for two steps:
/// the first lets a draft model catch up and is not timed. A probe waits until the share `probing` of the time spent would
/// pay for what it is expected to lose.
/// Source: the objective is that of Leviathan et al., arXiv:2211.17192, Theorem 3.8, with measured curves in the place of α
/// and c.
/// Texts of different Options::gamma may share one: it chooses for the largest, and the others draft as much of that as they
/// may.
/// Lossless: as every DraftLength. The tokens of a seed then depend on how fast the machine was (not under KeyedVerifier).
/// Throws: std::invalid_argument unless window >= 1 (or 0) and 0 < probing < 1, where the family is out of its bounds, and
/// where `most` is negative.
/// Cost: lines are chosen at every step, in some microseconds for 64 lengths; the time grows as their square, to half a
/// millisecond for a thousand of them. Other shapes are chosen at every fourth step, in some tens of microseconds for 64
/// nodes. No allocation but where the shape of a tree changes, or something is larger than all before.
///
/// A family of your own is a struct with a `usual_window` and a class Learner,
///
///   branches                    a static constant: whether there are shapes beside lines
///   Learner(family, decay)      decay: what is left of a step's weight after another one
///   reach(most)                 how large a draft may be for now, as DraftLimits, where next() may ask for `most` tokens
///   observe(step)               learns from a step
///   limit(steps)                from now on, what was seen so far counts as so many steps at most
///   estimate()                  brings up to date what follows
///   proposed(i)                 P(the drafter proposes more than i tokens, if it is asked for them); 1 where it always does
///   reached(before, depth, rank, after_trunk)
///                               P(a token is accepted that is the child of this rank of a token at this depth, the context
///                               being at 0); falls with the rank. Its parent is accepted with the probability `before`;
///                               `after_trunk`: the parent is the context, or is reached over eldest children alone
template <class Family = LineShapes>
class CostOptimalLength {
  static_assert(
      requires { typename Family::Learner; },
      "CostOptimalLength takes a family of shapes: LineShapes, SpareShapes, TreeShapes or one of your own");
  using Learner = typename Family::Learner;

 public:
  using Options = CostOptimalOptions;
  static constexpr bool counts_nodes = Learner::branches;

  explicit CostOptimalLength(const Options& options = {}) : CostOptimalLength(Family{}, options) {}
  explicit CostOptimalLength(const Family& family, const Options& options = {})
      : budget_(options.probing), costs_(decay(options)), learnt_(family, decay(options)) {}

  Index next(Index most) {
    if (most < 0) detail::invalid_argument("most = ", most, " is negative");
    const DraftLimits reach = learnt_.reach(most);
    limits_.nodes = std::max(limits_.nodes, reach.nodes);
    limits_.depth = std::max(limits_.depth, std::min(reach.depth, reach.nodes));
    costs_.reserve(limits_);
    const ShapePlan& plan = current();
    if constexpr (counts_nodes) follow(plan);
    asked_ = std::min(plan.size(), reach.nodes);
    return asked_;
  }

  void observe(const StepRecord& step) {
    detail::check_step(step);
    if (asked_ < 0) return;  // next() was never asked
    learnt_.observe(step);
    costs_.observe(step);
    if (limits_.nodes == 0) return;
    if (first_ < first_plans) return begin_with(step);
    ++steps_;
    const bool probed = probe_steps_ == 1;
    schedule(step);
    if (probe_steps_ == 0 && (probed || steps_ % choice_every == 0)) choose();
  }

  /// The shape of the next tree, for a drafter: what next() has chosen.
  const TreeShape& shape() const&
    requires(counts_nodes)
  {
    return shape_;
  }
  const TreeShape& shape() const&& = delete;

  /// What is estimated to take the least time per token, probes apart.
  const ShapePlan& best() const& { return best_; }
  const ShapePlan& best() const&& = delete;

  /// The longest line that is looked at so far. -1 before next() was asked.
  Index longest() const { return limits_.depth; }

  /// The estimate for a line of gamma tokens, in seconds.
  /// Throws: std::invalid_argument unless 0 <= gamma <= longest(). Means something after the first choice.
  double time_per_token(Index gamma) const {
    if (gamma < 0 || gamma > longest())
      detail::invalid_argument("gamma = ", gamma, " is outside 0..longest() = ", longest());
    const Line line = line_of(gamma);
    return time(line, gamma) / line.tokens;
  }

 private:
  static double decay(const Options& options) {
    if (options.window == 0) return 1 - 1 / Family::usual_window;
    if (!(options.window >= 1)) detail::invalid_argument("window = ", options.window, " is below 1");
    return 1 - 1 / options.window;
  }

  // ---- What is drafted --------------------------------------------------------------------------------

  const ShapePlan& current() {
    if (first_ < first_plans) probe_ = first_plan();
    return first_ < first_plans || probe_steps_ > 0 ? probe_ : best_;
  }

  void follow(const ShapePlan& plan) {
    if (plan_ == plan) return;
    shape_ = plan.tree();
    plan_ = plan;
  }

  // ---- The first steps --------------------------------------------------------------------------------

  ShapePlan first_plan() const {
    static constexpr Index trunks[] = {2, 2, 0, 4};
    const Index trunk = std::min(trunks[first_], limits_.depth);
    if (first_ > 0) return {trunk};
    return trunk < 2 ? ShapePlan{trunk, {-1, -1}} : ShapePlan{trunk, {-1, -1, 0}};
  }

  // Two steps of each, as the first of them may let a draft model catch up, which is not timed.
  void begin_with(const StepRecord& step) {
    if (step.asked > asked_ || step.fed != step.drafted + 1 || ++tries_ < 2) return;
    tries_ = 0;
    if (++first_ == first_plans) choose();
  }

  // ---- The best plan ----------------------------------------------------------------------------------

  // What a step with a line is expected to emit and, where the drafter proposes fewer tokens, to take.
  struct Line {
    Index length = 0;
    double reached = 1, tokens = 1;
    double all_proposed = 1, shorter = 0;  // seconds
  };

  void lengthen(Line& line) const {
    const Index i = line.length++;
    const double proposed = learnt_.proposed(i);
    if (proposed != line.all_proposed) line.shorter += (line.all_proposed - proposed) * costs_(i, i);
    line.all_proposed = proposed;
    line.tokens += line.reached = learnt_.reached(line.reached, i, 0, true);
  }
  Line line_of(Index length) const {
    Line line;
    while (line.length < length) lengthen(line);
    return line;
  }

  // Of a step whose draft has this line for a trunk.
  double time(const Line& trunk, Index nodes) const {
    return nodes == 0 ? costs_.plain() : trunk.shorter + trunk.all_proposed * costs_(nodes, trunk.length);
  }
  double time(const ShapePlan& plan) const { return time(line_of(plan.trunk), plan.size()); }
  double tokens(const ShapePlan& plan) {
    growing_.begin(learnt_, plan);
    return growing_.tokens();
  }

  struct Size {
    Index trunk = 0, nodes = 0;
    double time = std::numeric_limits<double>::infinity();  // per token
  };

  void choose() {
    learnt_.estimate();
    now_ = time(best_) / tokens(best_);
    const Size drafting = best_draft();
    const Size nothing{0, 0, costs_.plain()}, found = drafting.time < nothing.time ? drafting : nothing;
    if (found.time < (1 - margin) * now_ || best_.size() > limits_.nodes) {
      best_ = plan_of(found);
      now_ = found.time;
    }
    plan_probe(drafting);
  }

  // Of those that draft something.
  Size best_draft() {
    Size best;
    for (Line trunk; trunk.length < limits_.depth;) {
      lengthen(trunk);
      consider({trunk.length, trunk.length, time(trunk, trunk.length) / trunk.tokens}, best);
      if constexpr (counts_nodes) consider_others(trunk, best);
    }
    return best;
  }

  static void consider(const Size& found, Size& best) {
    if (found.time < best.time) best = found;
  }

  void consider_others(const Line& trunk, Size& best) {
    growing_.begin(learnt_, trunk.length);
    for (Index nodes = trunk.length; nodes < limits_.nodes && growing_.gain() > 0;) {
      const double most = growing_.tokens() + static_cast<double>(limits_.nodes - nodes) * growing_.gain();
      const double time = this->time(trunk, ++nodes);
      if (!(time < best.time * most)) return;
      growing_.add(learnt_);
      consider({trunk.length, nodes, time / growing_.tokens()}, best);
    }
  }

  const ShapePlan& plan_of(const Size& size) {
    growing_.begin(learnt_, size.trunk);
    while (growing_.plan().size() < size.nodes && growing_.gain() > 0) growing_.add(learnt_);
    return growing_.plan();
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
    if (best_.size() == 0) learnt_.limit(few);
  }

  // After a step without a draft the first one with it may not be timed.
  Index steps_of_probe() const { return best_.size() == 0 ? 2 : 1; }

  void plan_probe(const Size& drafting) {
    probe_ = plan_of(best_.size() == 0 ? revival(drafting) : neighbour());
    if (probe_ == best_) ++probes_;  // there is no such neighbour; the next choice tries the next one
    // What has been measured once, by a stalled machine, is not to be shunned for good.
    const double loss = std::min(time(probe_) - tokens(probe_) * now_, 3 * time(best_));
    probe_loss_ = static_cast<double>(steps_of_probe()) * loss;
  }

  // While nothing is drafted: the best draft there is, and in turn that with some tokens more beside it, of which nothing
  // would be learnt otherwise.
  Size revival(const Size& drafting) const {
    const Index more = counts_nodes && probes_ % 2 == 1 ? 3 : 0;
    return within({drafting.trunk, drafting.nodes + more});
  }

  // Costs that were measured in worse times are not to keep a shape out: smaller ones and lines are tried, too.
  Size neighbour() const {
    const Index trunk = best_.trunk, nodes = best_.size();
    switch (probes_ % (counts_nodes ? 5 : 3)) {
      case 0:
        return within({trunk + 1, nodes + 1});
      case 1:
        return smaller();
      case 2:
        return counts_nodes ? Size{trunk, trunk} : round();
      case 3:
        return within({trunk, nodes + 1});
      default:
        return within({trunk, nodes + std::max<Index>(1, nodes / 4)});
    }
  }
  // Of all lengths in turn.
  Size round() const {
    const Index length = probes_ / 3 % limits_.depth + 1;
    return {length, length};
  }
  Size smaller() const { return {best_.trunk - 1, best_.size() - 1}; }
  Size within(Size size) const {
    size.nodes = std::min(size.nodes, limits_.nodes);
    size.trunk = std::min({size.trunk, limits_.depth, size.nodes});
    return size;
  }

  static constexpr int first_plans = 4;
  static constexpr Index choice_every = counts_nodes ? 4 : 1;  // a choice among trees takes longer
  static constexpr double margin = 0.01, few = 12;

  detail::ProbeBudget budget_;
  detail::StepCosts costs_;
  Learner learnt_;
  detail::GrowingPlan<Learner> growing_;
  DraftLimits limits_{.nodes = -1, .depth = -1};
  ShapePlan best_, probe_, plan_;  // plan_ is that of shape_
  TreeShape shape_;
  Index asked_ = -1;
  int first_ = counts_nodes ? 0 : 1;  // which plan is tried at first
  int tries_ = 0;
  Index steps_ = 0;
  double now_ = 0;         // seconds per token of the best
  double probe_loss_ = 0;  // seconds
  Index probes_ = 0, probe_steps_ = 0;
};

}  // namespace specdec

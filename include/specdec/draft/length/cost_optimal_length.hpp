// Chooses the draft of the least measured time per token.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/line_shapes.hpp"
#include "specdec/draft/length/probe_budget.hpp"
#include "specdec/draft/length/shape_plan.hpp"
#include "specdec/draft/length/step_costs.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// The options of CostOptimalLength for every family of shapes.
struct CostOptimalOptions {
  double window = 0;      ///< steps after which a step is mostly forgotten; 0: the family's usual_window
  double probing = 0.01;  ///< the share of the time that probes may cost
};

namespace detail {

/// Compiles only if a CostOptimalLength can choose from this family of shapes.
template <class Family>
consteval bool fits_family() {
  constexpr bool learns = requires { typename Family::Learner; };
  static_assert(learns,
                "CostOptimalLength takes a family of shapes: LineShapes, SpareShapes, TreeShapes or one of "
                "your own");
  if constexpr (learns)
    static_assert(
        requires(typename Family::Learner& learner, double number, Index i, const StepRecord& step) {
          { Family::usual_window } -> std::convertible_to<double>;
          { Family::Learner::branches } -> std::convertible_to<bool>;
          requires std::constructible_from<typename Family::Learner, const Family&, double>;
          { learner.reach(i) } -> std::same_as<DraftLimits>;
          learner.observe(step);
          learner.limit(number);
          learner.estimate();
          { learner.proposed(i) } -> std::convertible_to<double>;
          { learner.reached(number, i, i, true) } -> std::convertible_to<double>;
        },
        "the family of shapes has no usual_window, or its Learner lacks branches, Learner(family, decay), "
        "reach(most), observe(step), limit(steps), estimate(), proposed(i) or reached(before, depth, rank, "
        "after_trunk): see specdec::CostOptimalLength");
  return true;
}

}  // namespace detail

/// Chooses, step by step, the draft of the least expected time per token,
///
///   (E[draft time] + E[target time]) / (1 + the drafted tokens that are expected to be accepted),
///
/// among the shapes of a family: lines, trunks with spares, trees. One choice is to draft nothing: a drafter that does not
/// pay is off, and decoding is ordinary.
///
///   SpecDec line{target, ModelDrafter{small}, BlockVerifier{}, CostOptimalLength{}};
///   CostOptimalLength trees{TreeShapes{.most_nodes = 32}};                          // or SpareShapes{}
///   SpecDec tree{target, ModelDrafter{small, Tree{std::cref(trees), WithoutReplacement{}}}, TraversalVerifier{}, trees};
///
/// Time and acceptance are running estimates. The family learns which drafted tokens are accepted. Drafts are timed by depth
/// and target calls by size; the cost of a size not yet measured is read from a line through the nearest measured sizes. The
/// first steps draft a tree (in families that branch), a line, nothing and a longer line, two steps each. Later the shape
/// changes only if another is better by 1 %; smaller differences may be noise.
/// A probe is a step that tries another shape, to learn about it: a longer, smaller, barer or bushier one. For lines, probes
/// also go through all lengths in turn. While nothing is drafted, a probe is the best draft, for two steps: the first step
/// lets a draft model catch up and is not timed. As long as its tokens pay, it goes on. A probe waits until `probing` times
/// the time spent since the last probe covers its expected loss and the time of catching up. Where catching up with a token
/// takes more than `probing` of a step, no wait would be long enough; then each pause is many times as long as the one
/// before (see detail::StepCosts::catching_up). Without a StepRecord::draft_time, as in a Batch, catching up counts as free.
/// Source: Leviathan et al., arXiv:2211.17192, Theorem 3.8, with measured curves for α and c.
/// Texts of different Options::gamma may share one CostOptimalLength: it chooses for the largest gamma. The other texts
/// draft as much of that shape as their gamma allows.
/// Lossless, like every DraftLength. But the tokens for a seed depend on the speed of the machine (with KeyedVerifier they
/// do not).
/// Throws: std::invalid_argument unless window >= 1 (or 0) and 0 < probing < 1, if a number of the family is out of its
/// bounds, and if `most` is negative.
/// Cost: lines are chosen at every step, in some microseconds for 64 lengths; the time grows with the square of the number
/// of lengths, to 1.2 milliseconds for a thousand. Other shapes are chosen at every fourth step, in some tens of
/// microseconds for 64 nodes. No allocation, except where the shape of a tree changes, or something is larger than ever
/// before.
///
/// A family of your own is a struct with a `usual_window` and a class Learner,
///
///   branches                    a static constant: whether the family has other shapes than lines
///   Learner(family, decay)      each step multiplies the weight of earlier steps by decay
///   reach(most)                 how large a draft may be for now, as DraftLimits, if next() may ask for `most` tokens
///   observe(step)               learns from a step
///   limit(steps)                from now on, everything seen so far counts as at most `steps` steps
///   estimate()                  updates the estimates for the two functions below
///   proposed(i)                 P(the drafter proposes more than i tokens, if asked for them); 1 if it always does
///   reached(before, depth, rank, after_trunk)
///                               P(a token is accepted). The token is the child of this rank of a parent at this depth
///                               (the context has depth 0); the parent is accepted with probability `before`. Falls with
///                               the rank. `after_trunk`: the parent is the context, or is on the path of eldest children
template <class Family = LineShapes>
class CostOptimalLength {
  static_assert(detail::fits_family<Family>());
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
    if (probe_steps_ > 0 || !(probed || steps_ % choice_every == 0)) return;
    choose(probed);
    if (probed) go_on_probing();
  }

  /// The shape of the next tree, which next() has chosen. For a drafter.
  const TreeShape& shape() const&
    requires(counts_nodes)
  {
    return shape_;
  }
  const TreeShape& shape() const&& = delete;

  /// The shape of the least estimated time per token. Not changed by probes.
  const ShapePlan& best() const& { return best_; }
  const ShapePlan& best() const&& = delete;

  /// The longest line that is considered so far; -1 before the first next().
  Index longest() const { return limits_.depth; }

  /// The estimate for a line of gamma tokens, in seconds.
  /// Pre: a choice has been made, else the number means nothing.
  /// Throws: std::invalid_argument unless 0 <= gamma <= longest().
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

  // ---- The shape of the next draft --------------------------------------------------------------------

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

  // Two steps of each plan: in the first step a draft model may have to catch up, and such a step is not timed.
  void begin_with(const StepRecord& step) {
    if (step.asked > asked_ || step.fed != step.drafted + 1 || ++tries_ < 2) return;
    tries_ = 0;
    if (++first_ == first_plans) choose(true);
  }

  // ---- The best plan ----------------------------------------------------------------------------------

  // The tokens that a step with a line is expected to emit, and the time for cases where the drafter proposes fewer tokens.
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

  // The time of a step with a draft of `nodes` tokens and this trunk.
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

  // `tried`: the drafter has drafted just now. Where nothing is drafted, only then does it begin again: costs that were
  // measured long ago are no reason to make it read all that was written since.
  void choose(bool tried) {
    learnt_.estimate();
    now_ = time(best_) / tokens(best_);
    const Size drafting = best_draft();
    const Size nothing{0, 0, costs_.plain()}, found = drafting.time < nothing.time ? drafting : nothing;
    const bool better = found.time < (1 - margin) * now_ && (tried || best_.size() > 0);
    if (better || best_.size() > limits_.nodes) {
      best_ = plan_of(found);
      now_ = found.time;
    }
    plan_probe(drafting);
  }

  // The best shape with at least one token.
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
      budget_.try_step(static_cast<double>(step.accepted + 1), costs_(step.drafted, step.depth()));
      return;
    }
    budget_.earn(step);
    if (probe_ == best_ || !costs_.allow(budget_, probe_loss_)) return;
    budget_.spend();
    ++probes_;
    probe_steps_ = steps_of_probe();
    // While nothing is drafted only probes teach something, and probes are rare: older observations of acceptance must not
    // outvote them for long.
    if (best_.size() == 0) learnt_.limit(few);
  }

  // While nothing is drafted, a probe goes on as long as it pays, until that is certain: it may be long until the next one.
  void go_on_probing() {
    if (best_.size() == 0 && budget_.pays(costs_.plain())) probe_steps_ = steps_of_probe();
  }

  // The first draft after a step without a draft may not be timed, so a second draft follows.
  Index steps_of_probe() const { return best_.size() == 0 ? 2 : 1; }

  void plan_probe(const Size& drafting) {
    probe_ = plan_of(best_.size() == 0 ? revival(drafting) : neighbour());
    if (probe_ == best_) ++probes_;  // no such neighbour exists; the next choice tries the next neighbour
    // Limits the loss: a shape that was measured once, on a stalled machine, must get another try some day.
    const double loss = std::min(time(probe_) - tokens(probe_) * now_, 3 * time(best_));
    probe_loss_ = static_cast<double>(steps_of_probe()) * loss;
  }

  // While nothing is drafted: the best draft. Every other time it has some more tokens beside it, to learn about these.
  Size revival(const Size& drafting) const {
    const Index more = counts_nodes && probes_ % 2 == 1 ? 3 : 0;
    return within({drafting.trunk, drafting.nodes + more});
  }

  // Smaller shapes and lines are tried, too: a shape must not stay out because it was measured on a busy machine.
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
  // Lines of all lengths in turn.
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
  ShapePlan best_, probe_, plan_;  // plan_: the plan of shape_
  TreeShape shape_;
  Index asked_ = -1;
  int first_ = counts_nodes ? 0 : 1;  // which of the first plans is in use
  int tries_ = 0;
  Index steps_ = 0;
  double now_ = 0;         // seconds per token of the best
  double probe_loss_ = 0;  // seconds
  Index probes_ = 0, probe_steps_ = 0;
};

}  // namespace specdec

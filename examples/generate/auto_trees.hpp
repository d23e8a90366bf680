// Trees whose shape is chosen while they are drafted, by what is measured to pay.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <specdec/specdec.hpp>
#include <string_view>
#include <utility>

#include "generate/lengths.hpp"
#include "generate/pair.hpp"
#include "generate/sampled.hpp"
#include "generate/trees.hpp"

namespace generate {

/// A policy that shapes trees, of which no more is known.
class Shaper : public Length {
 public:
  virtual const specdec::TreeShape& shape() const = 0;
};

template <specdec::DraftLength L>
class ShaperOf final : public Shaper {
 public:
  explicit ShaperOf(L policy) : policy_(std::move(policy)) {}

  Index next(Index most) override { return policy_.next(most); }
  void observe(const specdec::StepRecord& step) override { policy_.observe(step); }
  const specdec::TreeShape& shape() const override { return policy_.shape(); }

 private:
  L policy_;
};

/// How a kind of trees is drafted where a policy shapes them.
struct AutoTrees {
  std::string_view option;  ///< of the kind
  std::unique_ptr<Shaper> (*policy)(const Tree& most);
  /// The policy has to outlive the drafter.
  std::unique_ptr<TreeDrafter> (*make)(Model& draft, const Shaper&, double temperature);
};

template <class Shapes>
std::unique_ptr<Shaper> cost_optimal(const Shapes& shapes) {
  using Policy = specdec::CostOptimalLength<Shapes>;
  return std::make_unique<ShaperOf<Policy>>(Policy(shapes));
}

inline std::unique_ptr<Shaper> cost_optimal_trees(const Tree& most) {
  return cost_optimal(
      specdec::TreeShapes{.most_nodes = most.nodes, .most_depth = std::min<Index>(most.depth, 32)});
}

template <class Siblings>
std::unique_ptr<TreeDrafter> shaped_drafter(Model& draft, const Shaper& shaper, double temperature) {
  return erased_tree(
      specdec::ModelDrafter{sampled(draft, temperature), specdec::Tree{std::cref(shaper), Siblings{}}});
}

inline std::unique_ptr<TreeDrafter> shaped_likeliest(Model& draft, const Shaper& shaper, double temperature) {
  return erased_tree(specdec::ModelDrafter{choosing_model(draft, temperature),
                                           specdec::Tree{std::cref(shaper), specdec::Likeliest{}}});
}

inline std::unique_ptr<Shaper> cost_optimal_spares(const Tree& most) {
  return cost_optimal(specdec::SpareShapes{.most_nodes = most.nodes, .most_trunk = most.depth});
}

inline std::unique_ptr<TreeDrafter> shaped_spares(Model& draft, const Shaper& shaper, double temperature) {
  if (temperature == 0) return shaped_likeliest(draft, shaper, 0);
  return erased_tree(specdec::ModelDrafter{sampled(draft, temperature), specdec::Spares{std::cref(shaper)}});
}

inline constexpr std::array<AutoTrees, 4> auto_trees{{
    {"spares", cost_optimal_spares, shaped_spares},
    {"without-replacement", cost_optimal_trees, shaped_drafter<specdec::WithoutReplacement>},
    {"independent", cost_optimal_trees, shaped_drafter<specdec::Independent>},
    {"likeliest", cost_optimal_trees, shaped_likeliest},
}};

/// How trees of the kind are drafted in shapes that a policy chooses; null where there is no such way.
inline const AutoTrees* auto_trees_of(const TreeKind& kind) {
  const auto found = std::ranges::find(auto_trees, kind.option, &AutoTrees::option);
  return found == auto_trees.end() ? nullptr : &*found;
}

/// The most that a policy may choose: so many levels, and as many nodes as any machine is likely to take.
inline Tree auto_tree(const TreeKind& kind, Index depth) { return {&kind, 64, depth, {}}; }

}  // namespace generate

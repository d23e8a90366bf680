// Trees whose shape a policy chooses step by step, from measured costs and acceptance.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <string_view>
#include <utility>

#include "generate/lengths.hpp"
#include "generate/pair.hpp"
#include "generate/sampled.hpp"
#include "generate/trees.hpp"

namespace generate {

/// A type-erased policy that chooses the shape of trees.
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
  bool reads_rows() const override { return false; }
  bool goes_on(std::span<const double>) const override { return true; }
  const specdec::TreeShape& shape() const override { return policy_.shape(); }

 private:
  L policy_;
};

/// How to draft a kind of trees when a policy chooses the shape.
struct AutoTrees {
  std::string_view option;  ///< the kind's name for --tree
  std::unique_ptr<Shaper> (*policy)(const Tree& most);
  /// Pre: the policy outlives the drafter.
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

inline std::unique_ptr<Shaper> spare_shapes(const Tree& most) {
  return cost_optimal(specdec::SpareShapes{.most_nodes = most.nodes, .most_trunk = most.depth});
}

inline std::unique_ptr<TreeDrafter> shaped_spares(Model& draft, const Shaper& shaper, double temperature) {
  if (temperature == 0) return shaped_likeliest(draft, shaper, 0);
  return erased_tree(specdec::ModelDrafter{sampled(draft, temperature), specdec::Spares{std::cref(shaper)}});
}

inline constexpr std::array<AutoTrees, 4> auto_trees{{
    {"spares", spare_shapes, shaped_spares},
    {"without-replacement", cost_optimal_trees, shaped_drafter<specdec::WithoutReplacement>},
    {"independent", cost_optimal_trees, shaped_drafter<specdec::Independent>},
    {"likeliest", cost_optimal_trees, shaped_likeliest},
}};

/// How to draft trees of this kind when a policy chooses the shape; null if no policy can.
inline const AutoTrees* auto_trees_of(const TreeKind& kind) {
  const auto found = std::ranges::find(auto_trees, kind.option, &AutoTrees::option);
  return found == auto_trees.end() ? nullptr : &*found;
}

/// The largest tree that a policy may choose: `depth` levels and 64 nodes, which should be enough for any machine. The shape
/// is for trees that get fewer children by their rows.
inline Tree auto_tree(const TreeKind& kind, Index depth) {
  constexpr Index nodes = 64;
  return {&kind, nodes, depth, kind.size == Size::widths ? usual_shape(depth, nodes) : specdec::TreeShape()};
}

}  // namespace generate

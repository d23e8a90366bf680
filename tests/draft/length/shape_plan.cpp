#include <algorithm>
#include <random>
#include <specdec/analysis/sequoia_shape.hpp>
#include <specdec/draft/length/shape_plan.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_shape_plan {

using specdec::DraftLimits;
using specdec::Index;
using specdec::ShapePlan;
using specdec::TreeShape;
using specdec::detail::GrowingPlan;
using specdec::detail::LargestShape;

namespace {

// Only the rank of a child among its siblings matters.
struct ByRank {
  static constexpr bool branches = true;
  std::vector<double> chances;

  double reached(double before, Index, Index rank, bool) const {
    return rank < std::ssize(chances) ? before * chances[static_cast<std::size_t>(rank)] : 0;
  }
};

// Only the trunk has children, and each depth is twice as likely as the one above.
struct BesideTheTrunk {
  static constexpr bool branches = true;

  double reached(double, Index depth, Index rank, bool after_trunk) const {
    return after_trunk && rank < 3 ? static_cast<double>(1 << depth) / static_cast<double>(8 << (2 * rank))
                                   : 0;
  }
};

}  // namespace

TEST_CASE("a plan is the tree of its trunk and the spares beside it") {
  CHECK(ShapePlan{}.tree() == TreeShape());
  CHECK(ShapePlan{3}.tree() == TreeShape::linear(3));
  const ShapePlan plan{2, {-1, -1, 0}};
  CHECK(plan.size() == 5);
  CHECK(plan.tree() == TreeShape(std::vector<Index>{-1, -1, -1, 0, 0}));
}

TEST_CASE("a plan that grows by the best addition is worth as much as Sequoia's tree, at every size") {
  std::mt19937_64 rng{4};
  std::uniform_real_distribution<> below(0.2, 0.8);
  for (int example = 0; example < 8; ++example) {
    ByRank family{{below(rng)}};
    for (double left = 1 - family.chances[0]; family.chances.size() < 5; left -= family.chances.back())
      family.chances.push_back(std::min(family.chances.back(), left * below(rng)));
    for (const Index nodes : {1, 4, 11, 30}) {
      double most = 0;
      for (Index trunk = 1; trunk <= std::min<Index>(nodes, 4); ++trunk) {
        GrowingPlan<ByRank> growing;
        growing.begin(family, trunk);
        while (growing.plan().size() < nodes && growing.gain() > 0) {
          const double before = growing.tokens(), gain = growing.gain();
          growing.add(family);
          CHECK(growing.tokens() == Approx(before + gain));
          CHECK(growing.gain() <= gain);
        }
        CHECK(growing.plan().tree().depth() == trunk);
        most = std::max(most, growing.tokens() - 1);
      }
      CHECK(most == Approx(specdec::sequoia_shape(family.chances, nodes, 4).expected_accepted));
    }
  }
}

TEST_CASE("a plan grows where its family allows, and goes on from where an earlier plan ended") {
  const BesideTheTrunk family;
  GrowingPlan<BesideTheTrunk> growing, again;
  growing.begin(family, 3);
  growing.add(family);
  CHECK(growing.plan() == ShapePlan{3, {1}});
  growing.add(family);
  CHECK(growing.plan() == ShapePlan{3, {1, 0}});
  const ShapePlan half = growing.plan();
  again.begin(family, half);
  CHECK(again.tokens() == Approx(growing.tokens()));
  while (growing.gain() > 0) growing.add(family);
  while (again.gain() > 0) again.add(family);
  CHECK(growing.plan() == again.plan());
  CHECK(growing.plan().size() == 3 + 3 * 2);
  growing.begin(family, 0);
  CHECK(growing.gain() == 0);
  CHECK(growing.tokens() == 1);
}

TEST_CASE("shapes stay within the bounds of their family and of the step") {
  const LargestShape largest(10, "most_depth", 4, 32);
  const DraftLimits open = largest.within(100), close = largest.within(3);
  CHECK(open.nodes == 10);
  CHECK(open.depth == 4);
  CHECK(close.nodes == 3);
  CHECK(close.depth == 3);
  using support::message_of;
  CHECK(message_of([] { LargestShape(257, "most_depth", 4, 32); }) ==
        "specdec: most_nodes = 257 is outside 1..256");
  CHECK(message_of([] { LargestShape(10, "most_trunk", 65, 64); }) ==
        "specdec: most_trunk = 65 is outside 1..64");
}

}  // namespace test_draft_shape_plan

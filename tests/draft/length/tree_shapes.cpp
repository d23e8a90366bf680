#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <specdec/analysis.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_tree_shapes {

using namespace specdec;
using support::message_of;

using Policy = CostOptimalLength<TreeShapes>;

static_assert(DraftLength<Policy> && counts_nodes<Policy> && !counts_nodes<CostOptimalLength<>>);

namespace {

// A world in which the (k+1)-th child of a node is accepted with a given probability, and calls take a given time.
struct World {
  std::vector<double> by_rank;
  double draft_call = 0, target_call = 1, target_token = 0;

  // Simulates a step with the shape that the policy asks for.
  void step(Policy& policy, Index gamma, std::mt19937_64& rng) const {
    const Index nodes = policy.next(gamma);
    const TreeShape shape = policy.shape().cut({.nodes = nodes});
    std::vector<Index> ranks, offered;
    for (Index node = -1;;) {
      offered.push_back(shape.children(node));
      double u = uniform01(rng);
      Index rank = 0;
      while (rank < offered.back() && rank < std::ssize(by_rank) &&
             u >= by_rank[static_cast<std::size_t>(rank)])
        u -= by_rank[static_cast<std::size_t>(rank++)];
      if (rank >= offered.back() || rank >= std::ssize(by_rank)) break;
      ranks.push_back(rank);
      node = shape.first_child(node) + rank;
    }
    const auto nanoseconds = [](double seconds) {
      return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    };
    StepRecord record{
        .asked = nodes, .drafted = shape.size(), .accepted = std::ssize(ranks), .fed = shape.size() + 1};
    record.draft_time = nanoseconds(draft_call * static_cast<double>(shape.depth()));
    record.target_time = nanoseconds(target_call + target_token * static_cast<double>(record.fed));
    record.tree = {shape.depth(), ranks, offered};
    policy.observe(record);
  }

  TreeShape best(Index gamma = 64) const {
    CostOptimalLength policy{TreeShapes{}};
    std::mt19937_64 rng{7};
    for (int n = 0; n < 1100; ++n) step(policy, gamma, rng);
    return policy.best().tree();
  }
};

}  // namespace

TEST_CASE("the tree policy finds what pays: a wide tree, a line, or nothing") {
  // A target call costs the same for any number of tokens, a drafter's call a tenth: as wide as allowed, in several
  // levels.
  const TreeShape wide = World{{0.5, 0.2, 0.1, 0.05}, 0.1}.best();
  CHECK(wide.size() > 40);
  CHECK(wide.children(-1) >= 3);
  CHECK(wide.depth() >= 3);
  // Drafts are nearly free and nearly always right: a long path.
  CHECK(World{{0.95}, 0.01, 1, 0.01}.best().depth() == 8);
  CHECK(World{{0.95}, 0.01, 1, 0.01}.best() == TreeShape::linear(8));
  // The drafter is hardly ever right, and as expensive as the target.
  CHECK(World{{0.05, 0.01}, 1}.best().size() == 0);
  // A token costs as much as a call.
  CHECK(World{{0.3, 0.1}, 0.5, 0, 1}.best().size() == 0);
  // As wide, within gamma.
  CHECK(World{{0.5, 0.2, 0.1, 0.05}, 0.1}.best(10).size() == 10);
}

TEST_CASE(
    "with two levels and many nodes, the policy's choice has the least time per token, by the true costs") {
  const World world{{0.5, 0.2, 0.1}, 0.2, 1, 0.02};
  const auto time = [&](const TreeShape& shape, double accepted) {
    return (world.draft_call * static_cast<double>(shape.depth()) + world.target_call +
            world.target_token * static_cast<double>(shape.size() + 1)) /
           (1 + accepted);
  };
  double least = time(TreeShape(), 0);
  for (Index depth = 1; depth <= 8; ++depth)
    for (Index nodes = depth; nodes <= 64; ++nodes) {
      const SequoiaShape found = sequoia_shape(world.by_rank, nodes, depth);
      least = std::min(least, time(TreeShape(found.parents), found.expected_accepted));
    }
  const TreeShape best = world.best();
  const double accepted = [&] {
    std::vector<double> reached(static_cast<std::size_t>(best.size()));
    double sum = 0;
    for (Index k = 0; k < best.size(); ++k) {
      const Index parent = best.parents()[static_cast<std::size_t>(k)];
      const auto rank = static_cast<std::size_t>(k - best.first_child(parent));
      const double here = (parent < 0 ? 1.0 : reached[static_cast<std::size_t>(parent)]) *
                          (rank < world.by_rank.size() ? world.by_rank[rank] : 0.0);
      sum += reached[static_cast<std::size_t>(k)] = here;
    }
    return sum;
  }();
  CHECK(time(best, accepted) < 1.05 * least);
}

TEST_CASE("a policy that had found that nothing pays notices changes") {
  std::mt19937_64 rng{3};
  CostOptimalLength policy{TreeShapes{}, {.window = 200}};
  for (int n = 0; n < 1000; ++n) World{{0.02}, 1}.step(policy, 32, rng);
  CHECK(policy.best().size() == 0);
  for (int n = 0; n < 6000; ++n) World{{0.6, 0.2}, 0.05}.step(policy, 32, rng);
  CHECK(policy.best().size() > 8);
  for (int n = 0; n < 2000; ++n) World{{0.01}, 0.05}.step(policy, 32, rng);
  CHECK(policy.best().size() == 0);
}

TEST_CASE("the policy shapes the trees of a drafter, and the law stays the target's") {
  std::mt19937_64 rng{5};
  const auto target = testing::TableModel<>::random(3, 2, rng),
             draft = testing::TableModel<>::random(3, 1, rng);
  const std::vector<Token> prompt{0, 1};
  const Options options{.max_new_tokens = 4, .gamma = 5};
  testing::Law law;
  testing::enumerate([&](testing::Enumerator& chance) {
    CostOptimalLength trees{TreeShapes{}};
    SpecDec decoder{testing::TableModel<>(target),
                    ModelDrafter{testing::TableModel<>(draft), Tree{std::cref(trees), WithoutReplacement{}}},
                    TraversalVerifier{}, trees};
    const auto tokens = decoder.generate(prompt, options, chance).tokens;
    const double probability = chance.probability();
    law[tokens] += probability;
  });
  CHECK(testing::largest_difference(law, testing::target_law(target, prompt, options)).size < 1e-12);
  CostOptimalLength trees{TreeShapes{}};
  SpecDec decoder{testing::TableModel<>(target),
                  ModelDrafter{testing::TableModel<>(draft), Tree{std::cref(trees), WithoutReplacement{}}},
                  TraversalVerifier{}, trees};
  const Stats stats = decoder.generate(prompt, {.max_new_tokens = 300, .gamma = 16}, rng).stats;
  CHECK(stats.offered_by_rank.size() >= 3);
}

TEST_CASE("impossible parameters of a tree policy are named in the error") {
  const auto said = [](const TreeShapes& shapes) { return message_of([&] { CostOptimalLength{shapes}; }); };
  CHECK(said({.most_nodes = 0}) == "specdec: most_nodes = 0 is outside 1..256");
  CHECK(said({.most_depth = 33}) == "specdec: most_depth = 33 is outside 1..32");
}

}  // namespace test_draft_tree_shapes

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_spare_shapes {

using namespace specdec;
using support::message_of;

using Policy = CostOptimalLength<SpareShapes>;

static_assert(DraftLength<Policy> && counts_nodes<Policy>);

namespace {

// spares_of({-1, -1, 0}) is {1, 0}: the number of spares beside each token of the trunk.
std::vector<Index> spares_of(const TreeShape& shape) {
  std::vector<Index> spares;
  for (Index trunk = -1; shape.children(trunk) > 0; trunk = shape.first_child(trunk))
    spares.push_back(shape.children(trunk) - 1);
  return spares;
}

// A world in which a trunk goes on at depth d with some probability, a rejection there hits one of the spares with
// some other, and calls take a given time.
struct World {
  std::vector<double> keep_drafting;      // by depth; the last one holds for all greater depths
  std::vector<std::vector<double>> hits;  // by depth and rank
  double draft_call = 0;
  std::vector<double> target_call;  // [n − 1]: a call over n tokens; beyond, extended from the last two

  static const auto& at(const auto& values, std::size_t d) { return values[std::min(d, values.size() - 1)]; }
  double hit(std::size_t d, std::size_t k) const {
    const auto& here = at(hits, d);
    return k < here.size() ? here[k] : 0;
  }
  double cost(Index tokens) const {
    const Index known = std::ssize(target_call);
    if (tokens <= known) return target_call[static_cast<std::size_t>(tokens - 1)];
    const double last = target_call.back();
    return last + (last - target_call.end()[-2]) * static_cast<double>(tokens - known);
  }

  // Simulates a step with the shape that the policy asks for. A draft takes so much longer because the drafter catches up.
  void step(Policy& policy, Index gamma, std::mt19937_64& rng, double catching_up = 0) const {
    const Index nodes = policy.next(gamma);
    if (nodes > gamma) FAIL("asks for " << nodes << " tokens of " << gamma);
    const TreeShape shape = policy.shape().cut({.nodes = nodes});
    std::vector<Index> ranks, offered;
    Index node = -1;
    for (std::size_t d = 0;; ++d) {
      offered.push_back(shape.children(node));
      if (offered.back() == 0) break;
      if (uniform01(rng) < at(keep_drafting, d)) {
        ranks.push_back(0);
        node = shape.first_child(node);
        continue;
      }
      double u = uniform01(rng);
      Index spare = 1;
      while (spare < offered.back() && u >= hit(d, static_cast<std::size_t>(spare - 1)))
        u -= hit(d, static_cast<std::size_t>(spare++ - 1));
      if (spare < offered.back()) {
        ranks.push_back(spare);
        offered.push_back(0);
      }
      break;
    }
    const auto nanoseconds = [](double seconds) {
      return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    };
    StepRecord record{
        .asked = nodes, .drafted = shape.size(), .accepted = std::ssize(ranks), .fed = shape.size() + 1};
    record.draft_time =
        nanoseconds(draft_call * static_cast<double>(shape.depth()) + (nodes > 0 ? catching_up : 0));
    record.target_time = nanoseconds(cost(record.fed));
    record.tree = {shape.depth(), ranks, offered};
    policy.observe(record);
  }

  double time_per_token(const std::vector<Index>& spares) const {
    double tokens = 1, reached = 1;
    Index nodes = std::ssize(spares);
    for (std::size_t d = 0; d < spares.size(); ++d) {
      const double on = at(keep_drafting, d);
      for (Index k = 0; k < spares[d]; ++k)
        tokens += reached * (1 - on) * hit(d, static_cast<std::size_t>(k));
      nodes += spares[d];
      tokens += reached *= on;
    }
    return (draft_call * static_cast<double>(spares.size()) + cost(nodes + 1)) / tokens;
  }

  // The least time over all trunks and all numbers of spares beside their tokens.
  double least_time(Index trunk, Index beside) const {
    double least = time_per_token({});
    for (std::vector<Index> spares; std::ssize(spares) < trunk;) {
      spares.assign(spares.size() + 1, 0);
      for (bool more = true; more;) {
        least = std::min(least, time_per_token(spares));
        more = false;
        for (Index& here : spares) {
          if (here < beside) {
            ++here;
            more = true;
            break;
          }
          here = 0;
        }
      }
    }
    return least;
  }

  std::vector<Index> best(Index gamma = 64, std::uint64_t seed = 7) const {
    CostOptimalLength policy{SpareShapes{}};
    std::mt19937_64 rng{seed};
    for (int n = 0; n < 4000; ++n) step(policy, gamma, rng);
    return spares_of(policy.best().tree());
  }
};

const std::vector<double> flat{1, 1}, cliff{1, 1, 1, 1, 3}, linear{1, 2};

}  // namespace

TEST_CASE("the policy's trunk and spares have nearly the least time per token, by the true costs", "[long]") {
  const std::vector<std::vector<double>> falling{{0.4, 0.2, 0.1, 0.05}};
  const std::vector<World> worlds{
      {{0.6}, falling, 0.1, {1, 1.02, 1.04}},
      {{0.6}, falling, 0.3, {1, 1.02, 1.04}},
      {{0.6}, falling, 0.02, {1, 1.2, 1.4}},
      {{0.6}, falling, 0.05, cliff},
      {{0.3}, {{0.6, 0.2, 0.1}}, 0.4, {1, 1.01}},
      // Spares beside the first token of the trunk alone, or beside the second alone.
      {{0.5, 0.8}, {{0.7, 0.2}, {0.0}}, 0.1, {1, 1.05, 1.1}},
      {{0.8, 0.3, 0.6}, {{0.0}, {0.6, 0.3}, {0.0}}, 0.1, {1, 1.05, 1.1}},
      {{0.9}, {{0.1}}, 0.01, {1, 1.1}},
  };
  for (const World& world : worlds) {
    const double least = world.least_time(5, 4);
    for (const std::uint64_t seed : {7u, 8u}) {
      const std::vector<Index> found = world.best(24, seed);
      CAPTURE(&world - worlds.data(), least, found);
      CHECK(world.time_per_token(found) < 1.04 * least);
    }
  }
}

TEST_CASE("the policy of spares chooses a line, spares or nothing where one of them is clearly best") {
  // The trunk never fails and the drafter's calls are free: as long as allowed.
  CHECK(World{{1.0}, {{0.5}}, 0.001, flat}.best(12) == std::vector<Index>(12, 0));
  // No spare is ever hit, and a spare costs as much as a token of the trunk.
  for (const Index beside : World{{0.7}, {{0.0}}, 0.05, {1, 1.1}}.best()) CHECK(beside == 0);
  // The drafter's calls are expensive, the target's tokens are free: a trunk of one, and spares.
  const std::vector<Index> wide = World{{0.4}, {{0.4, 0.3, 0.2, 0.1}}, 0.5, flat}.best();
  REQUIRE(wide.size() == 1);
  CHECK(wide[0] >= 4);
  // A token costs as much as a call.
  CHECK(World{{0.3}, {{0.3}}, 0.5, linear}.best().empty());
  // Within gamma.
  const World free{{0.6}, {{0.4, 0.2, 0.1, 0.05}}, 0.1, flat};
  for (const Index gamma : {0, 1, 2, 5}) {
    Index nodes = 0;
    for (const Index beside : free.best(gamma)) nodes += 1 + beside;
    CHECK(nodes == gamma);
  }
}

TEST_CASE("a text that may draft less does not make the spares of the others fewer") {
  const World world{{0.3}, {{0.5, 0.3, 0.1}}, 0.2, flat};
  for (const int small : {0, 1}) {
    CostOptimalLength policy{SpareShapes{}};
    std::mt19937_64 rng{7};
    for (int n = 0; n < 2000; ++n) world.step(policy, n % 2 == small ? 2 : 16, rng);
    CHECK(policy.best().size() >= 4);
  }
}

TEST_CASE("the policy of spares notices changes") {
  std::mt19937_64 rng{3};
  CostOptimalLength policy{SpareShapes{}, {.window = 100}};
  const World hopeless{{0.02}, {{0.01}}, 1, linear}, trunks{{0.9}, {{0.0}}, 0.02, {1, 1.1}},
      spares{{0.4}, {{0.8, 0.1}}, 0.5, {1, 1.02}};
  for (int n = 0; n < 1000; ++n) hopeless.step(policy, 32, rng);
  CHECK(policy.best().size() == 0);
  for (int n = 0; n < 4000; ++n) trunks.step(policy, 32, rng);
  CHECK(trunks.time_per_token(spares_of(policy.best().tree())) < 1.05 * trunks.least_time(8, 0));
  for (int n = 0; n < 4000; ++n) spares.step(policy, 32, rng);
  CHECK(spares.time_per_token(spares_of(policy.best().tree())) < 1.05 * spares.least_time(3, 3));
  for (int n = 0; n < 2000; ++n) hopeless.step(policy, 32, rng);
  CHECK(policy.best().size() == 0);
}

TEST_CASE("where nothing pays, checking again costs a small share of the time") {
  const World hopeless{{0.02}, {{0.01}}, 1, linear};
  CostOptimalLength policy{SpareShapes{}, {.probing = 0.01}};
  std::mt19937_64 rng{11};
  Index drafting = 0;
  const int steps = 5000;
  for (int n = 0; n < steps; ++n) {
    hopeless.step(policy, 32, rng);
    if (n >= 100 && policy.shape().size() > 0) ++drafting;
  }
  CHECK(drafting > 0);
  CHECK(drafting < steps / 50);
}

TEST_CASE("where nothing pays, a drafter that reads slowly seldom has to catch up") {
  const World hopeless{{0.02}, {{0.01}}, 1, linear};
  CostOptimalLength policy{SpareShapes{}};
  std::mt19937_64 rng{11};
  double unread = 0, lost = 0;
  const int steps = 5000;
  for (int n = 0; n < steps; ++n) {
    const double catching_up = 0.4 * unread++;
    hopeless.step(policy, 32, rng, catching_up);
    if (policy.shape().size() == 0) continue;
    lost += catching_up;
    unread = 0;
  }
  CHECK(policy.best().size() == 0);
  CHECK(lost < 0.01 * steps * hopeless.cost(1));
}

TEST_CASE("a machine that sometimes stalls does not mislead the policy of spares") {
  const World world{{0.6}, {{0.4, 0.2, 0.1, 0.05}}, 0.1, {1, 1.02, 1.04}};
  CostOptimalLength policy{SpareShapes{}};
  std::mt19937_64 rng{13};
  for (int n = 0; n < 4000; ++n) {
    World now = world;
    if (n % 17 == 5)
      for (double& cost : now.target_call) cost += 20;
    now.step(policy, 24, rng);
  }
  CHECK(world.time_per_token(spares_of(policy.best().tree())) < 1.05 * world.least_time(5, 4));
}

TEST_CASE("the policy shapes the drafts of a drafter with spares, and the law stays the target's") {
  std::mt19937_64 rng{5};
  const auto target = testing::TableModel<>::random(3, 2, rng),
             draft = testing::TableModel<>::random(3, 1, rng);
  const std::vector<Token> prompt{0, 1};
  const Options options{.max_new_tokens = 4, .gamma = 5};
  testing::Law law;
  testing::enumerate([&](testing::Enumerator& chance) {
    CostOptimalLength spares{SpareShapes{}};
    SpecDec decoder{testing::TableModel<>(target),
                    ModelDrafter{testing::TableModel<>(draft), Spares{std::cref(spares)}},
                    TrunkAndSpares<BlockVerifier>{}, spares};
    const auto tokens = decoder.generate(prompt, options, chance).tokens;
    const double probability = chance.probability();
    law[tokens] += probability;
  });
  CHECK(testing::largest_difference(law, testing::target_law(target, prompt, options)).size < 1e-12);
  CostOptimalLength spares{SpareShapes{}};
  SpecDec decoder{testing::TableModel<>(target),
                  ModelDrafter{testing::TableModel<>(draft), Spares{std::cref(spares)}},
                  TrunkAndSpares<BlockVerifier>{}, spares};
  const Stats stats = decoder.generate(prompt, {.max_new_tokens = 300, .gamma = 16}, rng).stats;
  CHECK(stats.offered_by_rank.size() >= 3);
}

TEST_CASE("a drafter shaped by a policy still gives a rule the longer trunks that the rule needs") {
  std::mt19937_64 rng{6};
  const auto target = testing::TableModel<>::random(3, 2, rng),
             draft = testing::TableModel<>::random(3, 1, rng);
  CostOptimalLength spares{SpareShapes{}};
  SpecDec decoder{testing::TableModel<>(target),
                  ModelDrafter{testing::TableModel<>(draft), Spares{std::cref(spares)}},
                  TrunkAndSpares<GreedyBlockVerifier>{}, spares};
  CHECK(decoder.generate(std::vector<Token>{0, 1}, {.max_new_tokens = 300, .gamma = 9}, rng).tokens.size() ==
        300);
}

TEST_CASE("impossible parameters of a policy of spares are named in the error") {
  const auto said = [](const SpareShapes& shapes, const CostOptimalOptions& options = {}) {
    return message_of([&] { CostOptimalLength(shapes, options); });
  };
  CHECK(said({.most_nodes = 0}) == "specdec: most_nodes = 0 is outside 1..256");
  CHECK(said({.most_nodes = 257}) == "specdec: most_nodes = 257 is outside 1..256");
  CHECK(said({.most_trunk = 0}) == "specdec: most_trunk = 0 is outside 1..64");
  CHECK(said({.most_trunk = 65}) == "specdec: most_trunk = 65 is outside 1..64");
  CHECK(said({}, {.window = std::nan("")}) == "specdec: window = nan is below 1");
  CHECK(said({}, {.probing = 0}) == "specdec: probing = 0 is outside (0, 1)");
}

}  // namespace test_draft_spare_shapes

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/more/lengths/batch_costs.hpp>
#include <specdec/more/lengths/early_stopping_length.hpp>
#include <specdec/more/lengths/tree_growth.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/tree_models.hpp"

namespace test_more_lengths_tree_growth {

using namespace specdec;
using namespace specdec::testing;
using specdec::detail::TreeGrowth;
using support::message_of;
using support::WatchedTreeModel;

namespace {

// A token and three siblings, and how often the target takes each of them.
struct Siblings {
  std::vector<double> probabilities, accepted;
};

// Enters steps where the context has these children.
void learn(TreeGrowth& growth, const Siblings& siblings, int steps, std::mt19937_64& rng,
           bool drawn = false) {
  for (int n = 0; n < steps; ++n) {
    double left = uniform01(rng);
    std::vector<Index> ranks;
    for (std::size_t k = 0; k < siblings.accepted.size() && ranks.empty(); ++k)
      if ((left -= siblings.accepted[k]) < 0) ranks.push_back(static_cast<Index>(k));
    std::vector<Index> offered{std::ssize(siblings.probabilities)};
    if (!ranks.empty()) offered.push_back(0);
    growth.fade(0.999);
    growth.learn({1, ranks, offered, siblings.probabilities, drawn});
  }
}

}  // namespace

TEST_CASE("acceptance of chosen tokens is learnt by their probability, for the likeliest and for others") {
  const Siblings sure{{0.9, 0.04, 0.03, 0.01}, {0.97, 0.01, 0.005, 0.002}};
  const Siblings torn{{0.3, 0.3, 0.2, 0.1}, {0.5, 0.2, 0.1, 0.02}};
  TreeGrowth growth;
  std::mt19937_64 rng{1};
  for (const double q : {0.001, 0.1, 0.5, 0.99}) {
    CHECK(growth.acceptance({q, 0}) == Approx(q));  // nothing is known yet
    CHECK(growth.acceptance({q, 1}) == Approx(q));
  }
  for (int n = 0; n < 3000; ++n) learn(growth, n % 2 == 0 ? sure : torn, 1, rng);
  CHECK(growth.acceptance({0.9, 0}) == Approx(0.97).margin(0.015));
  CHECK(growth.acceptance({0.3, 0}) == Approx(0.5).margin(0.05));
  CHECK(growth.acceptance({0.3, 1}) == Approx(0.2).margin(0.05));
  CHECK(growth.acceptance({0.035, 1}) == Approx(0.0075).margin(0.006));
  CHECK(growth.acceptance({0.4, 0}) > growth.acceptance({0.3, 0}));  // in one range the order stays
  for (int rank = 0; rank < 2; ++rank)
    for (const double q : {0.0, 1.0}) CHECK(growth.acceptance({q, rank}) == q);
}

TEST_CASE("acceptance of drawn tokens is learnt by rank and by the confidence of their row") {
  const Siblings sure{std::vector<double>(4, 0.95), {0.9, 0.05, 0.01, 0.01}};
  const Siblings torn{std::vector<double>(7, 0.2), {0.5, 0.2, 0.1, 0.05, 0.04, 0.02, 0.02}};
  TreeGrowth growth;
  std::mt19937_64 rng{1};
  for (int n = 0; n < 4000; ++n) learn(growth, n % 2 == 0 ? sure : torn, 1, rng, true);
  for (Index rank = 0; rank < 5; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank < 4) CHECK(growth.acceptance({0.95, rank, true}) == Approx(sure.accepted[at]).margin(0.02));
    CHECK(growth.acceptance({0.2, rank, true}) == Approx(torn.accepted[at]).margin(0.03));
  }
  CHECK(growth.acceptance({0.2, 100, true}) < 0.001);
  CHECK(growth.acceptance({0.5, 0}) == Approx(0.5));  // nothing is known of chosen tokens

  TreeGrowth chosen;
  learn(chosen, sure, 100, rng);
  CHECK(chosen.acceptance({0.95, 0, true}) == 1);
  for (int n = 0; n < 20000; ++n) growth.fade(0.999);
  CHECK(growth.acceptance({0.2, 0, true}) > 0.95);  // it is tried again
}

TEST_CASE("a target that changes its mind is followed, and a limit makes that faster") {
  const Siblings good{{0.5, 0.3}, {0.8, 0.1}}, bad{{0.5, 0.3}, {0.1, 0.1}};
  for (const bool limited : {false, true}) {
    TreeGrowth growth;
    std::mt19937_64 rng{2};
    learn(growth, good, 5000, rng);
    CHECK(growth.acceptance({0.5, 0}) == Approx(0.8).margin(0.05));
    if (limited) growth.limit(10);
    learn(growth, bad, 60, rng);
    CHECK((growth.acceptance({0.5, 0}) < 0.3) == limited);
    learn(growth, bad, 5000, rng);
    CHECK(growth.acceptance({0.5, 0}) == Approx(0.1).margin(0.05));
  }
}

TEST_CASE("of improbable tokens a few that were not accepted say little") {
  TreeGrowth growth;
  std::mt19937_64 rng{4};
  const Siblings rare{{0.9, 0.002}, {1, 0}};
  learn(growth, rare, 0, rng);
  for (int n = 0; n < 40; ++n) learn(growth, rare, 1, rng);
  CHECK(growth.acceptance({0.002, 1}) > 0.0015);
  for (int n = 0; n < 5000; ++n) learn(growth, rare, 1, rng);
  CHECK(growth.acceptance({0.002, 1}) < 0.001);
}

TEST_CASE("tokens that were never accepted are not given up for good") {
  TreeGrowth growth;
  std::mt19937_64 rng{3};
  learn(growth, {{0.6, 0.3}, {0, 0}}, 5000, rng);
  const double low = growth.acceptance({0.3, 1});
  CHECK(low > 0);
  CHECK(low < 0.01);
  for (int n = 0; n < 20000; ++n) growth.fade(0.999);
  CHECK(growth.acceptance({0.3, 1}) == Approx(0.3).margin(0.01));
}

namespace {

// The definition: the size of the largest gain.
Index best_size(const std::vector<double>& values, double price, const auto& time) {
  Index best = 1;
  const auto gain = [&](Index n) {
    double tokens = 0;
    for (Index k = 0; k < n; ++k) tokens += values[static_cast<std::size_t>(k)];
    return tokens - price * time(n, 1);
  };
  for (Index n = 2; n <= std::ssize(values); ++n)
    if (gain(n) > gain(best)) best = n;
  return best;
}

}  // namespace

TEST_CASE("as many tokens are proposed as are worth their time, also where the time jumps") {
  const auto even = [](Index nodes, Index levels) {
    return 1 + 0.02 * static_cast<double>(nodes) + 0.1 * static_cast<double>(levels);
  };
  const auto in_eights = [](Index nodes, Index levels) {
    return 1 + 0.2 * std::ceil(static_cast<double>(nodes) / 8) + 0.1 * static_cast<double>(levels);
  };
  std::mt19937_64 rng{4};
  const TreeGrowth growth;
  bool beyond_a_jump = false;
  for (int n = 0; n < 200; ++n) {
    std::vector<double> values(1 + rng() % 40);
    for (double& value : values) value = std::pow(uniform01(rng), 3);
    std::sort(values.rbegin(), values.rend());
    const GrowingDraft found{.values = values, .levels = 1};
    for (const double price : {0.1, 1.0, 3.0}) {
      CHECK(growth.paying_tokens(found, price, even) == best_size(values, price, even));
      const Index size = growth.paying_tokens(found, price, in_eights);
      CHECK(size == best_size(values, price, in_eights));
      beyond_a_jump = beyond_a_jump || (size > 8 && values[8] < price * 0.2);
    }
  }
  CHECK(beyond_a_jump);
  CHECK(growth.paying_tokens({.levels = 1}, 1, even) == 0);
  const std::vector<double> poor{0.001};
  CHECK(growth.paying_tokens({.values = poor, .levels = 1}, 1, even) == 1);
}

TEST_CASE("a level is grown where its tokens are worth a call, or where some levels are") {
  const auto time = [](Index nodes, Index levels) {
    return 1 + 0.02 * static_cast<double>(nodes) + 0.1 * static_cast<double>(levels);
  };
  TreeGrowth growth;
  std::mt19937_64 rng{5};
  // Three of four accepted tokens have an accepted child.
  learn(growth, {{0.5, 0.3}, {0.5, 0.25}}, 3000, rng);
  const auto pays = [&](const std::vector<double>& leaves, double price) {
    const GrowingDraft found{.values = leaves, .leaves = leaves, .levels = 1};
    return growth.pays_level(found, growth.paying_tokens(found, price, time), price, time);
  };
  CHECK(pays({0.5, 0.3}, 1));                      // 0.56 − 2 · 0.02, for 0.1
  CHECK(pays({0.2}, 1));                           // 0.15 − 0.02
  CHECK_FALSE(pays({0.13}, 1));                    // 0.098 − 0.02
  CHECK_FALSE(pays({0.1, 0.01, 0.01}, 1));         // these leaves are not worth a child
  CHECK(pays({0.06, 0.06, 0.06, 0.06, 0.06}, 1));  // 5 · (0.045 − 0.02)
  CHECK_FALSE(pays({0.5, 0.3}, 6));
  // A first level that costs more than the ones after it.
  const auto dear_first = [](Index nodes, Index levels) {
    return 1 + 0.02 * static_cast<double>(nodes) + (levels > 1 ? 0.6 : 0) +
           0.01 * static_cast<double>(levels);
  };
  const std::vector<double> leaf{0.7};
  CHECK(growth.pays_level({.values = leaf, .leaves = leaf, .levels = 1}, 1, 1, dear_first));
}

namespace {

// Tokens below `easy` are nearly always followed by the next of them, all others by any token.
TableModel<> easy_and_hard(Index size, Index easy, double sure) {
  Eigen::MatrixXd table = Eigen::MatrixXd::Constant(size + 1, size, 1.0 / static_cast<double>(size));
  for (Index x = 0; x < easy; ++x) {
    table.row(x + 1).setConstant((1 - sure) / static_cast<double>(size - 1));
    table(x + 1, (x + 1) % easy) = sure;
  }
  return {table, 1};
}

struct Costs {
  double call, token;
};

struct Work {
  double tokens = 0, time = 0;
  double easy_levels = 0, hard_levels = 0, easy = 0, hard = 0;  // calls after texts that end with either kind
  double speed() const { return tokens / time; }
};

// Gives a draft length these costs, and sums them up.
template <class Length>
struct Told : Length {
  Told(const Length& length, const Costs& given, const Index& all_calls)
      : Length(length), costs(given), calls(&all_calls) {}

  Costs costs;
  const Index* calls;
  Index before = 0;
  double time = 0;

  void observe(StepRecord step) {
    const double draft = costs.call * static_cast<double>(*calls - before);
    const double target = 1 + costs.token * static_cast<double>(step.drafted);
    step.draft_time = std::chrono::nanoseconds(std::llround(1e6 * draft));
    step.target_time = std::chrono::nanoseconds(std::llround(1e6 * target));
    before = *calls;
    time += draft + target;
    Length::observe(step);
  }
};

// Writes a text, with a draft model that is the target itself or another one.
template <class Length>
Work work(Told<Length>& length, WatchedTreeModel& draft, const TableModel<>& target,
          const ConfidentTree& tree, Index tokens, Index easy) {
  SpecDec decoder{TableModel<>(target), ModelDrafter{draft, tree}, TrunkAndSpares<SampleMatchVerifier>{},
                  length};
  std::mt19937_64 rng{7};
  Work work;
  const double before = length.time;
  auto text = decoder.start(std::vector<Token>{0}, {.max_new_tokens = tokens, .gamma = 64});
  while (!text.done()) {
    const bool is_easy = text.context().back() < easy;
    const Index calls = draft.calls;
    text.step(rng);
    (is_easy ? work.easy : work.hard) += 1;
    (is_easy ? work.easy_levels : work.hard_levels) += static_cast<double>(draft.calls - calls);
  }
  work.easy_levels /= work.easy;
  work.hard_levels /= work.hard;
  work.tokens = static_cast<double>(tokens);
  work.time = length.time - before;
  return work;
}

double best_fixed(const TableModel<>& draft, const TableModel<>& target, const Costs& costs, Index easy) {
  double best = 0;
  for (const Index depth : {0, 1, 2, 3, 4, 6, 8})
    for (const Index nodes : {1, 2, 4, 6, 8, 12, 16, 24, 32}) {
      WatchedTreeModel model(draft);
      Told<FixedLength> fixed({}, costs, model.calls);
      const ConfidentTree tree{.width = 6, .depth = depth, .nodes = nodes};
      best = std::max(best, work(fixed, model, target, tree, 3000, easy).speed());
    }
  return best;
}

constexpr ConfidentTree large{.width = 6, .depth = 10, .nodes = 40};

}  // namespace

TEST_CASE("trees are deep after rows that are sure and shallow after flat ones, and beat every fixed tree",
          "[long]") {
  const auto model = easy_and_hard(8, 4, 0.93);
  for (const Costs& costs : {Costs{0.1, 0.02}, Costs{0.05, 0.05}, Costs{0.2, 0.005}}) {
    WatchedTreeModel draft(model);
    Told<EarlyStoppingLength<>> policy(EarlyStoppingLength{}, costs, draft.calls);
    work(policy, draft, model, large, 2000, 4);
    const Work got = work(policy, draft, model, large, 6000, 4);
    const double best = best_fixed(model, model, costs, 4);
    INFO(costs.call << ' ' << costs.token << ": " << got.speed() / best << ", " << got.easy_levels << ' '
                    << got.hard_levels);
    CHECK(got.easy_levels > 1.5 * got.hard_levels);
    CHECK(got.speed() > 1.03 * best);
  }
}

TEST_CASE("where all rows are alike, trees are about as good as the best fixed tree", "[long]") {
  Eigen::RowVectorXd row(6);
  row << 0.5, 0.2, 0.1, 0.1, 0.05, 0.05;
  const auto model = TableModel<>::context_free(row);
  for (const Costs& costs : {Costs{0.1, 0.02}, Costs{0.05, 0.05}}) {
    WatchedTreeModel draft(model);
    Told<EarlyStoppingLength<>> policy(EarlyStoppingLength{}, costs, draft.calls);
    work(policy, draft, model, large, 1000, 6);
    CHECK(work(policy, draft, model, large, 5000, 6).speed() > 0.96 * best_fixed(model, model, costs, 6));
  }
}

TEST_CASE("trees of a draft model that is wrong are off, and on again when it is right") {
  const auto model = easy_and_hard(8, 4, 0.93);
  Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(8, 0.0);
  row[7] = row[6] = 0.5;
  WatchedTreeModel draft(model);
  Told<EarlyStoppingLength<>> policy(EarlyStoppingLength{}, {0.4, 0.2}, draft.calls);
  const ConfidentTree two{.width = 2, .depth = 4, .nodes = 8};
  work(policy, draft, TableModel<>::context_free(row), two, 1000, 4);
  CHECK_FALSE(policy.drafts());
  policy.costs = {0.05, 0.01};
  work(policy, draft, model, large, 4000, 4);
  CHECK(policy.drafts());
}

TEST_CASE("in a batch, trees grow by the rows of their own texts, at the costs of shared calls") {
  const auto model = easy_and_hard(8, 4, 0.97);
  const auto target_cost = [](Index tokens) { return 1 + 0.02 * static_cast<double>(tokens); };
  const auto draft_cost = [](Index texts) { return 0.1 + 0.001 * static_cast<double>(texts); };
  EarlyStoppingLength policy{BatchCosts{target_cost, draft_cost}};
  Batch batch{ModelPerSequence{model}, ModelDrafter{ModelPerSequence{model}, large},
              TrunkAndSpares<SampleMatchVerifier>{}, policy};
  for (std::uint64_t seed = 0; seed < 8; ++seed)
    batch.add(std::vector<Token>{0}, {.max_new_tokens = 2000, .gamma = 40}, std::mt19937_64{seed});
  double tokens = 0, steps = 0, drafted = 0;
  for (const Finished& done : batch.run()) {
    CHECK(!done.error);
    tokens += static_cast<double>(done.result.tokens.size());
    steps += static_cast<double>(done.result.stats.target_calls);
    drafted += static_cast<double>(done.result.stats.drafted);
  }
  CHECK(tokens / steps > 2.5);
  CHECK(drafted / steps < 20);  // far fewer than the trees could have
  CHECK(drafted / steps > 2);
}

}  // namespace test_more_lengths_tree_growth

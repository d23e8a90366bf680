// Oracles: sums written out, and the closed form of Leviathan et al., Theorem 3.8.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <specdec/more/analysis/projection.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/measured.hpp"
#include "support/message_of.hpp"

namespace test_more_analysis_projection {

using namespace specdec;
using support::Measured;

TEST_CASE("a constant acceptance rate and cost ratio give the closed form") {
  for (const double alpha : {0.1, 0.5, 0.9})
    for (const double c : {0.0, 0.05, 0.3}) {
      const std::vector<double> survival{alpha, alpha * alpha},
          proposed{1.0};  // beyond these, the share goes on falling
      const auto projections = project(
          survival, proposed, [](Index) { return 2.0; },
          [&](Index n) { return 2.0 * c * static_cast<double>(n); });
      REQUIRE(projections.size() == 17);
      for (Index gamma = 0; gamma <= 16; ++gamma) {
        const auto& p = projections[static_cast<std::size_t>(gamma)];
        const double n = static_cast<double>(gamma);
        const double tokens = (1 - std::pow(alpha, n + 1)) / (1 - alpha);
        CHECK(p.gamma == gamma);
        CHECK(p.tokens_per_call == Approx(tokens));
        CHECK(p.speed_up == Approx(tokens / (n * c + 1)));
        CHECK(p.time_per_token == Approx(2.0 / p.speed_up));
      }
    }
}

TEST_CASE("an expected step weighs target calls by how often that many tokens are proposed") {
  const std::vector<double> proposed{0.5, 0.25};
  const auto target = [](Index n) { return n == 1 ? 10.0 : n == 2 ? 12.0 : 15.0; };
  const auto draft = [](Index n) { return n == 0 ? 1.0 : n == 1 ? 2.0 : 4.0; };
  const auto projections = project(std::vector<double>{0.4, 0.1}, proposed, target, draft, 2);
  CHECK(projections[0].time_per_token == 10);  // the drafter is not asked
  CHECK(projections[1].time_per_token == Approx((0.5 * (10 + 1) + 0.5 * (12 + 2)) / 1.4));
  CHECK(projections[2].time_per_token == Approx((0.5 * (10 + 1) + 0.25 * (12 + 2) + 0.25 * (15 + 4)) / 1.5));
  CHECK(projections[2].tokens_per_call == Approx(1.5));
  CHECK(projections[2].speed_up == Approx(10 * 1.5 / 13.75));
}

TEST_CASE("beyond the known positions survival goes on falling at its last rate, or stays") {
  const auto one = [](Index) { return 1.0; };
  const auto tokens = [&](std::vector<double> survival, Index gamma) {
    return project(survival, {}, one, one, gamma).back().tokens_per_call;
  };
  CHECK(tokens({}, 5) == 1);
  CHECK(tokens({0.5}, 3) == Approx(1 + 0.5 + 0.25 + 0.125));
  CHECK(tokens({0.8, 0.4}, 4) == Approx(1 + 0.8 + 0.4 + 0.2 + 0.1));
  CHECK(tokens({1.0, 1.0}, 4) == 5);
  CHECK(tokens({0.5, 0.6}, 3) == Approx(1 + 0.5 + 0.6 + 0.6));  // block verification's survival may rise
  CHECK(tokens({0.5, 0.0}, 9) == 1.5);
  CHECK(tokens({0.5, 0.0, 0.0}, 9) == 1.5);
}

namespace {

// The time of a call over n tokens, in milliseconds: the weights are read once, and every token costs a little.
std::chrono::milliseconds call_over(Index n) { return std::chrono::milliseconds{20 + n}; }

// A run of steps with drafts of these lengths, `each` of each. At most four tokens of a draft are accepted.
Measured run_of(std::initializer_list<Index> lengths, int each) {
  Measured stats;
  for (const Index gamma : lengths)
    for (int n = 0; n < each; ++n) {
      const Index accepted = std::min<Index>(gamma, std::min(n % 6, n % 5));
      stats.add({.asked = gamma,
                 .drafted = gamma,
                 .accepted = accepted,
                 .fed = gamma + 1,
                 .draft_time = std::chrono::milliseconds{gamma},
                 .target_time = call_over(gamma + 1)},
                accepted + 1);
    }
  return stats;
}

double true_speed_up(const Measured& run, Index gamma) {
  double tokens = 1;
  for (Index i = 0; i < gamma; ++i) tokens += run.stats.survival()[static_cast<std::size_t>(i)];
  const auto cost = [](Index n) { return static_cast<double>(call_over(n).count()); };
  return tokens * cost(1) / (cost(gamma + 1) + static_cast<double>(gamma));
}

}  // namespace

TEST_CASE("a single shorter call changes no projection, and the range tells that its price is not known") {
  const Measured run = run_of({4}, 200);
  const auto before = run.projections(4);
  for (const int ms :
       {12, 23, 80}) {  // the last call of the text: its budget is nearly spent, and it may stall
    Measured longer = run;
    longer.add(
        {.asked = 2, .drafted = 2, .accepted = 2, .fed = 3, .target_time = std::chrono::milliseconds{ms}}, 3);
    const Projection p = longer.projections(4)[4];
    CHECK(p.speed_up == Approx(before[4].speed_up).epsilon(0.02));
    CHECK(p.speed_up_range.low < true_speed_up(run, 4));
    CHECK(p.speed_up_range.high > true_speed_up(run, 4));
    CHECK(p.speed_up_range.high > 4 * p.speed_up_range.low);
  }
}

TEST_CASE("where all sizes are measured nothing is left open but longer drafts") {
  const Measured run = run_of({0, 1, 2, 3, 4}, 100);
  const auto projections = run.projections(6);
  for (Index gamma = 0; gamma <= 4; ++gamma) {
    CAPTURE(gamma);
    const Projection& p = projections[static_cast<std::size_t>(gamma)];
    CHECK(p.speed_up == Approx(true_speed_up(run, gamma)));
    CHECK(p.speed_up_range.low == Approx(p.speed_up));
    CHECK(p.speed_up_range.high == Approx(p.speed_up));
    CHECK(p.time_range.low == Approx(p.time_range.high));
  }
  const Projection& longer = projections[6];
  CHECK(longer.tokens_range.low == Approx(projections[4].tokens_per_call));
  CHECK(longer.tokens_range.high > longer.tokens_per_call);
  CHECK(longer.speed_up_range.high > 1.1 * longer.speed_up_range.low);
}

TEST_CASE("the range holds the truth, whichever sizes of calls were measured") {
  const Measured all = run_of({0, 1, 2, 3, 4, 5, 6}, 80);
  for (unsigned measured = 1; measured < 128; ++measured) {
    Measured some = all;
    some.measures.target_cost = some.measures.draft_cost = CostCurve{};
    for (Index gamma = 0; gamma <= 6; ++gamma)
      for (int n = 0; n < 8 && (measured >> gamma & 1) != 0; ++n) {
        some.measures.target_cost.add(gamma + 1, static_cast<double>(call_over(gamma + 1).count()));
        some.measures.draft_cost.add(gamma, static_cast<double>(gamma));
      }
    const auto projections = some.projections(6);
    REQUIRE(projections.size() == 7);
    for (const Projection& p : projections) {
      CAPTURE(measured, p.gamma);
      const double truth = true_speed_up(all, p.gamma);
      CHECK(p.speed_up_range.low <= truth * (1 + 1e-12));
      CHECK(p.speed_up_range.high >= truth * (1 - 1e-12));
      CHECK(p.speed_up_range.low <= p.speed_up * (1 + 1e-12));
      CHECK(p.speed_up_range.high >= p.speed_up * (1 - 1e-12));
      CHECK(p.time_range.low <= p.time_per_token * (1 + 1e-12));
      CHECK(p.time_range.high >= p.time_per_token * (1 - 1e-12));
    }
  }
}

TEST_CASE("the ranges of a short run with random lengths are in order") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937_64 rng(seed);
    Measured stats;
    for (int step = 0; step < 60; ++step) {  // the drafter finds all tokens or none
      const auto asked = static_cast<Index>(rng() % 13);
      const Index drafted = rng() % 2 == 0 ? asked : 0;
      stats.add({.asked = asked,
                 .drafted = drafted,
                 .accepted = drafted / 2,
                 .fed = drafted + 1,
                 .draft_time = std::chrono::milliseconds(drafted),
                 .target_time = std::chrono::milliseconds(20 + drafted)},
                drafted / 2 + 1);
    }
    for (const Projection& p : stats.projections()) {
      CAPTURE(seed, p.gamma);
      CHECK(p.time_range.low <= p.time_per_token * (1 + 1e-12));
      CHECK(p.time_per_token <= p.time_range.high * (1 + 1e-12));
      CHECK(p.speed_up_range.low <= p.speed_up * (1 + 1e-12));
      CHECK(p.speed_up <= p.speed_up_range.high * (1 + 1e-12));
    }
  }
}

TEST_CASE("impossible draft lengths are named in the error") {
  using support::message_of;
  const auto one = [](Index) { return 1.0; };
  const auto complaint = [&](Index most) { return message_of([&] { project({}, {}, one, one, most); }); };
  CHECK(complaint(-1) == "specdec: most = -1 is negative");
  CHECK(complaint(unlimited) ==
        "specdec: most = 9223372036854775807 is more than 1048576, the longest draft");
}

}  // namespace test_more_analysis_projection

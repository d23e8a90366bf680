// SPDX-License-Identifier: MIT
#include <chrono>
#include <cmath>
#include <specdec/more/lengths/step_costs.hpp>
#include <specdec/more/lengths/trials.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_step_costs {

using specdec::Index;
using specdec::StepRecord;
using specdec::detail::StepCosts;
using specdec::detail::Trials;
using support::message_of;

namespace {

StepRecord step(Index nodes, Index depth, int draft_seconds, int target_seconds) {
  static const std::vector<Index> offered{1};
  StepRecord record{.asked = nodes, .drafted = nodes, .fed = nodes + 1};
  record.draft_time = std::chrono::seconds(draft_seconds);
  record.target_time = std::chrono::seconds(target_seconds);
  record.tree.depth = depth;
  record.tree.offered = offered;
  return record;
}

// A draft of two levels costs 4 seconds, a step without a draft 10.
StepCosts pair_of_costs() {
  StepCosts costs(1);
  for (int n = 0; n < 2; ++n) costs.observe(step(2, 2, 4, 12));
  return costs;
}
void pause(StepCosts& costs, int steps) {
  for (int n = 0; n < steps; ++n) costs.observe(step(0, 0, 0, 10));
}
void catch_up(StepCosts& costs, int seconds) { costs.observe(step(2, 2, 4 + seconds, 12)); }

}  // namespace

TEST_CASE("a draft costs by its depth, and a target call by its tokens") {
  StepCosts costs(1);
  costs.observe(step(0, 0, 7, 10));  // there was no draft, whatever the timer said
  costs.observe(step(6, 2, 7, 16));  // the drafter has to catch up
  costs.observe(step(6, 2, 4, 18));
  costs.observe(step(8, 4, 8, 20));
  CHECK(costs.plain() == 10);
  CHECK(costs(6, 2) == 4 + 17);
  CHECK(costs(6, 1) == 2 + 17);
  CHECK(costs(8, 4) == 8 + 20);
}

TEST_CASE("the verdict on the tokens of a call is a part of its cost") {
  StepCosts costs(1);
  StepRecord judged = step(2, 2, 4, 12);
  judged.verify_time = std::chrono::seconds(3);
  for (int n = 0; n < 2; ++n) costs.observe(judged);
  CHECK(costs(2, 2) == 4 + 12 + 3);
  CHECK(costs.spent(judged) == 4 + 12 + 3);
}

TEST_CASE("draft costs are remembered longer while nothing is drafted") {
  StepCosts costs(0.9);
  for (int n = 0; n < 4; ++n) costs.observe(step(6, 2, 4, 18));
  for (int n = 0; n < 100; ++n) costs.observe(step(0, 0, 0, 10));
  CHECK(costs(6, 2) == Approx(22));
  CHECK(costs.plain() == Approx(10));
}

TEST_CASE("a step without a proposal costs what the drafter took to find nothing") {
  StepCosts costs(1);
  for (int n = 0; n < 2; ++n)
    costs.observe({.asked = 4,
                   .fed = 1,
                   .draft_time = std::chrono::seconds(3),
                   .target_time = std::chrono::seconds(10)});
  CHECK(costs(0, 0) == 13);
  CHECK(costs.plain() == 10);
}

TEST_CASE("a call that is fed more than the draft is not timed") {
  StepCosts costs(1);
  StepRecord prompt = step(2, 2, 50, 100);
  prompt.fed = 20;
  costs.observe(prompt);
  CHECK(costs(2, 2) == 0);
  costs.observe(step(2, 2, 3, 5));
  CHECK(costs(2, 2) == 8);
}

TEST_CASE("catching up costs what it cost before: the cheaper of two times, by the step") {
  StepCosts costs = pair_of_costs();
  CHECK(costs.catching_up() == 0);
  pause(costs, 15);
  catch_up(costs, 45);  // too short to be measured
  pause(costs, 16);
  catch_up(costs, 32);
  pause(costs, 20);
  CHECK(costs.catching_up() == 0);  // measured once, and dear
  catch_up(costs, 60);
  CHECK(costs.catching_up() == 0);  // nothing to catch up with
  pause(costs, 1);
  CHECK(costs.catching_up() == Approx(2 * 20));  // no less than after the longer of the two pauses
  pause(costs, 29);
  CHECK(costs.catching_up() == Approx(2 * 30));
  catch_up(costs, 120);
  pause(costs, 30);
  CHECK(costs.catching_up() == Approx(3 * 30));
  CHECK(costs.plain() == 10);
  CHECK(costs(2, 2) == 4 + 12);
}

TEST_CASE("catching up that took no longer than a draft is known at once") {
  for (const auto& [seconds, known] : {std::pair{4, 4.0}, std::pair{5, 0.0}}) {
    StepCosts costs = pair_of_costs();
    pause(costs, 16);
    catch_up(costs, seconds);
    pause(costs, 1);
    CHECK(costs.catching_up() == Approx(known));
  }
}

TEST_CASE("catching up after a much longer pause is taken to cost less than in proportion") {
  StepCosts costs = pair_of_costs();
  for (int n = 0; n < 2; ++n) {
    pause(costs, 20);
    catch_up(costs, 60);
  }
  pause(costs, 50);
  CHECK(costs.catching_up() == Approx(3 * 50));
  pause(costs, 50);
  CHECK(costs.catching_up() == Approx(3 * 100 / std::log(5)));
  pause(costs, 1900);
  CHECK(costs.catching_up() == Approx(3 * 2000 / std::log(100)));
}

TEST_CASE("after a run of drafts, pauses are short again, at the known cost of a step") {
  StepCosts costs = pair_of_costs();
  for (int n = 0; n < 2; ++n) {
    pause(costs, 200);
    catch_up(costs, 600);
  }
  for (int n = 0; n < 14; ++n) costs.observe(step(2, 2, 4, 12));
  pause(costs, 1);
  CHECK(costs.catching_up() == Approx(3 * 200));  // the run was one draft too short
  for (int n = 0; n < 16; ++n) costs.observe(step(2, 2, 4, 12));
  pause(costs, 1);
  CHECK(costs.catching_up() == Approx(3 * 16));
}

TEST_CASE("catching up costs no more than writing did, and no less than nothing") {
  for (const auto& [seconds, by_step] : {std::pair{100'000, 10}, std::pair{-3, 0}}) {
    StepCosts costs = pair_of_costs();
    for (int n = 0; n < 2; ++n) {
      pause(costs, 16);
      catch_up(costs, seconds);
    }
    pause(costs, 16);
    CHECK(costs.catching_up() == 16 * by_step);
  }
}

// Four texts: each step is told the time of the whole call.
TEST_CASE("texts that share their calls catch up in one call, at what it took on the mean") {
  StepCosts costs(0.5);
  costs.batch(4);
  const auto call = [&](Index nodes, std::vector<int> draft_seconds, int target_seconds) {
    for (const int seconds : draft_seconds) costs.observe(step(nodes, nodes, seconds, target_seconds));
  };
  call(2, {40, 40, 40, 40}, 12);  // all of them read their prompts
  CHECK(costs(2, 2) == 12);
  call(2, {4, 4, 4, 4}, 12);
  CHECK(costs(2, 2) == 4 + 12);
  for (int n = 0; n < 3; ++n) {
    costs.observe(step(0, 0, 0, 12));  // one of the texts may not draft
    call(2, {4, 4, 4}, 12);
  }
  CHECK(costs(2, 2) == 4 + 12);
  CHECK(costs.catching_up() == 0);
  Trials trials(0.5);
  trials.share_by(4);
  for (int rest = 0; rest < 2; ++rest) {
    for (int n = 0; n < 3; ++n) call(0, {0, 0, 0, 0}, 10);
    CHECK(!costs.allow(trials, 0));
    call(0, {0, 0, 0, 0}, 10);  // sixteen steps of all texts
    CHECK(costs.allow(trials, 0));
    call(2, {20, 4, 28, 12}, 12);  // 16 on the mean, of which 12 to catch up
    call(2, {4, 4, 4, 4}, 12);
    CHECK(costs(2, 2) == Approx(4 + 12));
  }
  call(0, {0, 0, 0}, 10);
  CHECK(costs.catching_up() == 0);  // less than a call
  call(0, {0}, 10);
  CHECK(costs.catching_up() == Approx(0.75 * 64));  // no less than after sixteen calls
  for (int n = 0; n < 15; ++n) call(0, {0, 0, 0, 0}, 10);
  CHECK(costs.catching_up() == Approx(0.75 * 64));
  for (int n = 0; n < 16; ++n) call(0, {0, 0, 0, 0}, 10);
  CHECK(costs.catching_up() == Approx(0.75 * 128));
  CHECK(message_of([&] { costs.batch(0); }) == "specdec: batch = 0 is outside 1..1073741824");
}

TEST_CASE(
    "a probe comes twice after a short pause, to see what catching up costs, then when it is paid for") {
  StepCosts costs = pair_of_costs();
  Trials trials(0.5);
  for (int n = 0; n < 10; ++n) trials.earn(10);
  CHECK(costs.allow(trials, 50));  // nothing to catch up with
  for (int n = 0; n < 2; ++n) {
    pause(costs, 15);
    CHECK_FALSE(costs.allow(trials, 0));
    pause(costs, 1);
    CHECK(costs.allow(trials, 1000));
    catch_up(costs, 32);
  }
  pause(costs, 20);
  CHECK(costs.allow(trials, 10));  // and 40 to catch up
  CHECK_FALSE(costs.allow(trials, 11));
}

}  // namespace test_draft_step_costs

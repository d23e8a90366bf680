#include <chrono>
#include <specdec/draft/length/step_costs.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_draft_step_costs {

using specdec::Index;
using specdec::StepRecord;
using specdec::detail::StepCosts;

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

}  // namespace test_draft_step_costs

#include <chrono>
#include <cmath>
#include <specdec/draft/length/probe_budget.hpp>
#include <string>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_probe_budget {

using specdec::StepRecord;
using specdec::detail::ProbeBudget;
using support::message_of;

namespace {

// A step that takes one second.
const StepRecord second{.draft_time = std::chrono::milliseconds(250),
                        .target_time = std::chrono::milliseconds(750)};

}  // namespace

TEST_CASE("a probe waits until its loss has been earned, and for some steps in any case") {
  ProbeBudget budget(0.125);
  for (int step = 0; step < 3; ++step) budget.earn(second);
  CHECK(!budget.rested());
  CHECK(!budget.affords(-1));
  budget.earn(second);
  CHECK(budget.rested());
  CHECK(budget.affords(0.5));
  CHECK(!budget.affords(0.501));
  for (int step = 0; step < 4; ++step) budget.earn(second);
  CHECK(budget.affords(1));
  budget.spend();
  CHECK(!budget.rested());
  for (int step = 0; step < 4; ++step) budget.earn(second);
  CHECK(budget.affords(0.5));
  CHECK(!budget.affords(0.501));
}

TEST_CASE("a probe pays if its tokens cost less than a plain step each") {
  ProbeBudget budget(0.125);
  budget.try_step(9, 1);
  budget.spend();  // the next probe
  CHECK_FALSE(budget.pays(10));
  budget.try_step(1, 12);
  CHECK_FALSE(budget.pays(10));
  budget.try_step(2, 17);
  CHECK(budget.pays(10));
  CHECK_FALSE(budget.pays(9.5));
}

TEST_CASE("an invalid share of the time is named in the error") {
  CHECK(message_of([] { ProbeBudget{0}; }) == "specdec: probing = 0 is outside (0, 1)");
  CHECK(message_of([] { ProbeBudget{1}; }) == "specdec: probing = 1 is outside (0, 1)");
  CHECK(message_of([] { ProbeBudget{std::nan("")}; }) == "specdec: probing = nan is outside (0, 1)");
}

}  // namespace test_draft_probe_budget

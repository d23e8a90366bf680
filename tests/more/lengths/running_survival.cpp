// SPDX-License-Identifier: MIT
#include <cstddef>
#include <limits>
#include <span>
#include <specdec/more/lengths/running_survival.hpp>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_lengths_running_survival {

using namespace specdec;

namespace {

// The estimates, by position.
struct Estimates {
  std::vector<double> proposed, survival;
};
Estimates of(const RunningSurvival& running) {
  Estimates out;
  running.for_each_position([&](Index i, double proposed, double survival) {
    CHECK(i == std::ssize(out.proposed));
    out.proposed.push_back(proposed);
    out.survival.push_back(survival);
  });
  return out;
}

void observe(RunningSurvival& running, Index asked, const std::vector<double>& survival) {
  running.observe({.asked = asked, .drafted = std::ssize(survival), .survival = survival});
}

}  // namespace

TEST_CASE("the tokens proposed, and their survival, are means by position") {
  RunningSurvival running(1);  // forgets nothing
  running.reserve(2);
  CHECK(running.most() == 2);
  observe(running, 2, {0.5, 0.25});
  observe(running, 2, {1});  // the drafter proposed only one token
  observe(running, 2, {});
  observe(running, 0, {});  // nothing was asked for, so nothing is learnt
  const Estimates found = of(running);
  CHECK(found.proposed == std::vector<double>{2 / 3.0, 1 / 3.0});
  // The first position starts with one token that survived.
  const double first = (1 + 0.5 + 1) / 4;
  CHECK(found.survival[0] == Approx(first).epsilon(1e-15));
  // The second starts with three steps' weight of a guess: survival goes on falling from 1 at the first position's
  // rate.
  CHECK(found.survival[1] == Approx((0.25 + 3 * first * first) / 6).epsilon(1e-15));
}

TEST_CASE(
    "estimates at positions that are no longer asked for fade into a guess from the positions before them") {
  RunningSurvival running(0.5);
  running.reserve(3);
  observe(running, 3, {0.5, 0.5, 0.5});
  for (int k = 0; k < 60; ++k) observe(running, 1, {0.5});
  const Estimates found = of(running);
  CHECK(found.survival[0] == Approx(0.5).epsilon(1e-15));
  CHECK(found.survival[1] == Approx(0.25).epsilon(1e-12));
  CHECK(found.survival[2] == Approx(0.125).epsilon(1e-12));
  CHECK(found.proposed == std::vector<double>{1, 1, 1});
}

TEST_CASE("a running survival forgets at the rate that was set last") {
  const auto after = [](double decay) {
    RunningSurvival running(1);
    running.reserve(1);
    for (int k = 0; k < 7; ++k) observe(running, 1, {1});
    running.decay(decay);
    observe(running, 0, {});  // asks for nothing, so nothing is forgotten
    observe(running, 1, {0});
    return of(running).survival[0];
  };
  CHECK(after(1) == 8 / 9.0);
  CHECK(after(0.5) == 4 / 5.0);
}

TEST_CASE("limit() bounds the weight of what was seen so far") {
  RunningSurvival running(1);
  running.reserve(1);
  for (int k = 0; k < 99; ++k) observe(running, 1, {1});
  running.limit(3);
  observe(running, 1, {0});
  CHECK(of(running).survival[0] == Approx(0.75).epsilon(1e-15));
  CHECK(of(running).proposed[0] == 1);
}

TEST_CASE("room for drafts only grows, and requests beyond it are not recorded") {
  RunningSurvival running(1);
  running.reserve(1);
  observe(running, 3, {0.5, 0.5, 0.5});
  running.reserve(0);
  CHECK(running.most() == 1);
  CHECK(of(running).survival == std::vector<double>{0.75});
  running.reserve(2);
  CHECK(of(running).survival == std::vector<double>{0.75, 0.5625});  // guessed
  CHECK(of(running).proposed == std::vector<double>{1, 1});
}

TEST_CASE("it is enough to look at twice the longest draft so far, and at least at 16") {
  RunningSurvival running(1);
  CHECK(running.reach(5) == 5);
  CHECK(running.reach(1'000'000) == 16);
  running.reserve(16);
  observe(running, 12, std::vector<double>(12, 0.5));
  CHECK(running.reach(1'000'000) == 24);
  CHECK(running.reach(20) == 20);
  observe(running, 3, std::vector<double>(3, 0.5));
  CHECK(running.reach(1'000'000) == 24);
}

TEST_CASE("impossible steps and lengths are named in the error, and nothing is learnt") {
  using support::message_of;
  const std::vector<double> survival{0.5, 0.5};
  const StepRecord good{.asked = 3, .drafted = 2, .accepted = 1, .survival = survival};
  RunningSurvival running(0.5);
  running.reserve(2);
  const auto complaint = [&](auto&& change) {
    StepRecord step = good;
    change(step);
    return message_of([&] { running.observe(step); });
  };
  CHECK(complaint([](StepRecord& step) { step.asked = -1; }) == "specdec: step.asked = -1 is negative");
  CHECK(complaint([](StepRecord& step) { step.asked = unlimited; }) ==
        "specdec: step.asked = 9223372036854775807 is more than 1048576, the longest draft");
  CHECK(complaint([](StepRecord& step) { step.drafted = -1; }) == "specdec: step.drafted = -1 is negative");
  CHECK(complaint([](StepRecord& step) { step.drafted = unlimited; }) ==
        "specdec: step.drafted = 9223372036854775807 is more than 1048576, the longest draft");
  CHECK(complaint([](StepRecord& step) { step.accepted = 3; }) ==
        "specdec: step.accepted = 3 is outside 0..2, the tokens that were drafted");
  CHECK(complaint([](StepRecord& step) { step.accepted = -1; }) ==
        "specdec: step.accepted = -1 is outside 0..2, the tokens that were drafted");
  CHECK(complaint([](StepRecord& step) { step.survival = step.survival.first(1); }) ==
        "specdec: step.survival has 1 numbers for 2 drafted tokens");
  CHECK(running.reach(unlimited) == 16);
  CHECK(complaint([](StepRecord&) {}).empty());
  CHECK(message_of([&] { running.reserve(-1); }) == "specdec: most = -1 is negative");
  CHECK(message_of([&] { running.reserve(unlimited); }) ==
        "specdec: most = 9223372036854775807 is more than 1048576, the longest draft");
  CHECK(message_of([&] { running.reach(-1); }) == "specdec: most = -1 is negative");
  CHECK(message_of([&] { running.decay(-0.5); }) == "specdec: decay = -0.5 is outside [0, 1]");
  CHECK(message_of([&] { RunningSurvival{std::numeric_limits<double>::quiet_NaN()}; }) ==
        "specdec: decay = nan is outside [0, 1]");
}

}  // namespace test_more_lengths_running_survival

// SPDX-License-Identifier: MIT
#include <cmath>
#include <specdec/draft/length/trials.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_trials {

using specdec::Index;
using specdec::StepRecord;
using specdec::detail::Trials;
using support::message_of;

namespace {

// A step without a draft costs 1, each drafted token 1 more. A probe may come when it is affordable.
struct Costs {
  static bool allow(const Trials& trials, double loss) { return trials.affords(loss); }
  double plain() const { return 1; }
  double operator()(Index nodes, Index) const { return 1 + static_cast<double>(nodes); }
};
constexpr Costs costs;

StepRecord step(Index drafted, Index accepted = 0) {
  return {.asked = drafted, .drafted = drafted, .accepted = accepted, .fed = drafted + 1};
}

}  // namespace

TEST_CASE("the first steps draft 2, 0 and 4 tokens, two steps each; steps that tell no time do not count") {
  Trials trials(0.125);
  std::vector<Index> lengths;
  for (; trials.begin(); trials.begin_with(step(trials.first_length()), 4))
    lengths.push_back(trials.first_length());
  CHECK(lengths == std::vector<Index>{2, 2, 0, 0, 4, 4});
  Trials others(0.125);
  for (int n = 0; n < 10; ++n) others.begin_with({.asked = 2, .drafted = 2, .fed = 9}, 2);  // a prompt
  for (int n = 0; n < 10; ++n) others.begin_with(step(3), 2);  // asked for before
  others.begin_with(step(1), 2);                               // a budget cut it
  CHECK(others.first_length() == 2);
  others.begin_with(step(2), 2);
  CHECK(others.first_length() == 0);
}

TEST_CASE("a probe waits until its loss has been earned, and for some steps in any case") {
  Trials trials(0.125);
  for (int n = 0; n < 3; ++n) trials.earn(1);
  CHECK(!trials.affords(-1));
  trials.earn(1);
  CHECK(trials.affords(0.5));
  CHECK(!trials.affords(0.501));
  for (int n = 0; n < 4; ++n) trials.earn(1);
  CHECK(trials.affords(1));
  CHECK(trials.begin_probe(costs, true, 1));
  CHECK(!trials.affords(-1));
  for (int n = 0; n < 4; ++n) trials.earn(1);
  CHECK(trials.affords(0.5));
  CHECK(!trials.affords(0.501));
}

TEST_CASE("a probe has one step where steps draft, else two, for each of the texts") {
  for (const Index texts : {1, 3})
    for (const bool drafts : {true, false}) {
      Trials trials(0.125);
      trials.share_by(texts);
      for (Index n = 0; n < 96 * texts; ++n) trials.earn(1);  // each call counts once: it may lose 12
      const Index calls = drafts ? 1 : 2, steps = calls * texts;
      CHECK(!trials.begin_probe(costs, drafts, 12.1 / static_cast<double>(calls)));
      CHECK(!trials.probe());
      CHECK(trials.begin_probe(costs, drafts, 11.9 / static_cast<double>(calls)));
      for (Index n = 0; n < steps; ++n) {
        CHECK(trials.probe());
        CHECK(trials.end_with(step(1), costs) == (n == steps - 1));
      }
      CHECK(!trials.probe());
      CHECK(trials.number() == 1);
    }
}

TEST_CASE("texts rest for four calls between probes, and a probe of many ends soon where few are left") {
  Trials trials(0.125);
  trials.share_by(3);
  for (int n = 0; n < 11; ++n) trials.earn(1);
  CHECK(!trials.affords(-1));
  trials.earn(1);
  CHECK(trials.begin_probe(costs, false, 0));
  trials.share_by(1);
  CHECK(!trials.end_with(step(1), costs));
  CHECK(trials.end_with(step(1), costs));
}

TEST_CASE("while nothing is drafted a probe goes on as long as its tokens cost less than a plain step each") {
  const auto goes_on = [](bool drafts, double plain) {
    Trials trials(0.125);
    for (int n = 0; n < 4; ++n) trials.earn(1);
    trials.begin_probe(costs, false, 0);
    for (int n = 0; n < 2; ++n) trials.end_with(step(2, 2), costs);  // six tokens cost 6
    trials.go_on(drafts, plain);
    return trials.probe();
  };
  CHECK(!goes_on(false, 1));
  CHECK(goes_on(false, 1.01));
  CHECK(!goes_on(true, 1.01));  // it decided to draft again
}

TEST_CASE("an invalid share of the time is named in the error") {
  CHECK(message_of([] { Trials{0}; }) == "specdec: probing = 0 is outside (0, 1)");
  CHECK(message_of([] { Trials{1}; }) == "specdec: probing = 1 is outside (0, 1)");
  CHECK(message_of([] { Trials{std::nan("")}; }) == "specdec: probing = nan is outside (0, 1)");
}

}  // namespace test_draft_trials

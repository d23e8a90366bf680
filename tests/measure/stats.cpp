// SPDX-License-Identifier: MIT
#include <chrono>
#include <cmath>
#include <specdec/more/analysis/stats_json.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/measured.hpp"
#include "support/message_of.hpp"

namespace test_measure_stats {

using Numbers = std::vector<double>;

using namespace specdec;

TEST_CASE("statistics add up steps") {
  Stats stats;
  CHECK(stats.block_efficiency() == 0);
  CHECK(stats.accepted_fraction() == 0);
  stats.add({.asked = 4, .drafted = 4, .accepted = 2}, 3);
  stats.add({.asked = 4, .drafted = 4, .accepted = 4}, 5);
  stats.add({}, 1);
  stats.add({.asked = 5, .drafted = 2, .accepted = 2}, 1);  // a callback cut off the rest
  CHECK(stats.target_calls == 4);
  CHECK(stats.drafted == 10);
  CHECK(stats.accepted == 7);
  CHECK(stats.emitted == 10);
  CHECK(stats.block_efficiency() == 2.5);
  CHECK(stats.accepted_fraction() == 0.7);
  CHECK(stats.accepted_lengths == std::vector<Index>{1, 1, 1, 0, 1});
  CHECK(stats.asked_by_position == std::vector<Index>{3, 3, 3, 3, 1});
  CHECK(stats.drafted_by_position == std::vector<Index>{3, 3, 2, 2});
  CHECK(stats.reached_by_position == std::vector<Index>{3, 2, 2, 1, 0});
  CHECK(stats.accepted_by_position == std::vector<Index>{3, 2, 1, 1});
  CHECK(stats.survival() == std::vector<double>{1, 1, 0.5, 0.5});  // no step came to the fifth token
}

TEST_CASE("positions after a drafted token that ends the text are in no count by position") {
  Stats stats;
  stats.add({.asked = 6, .drafted = 4, .accepted = 4, .ending = 1},
            2);  // the rule also accepts tokens after the end
  CHECK(stats.asked_by_position == std::vector<Index>{1, 1});
  CHECK(stats.drafted_by_position == std::vector<Index>{1, 1});
  CHECK(stats.reached_by_position == std::vector<Index>{1, 1});
  CHECK(stats.accepted_by_position == std::vector<Index>{1, 1});
  CHECK(stats.drafted == 4);
  stats.add({.asked = 6, .drafted = 2, .accepted = 1, .ending = 1},
            2);                                             // the token that would end it is rejected
  stats.add({.asked = 3, .drafted = 1, .accepted = 1}, 2);  // the drafter has no second token
  CHECK(stats.asked_by_position == std::vector<Index>{3, 3, 1});
  CHECK(stats.drafted_by_position == std::vector<Index>{3, 2});
  CHECK(stats.reached_by_position == std::vector<Index>{3, 3, 0});
  CHECK(stats.survival() == std::vector<double>{1, 1 / 3.0});
  stats.add({.asked = 4, .drafted = 4, .accepted = 2}, 3);
  CHECK(stats.survival() ==
        std::vector<double>{1, 0.5, 0, 0});  // a third token was rejected, so a fourth is, too
}

namespace {

// The statistics of many short texts under a rule. Token 0 ends a text, and so does the budget of 11 tokens.
template <class V>
support::Measured of_short_texts(const Eigen::RowVectorXd& p, const Eigen::RowVectorXd& q, V rule,
                                 int texts) {
  using Model = testing::TableModel<>;
  Philox rng{7};
  support::Measured out;
  const Options options{.max_new_tokens = 11, .gamma = 5, .stop_tokens = {0}};
  for (int n = 0; n < texts; ++n) {
    const support::Measured text =
        support::measured(Model::context_free(p), ModelDrafter{Model::context_free(q)}, rule,
                          std::vector<Token>{1}, options, rng);
    out.stats += text.stats;
    out.measures += text.measures;
  }
  return out;
}

}  // namespace

TEST_CASE("survival is right where texts end inside of drafts") {
  const Eigen::RowVector3d p{0.3, 0.4, 0.3};
  const auto [sure, of_sure, _] = of_short_texts(p, p, BlockVerifier{}, 300);
  const std::vector<double> ones(5, 1.0);
  CHECK(sure.survival() == ones);
  CHECK(of_sure.acceptance.token_survival() == ones);
  CHECK(of_sure.acceptance.block_survival() == ones);
  CHECK(sure.block_efficiency() < 3.2);  // the ends of the texts are in this number

  // The drafter proposes the end too often, or too seldom.
  for (const Eigen::RowVector3d& q : {Eigen::RowVector3d{0.5, 0.2, 0.3}, Eigen::RowVector3d{0.1, 0.6, 0.3}}) {
    const double alpha = p.cwiseMin(q).sum();
    const auto [stats, measures, drafts] = of_short_texts(p, q, TokenVerifier{}, 4000);
    const std::vector<double> counted = stats.survival(), token = measures.acceptance.token_survival();
    const std::vector<double> block = of_short_texts(p, q, BlockVerifier{}, 4000).stats.survival();
    const std::vector<double> of_block = measures.acceptance.block_survival();
    for (std::size_t i = 0; i < 5; ++i) {
      CAPTURE(q, i);
      const double expected = std::pow(alpha, static_cast<double>(i) + 1);
      CHECK(counted[i] == Approx(expected).margin(0.03));
      CHECK(token[i] == Approx(expected).margin(0.015));
      CHECK(block[i] ==
            Approx(of_block[i]).margin(0.03));  // counted by one rule, expected from the drafts of another
    }
  }
}

TEST_CASE("costs leave out work that a step had to catch up") {
  using std::chrono::seconds;
  support::Measured run;
  // The first call, and its drafter, are fed a prompt of ten tokens.
  run.add({.asked = 2, .drafted = 2, .fed = 12, .draft_time = seconds{9}, .target_time = seconds{90}}, 1);
  CHECK(run.measures.draft_cost.sizes() == 0);
  CHECK(run.measures.target_cost.sizes() == 0);
  run.add({.asked = 2, .drafted = 2, .fed = 3, .draft_time = seconds{4}, .target_time = seconds{30}}, 1);
  CHECK(run.measures.draft_cost(2) == 4);
  CHECK(run.measures.target_cost(3) == 30);
  run.add({.fed = 1, .target_time = seconds{20}}, 1);
  CHECK(run.measures.target_cost(1) == 20);
  CHECK(run.measures.target_cost(2) == 25);
  run.add({.asked = 2, .drafted = 2, .fed = 3, .draft_time = seconds{50}, .target_time = seconds{30}}, 1);
  CHECK(run.measures.draft_cost(2) == 4);  // that drafter also had to catch up
  run.add({.asked = 2, .drafted = 0, .fed = 1, .draft_time = seconds{1}, .target_time = seconds{20}}, 1);
  CHECK(run.measures.draft_cost(0) == 1);
  run.add({.asked = 2, .drafted = 2, .fed = 3, .draft_time = seconds{6}, .target_time = seconds{30}}, 1);
  CHECK(run.measures.draft_cost(2) ==
        5);  // its drafter was asked in the step before, and had nothing to catch up
  CHECK(run.stats.draft_time == seconds{9 + 4 + 50 + 1 + 6});
  CHECK(run.stats.target_time == seconds{90 + 30 + 20 + 30 + 20 + 30});
}

TEST_CASE("projections follow from counts and times") {
  using std::chrono::milliseconds;
  support::Measured run;
  CHECK(run.projections().empty());
  const StepRecord step{.asked = 2,
                        .drafted = 2,
                        .accepted = 1,
                        .fed = 3,
                        .draft_time = milliseconds{4},
                        .target_time = milliseconds{30}};
  for (int n = 0; n < 8; ++n) {
    CHECK(run.projections().empty());  // a size counts as measured after 8 calls
    run.add(step, 2);
  }
  run.add(step, 2);  // the drafter was timed 8 times, too
  for (int n = 0; n < 8; ++n) run.add({.fed = 1, .target_time = milliseconds{20}}, 1);
  const auto projections = run.projections(3);  // survival is 1, 0, so it is 0 from there on
  REQUIRE(projections.size() == 4);
  CHECK(projections[0].time_per_token == Approx(0.020));
  CHECK(projections[0].speed_up == Approx(1));
  CHECK(projections[1].tokens_per_call == Approx(2));
  CHECK(projections[1].time_per_token == Approx((0.025 + 0.002) / 2));
  CHECK(projections[2].time_per_token == Approx((0.030 + 0.004) / 2));
  CHECK(projections[3].tokens_per_call == Approx(2));
  CHECK(projections[3].speed_up == Approx(0.020 * 2 / (0.035 + 0.006)));
}

TEST_CASE("statistics print as a table, and leave the stream's format as it was") {
  Stats stats;
  stats.add({.asked = 2, .drafted = 2, .accepted = 1, .draft_time = std::chrono::microseconds{1500}}, 2);
  stats.add({.asked = 2, .drafted = 2, .accepted = 2, .target_time = std::chrono::milliseconds{20}}, 3);
  std::ostringstream out;
  out << stats << 0.123456789;
  CHECK(out.str() ==
        "target calls       2\n"
        "emitted            5\n"
        "drafted, accepted  4, 3\n"
        "block efficiency   2.500 tokens per target call\n"
        "accepted fraction  0.750\n"
        "time (ms)          draft 1.500, target 20.000, verify 0.000\n"
        "accepted lengths   0 1 1\n"
        "position                1      2\n"
        "drafted                 2      2\n"
        "survival            1.000  0.500\n"
        "0.123457");
  Measures measures;
  out.str("");
  out << measures;
  CHECK(out.str().empty());
  measures.acceptance.add(Numbers{0.2, 0.4}, Numbers{0.4, 0.4}, 2, 2);
  measures.acceptance.add(Numbers{0.4, 0.2}, Numbers{0.4, 0.4}, 2, 2);
  out << measures << 0.123456789;
  CHECK(out.str().find("expected accepted  1.250 a step under token verification, 1.250 under block\n") !=
        std::string::npos);
  CHECK(out.str().find("acceptance rate    0.750, with 95 % confidence in ") != std::string::npos);
  CHECK(out.str().find("position                1      2\n  expected, token   0.750  0.500\n"
                       "  expected, block   0.750  0.500\n0.123457") != std::string::npos);
  out.str("");
  out << Stats{};
  CHECK(out.str().find("position") == std::string::npos);
}

TEST_CASE("projections work even if no call had a single token") {
  using std::chrono::milliseconds;
  support::Measured run;
  for (int n = 0; n < 16; ++n) {  // a call over n tokens takes 90 + 10 n ms
    const Index gamma = n % 2 == 0 ? 6 : 8;
    run.add({.asked = gamma,
             .drafted = gamma,
             .accepted = gamma,
             .fed = gamma + 1,
             .target_time = milliseconds{100 + 10 * gamma}},
            gamma + 1);
  }
  const auto projections = run.projections();
  CHECK(projections[0].time_per_token == Approx(0.100));
  CHECK(projections[5].speed_up == Approx(0.100 * 6 / 0.150));
}

TEST_CASE("accepted tokens after a stop token are not counted as accepted") {
  Stats stats;
  stats.add({.asked = 4, .drafted = 4, .accepted = 3}, 2);
  CHECK(stats.accepted_per_step() == 2);
  CHECK(stats.block_efficiency() == 2);
}

TEST_CASE("a sum of statistics without variance has an interval, too") {
  Acceptance one, other;
  for (int n = 0; n < 5; ++n) {
    one.add(Numbers{0.5}, Numbers{0.5}, 1, 1);
    other.add(Numbers{0.5}, Numbers{0.5}, 1, 1);
  }
  one += other;
  CHECK(one.rate_interval().low == Approx(10 / (10 + 1.96 * 1.96)));
}

TEST_CASE("the sum of two statistics is the statistics of all their steps") {
  const auto enter = [](support::Measured& run, int which) {
    const double p = which == 0 ? 0.2 : 0.4;
    const StepRecord step{.asked = 2 + which,
                          .drafted = 1 + which,
                          .accepted = 1,
                          .fed = 2 + which,
                          .draft_time = std::chrono::milliseconds{3 + which},
                          .target_time = std::chrono::milliseconds{20 + which}};
    for (int n = 0; n < 3; ++n) run.add(step, 2);
    for (int n = 0; n < 3 + which; ++n)
      run.measures.acceptance.add(Numbers{p, 0.1 * n}, Numbers{0.4, 0.4}, 2, 2 + which);
    run.stats.verify_time += std::chrono::milliseconds{1};
  };
  support::Measured one, other, both;
  enter(one, 0);
  enter(other, 1);
  enter(both, 0);
  enter(both, 1);
  one.stats += other.stats;
  one.measures += other.measures;
  CHECK(to_json(one.stats, one.measures) == to_json(both.stats, both.measures));
  std::ostringstream a, b;
  a << one.stats << one.measures;
  b << both.stats << both.measures;
  CHECK(a.str() == b.str());
}

TEST_CASE("an impossible tree is named in the error, and nothing is counted") {
  using support::message_of;
  const std::vector<Index> ranks{1, 0}, offered{3, 1, 0};
  StepRecord step{.asked = 5, .drafted = 5, .accepted = 2, .fed = 6};
  step.tree = {3, ranks, offered};
  Stats stats;
  const auto complaint = [&](const TreeRecord& tree) {
    StepRecord bad = step;
    bad.tree = tree;
    return message_of([&] { stats.add(bad, 2); });
  };
  CHECK(complaint({1, ranks, offered}) == "specdec: step.tree.depth = 1 is outside 2..5");
  CHECK(complaint({-1, ranks, {}}) == "specdec: step.tree has ranks, offers or probabilities, but no depth");
  CHECK(complaint({6, ranks, offered}) == "specdec: step.tree.depth = 6 is outside 2..5");
  CHECK(complaint({3, ranks, ranks}) ==
        "specdec: step.tree has 2 ranks and 2 offers, expected 2 and one more");
  const std::vector<Index> far{5, 0}, before{-1, 0}, few{1, 1, 0}, many{3, 1, 6};
  CHECK(complaint({3, far, offered}) == "specdec: step.tree.ranks[0] = 5 is outside 0..4");
  CHECK(complaint({3, before, offered}) == "specdec: step.tree.ranks[0] = -1 is outside 0..4");
  CHECK(complaint({3, ranks, few}) == "specdec: step.tree.offered[0] = 1 is outside 2..5");
  CHECK(complaint({3, ranks, many}) == "specdec: step.tree.offered[2] = 6 is outside 0..5");
  const std::vector<double> three{0.5, 0.4, 0.3}, wrong{0.5, 0.4, 0.3, 1.5}, four{0.5, 0.4, 0.3, 0.2};
  CHECK(complaint({3, ranks, offered, three}) == "specdec: step.tree has 3 probabilities for 4 children");
  CHECK(complaint({3, ranks, offered, wrong}) ==
        "specdec: step.tree.probabilities[3] = 1.5 is outside [0, 1]");
  CHECK(complaint({-1, {}, {}, four}) ==
        "specdec: step.tree has ranks, offers or probabilities, but no depth");
  CHECK(stats.target_calls == 0);
  CHECK(complaint({3, ranks, offered, four}).empty());
  stats = {};
  stats.add(step, 3);
  CHECK(stats.offered_by_rank == std::vector<Index>{2, 1, 1});
  CHECK(stats.accepted_by_rank == std::vector<Index>{1, 1, 0});
  CHECK(stats.drafted_by_position == std::vector<Index>{1, 1, 1});
}

TEST_CASE("an impossible step is named in the error, and nothing is counted") {
  using support::message_of;
  Stats stats;
  const StepRecord step{.asked = 3, .drafted = 2, .accepted = 1, .fed = 3};
  CHECK(message_of([&] { stats.add(step, -1); }) == "specdec: step_emitted = -1 is negative");
  StepRecord bad = step;
  bad.accepted = 3;
  CHECK(message_of([&] { stats.add(bad, 2); }) ==
        "specdec: step.accepted = 3 is outside 0..2, the tokens that were drafted");
  bad = step;
  bad.drafted = unlimited;
  CHECK(message_of([&] { stats.add(bad, 2); }) ==
        "specdec: step.drafted = 9223372036854775807 is more than 1048576, the longest draft");
  for (const Index ending : {-2, 2}) {
    bad = step;
    bad.ending = ending;
    CHECK(message_of([&] { stats.add(bad, 2); }) ==
          "specdec: step.ending = " + std::to_string(ending) + " is outside -1..1");
  }
  CHECK(message_of([&] { stats.reserve(-1); }) == "specdec: gamma = -1 is negative");
  CHECK(message_of([&] { stats.reserve(unlimited); }) ==
        "specdec: gamma = 9223372036854775807 is more than 1048576, the longest draft");
  CHECK(stats.target_calls == 0);
  CHECK(stats.accepted_lengths.empty());
  stats.add(step, 2);
  CHECK(stats.target_calls == 1);
}

}  // namespace test_measure_stats

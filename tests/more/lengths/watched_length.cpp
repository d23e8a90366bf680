// A monitor of acceptance, and a length that stops by it: how often it is wrong, how soon it is right, and the law.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <specdec/more/lengths/acceptance_monitor.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/more/lengths/watched_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_lengths_watched_length {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;

// A step with one drafted token.
void show(auto& watcher, bool accepted) {
  const double survival[] = {accepted ? 1.0 : 0.0};
  watcher.observe({.asked = 1, .drafted = 1, .accepted = accepted ? 1 : 0, .fed = 2, .survival = survival});
}
void show_none(auto& watcher) { watcher.observe({.fed = 1}); }

// Steps until the monitor tells, where each token is accepted with this probability; at most `most`.
double steps_until_told(AcceptanceMonitor monitor, double acceptance, double most, std::mt19937_64& rng) {
  double steps = 0;
  while (!monitor.fallen() && steps < most) {
    show(monitor, uniform01(rng) < acceptance);
    ++steps;
  }
  return steps;
}

}  // namespace

TEST_CASE("the stakes are worth as many units as steps, in expectation, where the least is accepted") {
  for (const double least : {0.1, 0.5, 0.9}) {
    constexpr int steps = 10;
    double worth = 0;
    for (unsigned path = 0; path < (1U << steps); ++path) {
      AcceptanceMonitor monitor{least};
      double probability = 1;
      for (int t = 0; t < steps; ++t) {
        const bool accepted = (path >> t & 1U) != 0;
        probability *= accepted ? least : 1 - least;
        show(monitor, accepted);
      }
      worth += probability * monitor.evidence();
    }
    CHECK(std::abs(worth - steps) < 1e-12 * steps);
  }
}

TEST_CASE("false alarms are as rare as promised, and a fall is told soon") {
  std::mt19937_64 rng{3};
  for (const double least : {0.2, 0.5, 0.8}) {
    const AcceptanceMonitor monitor{least, 200};
    constexpr int runs = 300;
    double total = 0, squares = 0;
    for (int run = 0; run < runs; ++run) {
      const double steps = steps_until_told(monitor, least, 1e6, rng);
      total += steps;
      squares += steps * steps;
    }
    const double mean = total / runs, error = std::sqrt((squares / runs - mean * mean) / runs);
    CHECK(mean + 4 * error > 200);
    CHECK(steps_until_told(AcceptanceMonitor{least, 1e4}, 0, 1e6, rng) <= std::log(1e4) / least);
    for (int run = 0; run < 20; ++run)
      CHECK(steps_until_told(AcceptanceMonitor{least, 1e4}, least / 4, 1e6, rng) < 60 / (least * least));
  }
}

TEST_CASE("a step's share is the mean survival of a line, and in a tree the share of the longest path") {
  const double survival[] = {0.75, 0.25};
  AcceptanceMonitor line{0.5, 1e4}, half{0.5, 1e4}, tree{0.5, 1e4};
  line.observe({.asked = 2, .drafted = 2, .accepted = 1, .fed = 3, .survival = survival});
  CHECK(std::abs(line.evidence() - 1) < 1e-15);  // a share of 0.5
  const Index ranks[] = {0}, offered[] = {2, 2};
  tree.observe({.asked = 4,
                .drafted = 4,
                .accepted = 1,
                .fed = 5,
                .tree = {.depth = 2, .ranks = ranks, .offered = offered}});
  CHECK(std::abs(tree.evidence() - 1) < 1e-15);
  show_none(half);
  CHECK(half.evidence() == 0);
}

TEST_CASE("rests get longer where drafts fail, and are short again after they have been accepted") {
  WatchedLength length{AcceptanceMonitor{0.5, 100}};
  const auto fail_until_it_rests = [&] {
    while (!length.rests()) show(length, false);
    Index rest = 0;
    for (; length.rests(); ++rest) {
      CHECK(length.next(7, {}) == 0);
      show_none(length);
    }
    CHECK(length.next(7, {}) == 7);
    return rest;
  };
  CHECK(fail_until_it_rests() == 64);
  CHECK(fail_until_it_rests() == 128);
  CHECK(fail_until_it_rests() == 256);
  CHECK(fail_until_it_rests() == 256);  // no longer, so that drafts which come back are noticed
  for (int i = 0; i < 65; ++i) show(length, true);
  CHECK(fail_until_it_rests() == 64);
}

TEST_CASE("where nothing is accepted one step in 17 drafts at most, however little is asked for") {
  for (const double least : {0.5, 0.1, 0.02}) {
    WatchedLength length{AcceptanceMonitor{least}};
    Index drafting = 0;
    for (int step = 0; step < 100'000; ++step) {
      const Index drafted = length.next(1, {});
      drafting += drafted;
      if (drafted > 0) show(length, false);
      else show_none(length);
    }
    CHECK(drafting < 6'500);
  }
}

TEST_CASE("it has what the length inside has") {
  WatchedLength length{AcceptanceMonitor{0.5}, ScheduledLength{3}};
  CHECK(length.next(9, {}) == 3);
  show(length, true);
  CHECK(length.next(9, {}) == 5);
  static_assert(counts_nodes<WatchedLength<FixedLength>> && !counts_nodes<WatchedLength<ScheduledLength>>);
}

namespace {

// Proposes tokens that the target always accepts, and from a length of the text on tokens that it never accepts.
struct FailsFrom {
  Index begin;
  Tokens tokens = {};

  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) & {
    tokens.assign(static_cast<std::size_t>(gamma), std::ssize(context) + gamma <= begin ? 0 : 1);
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("a text stops drafting where its drafts fail") {
  const Eigen::RowVectorXd row = Eigen::RowVectorXd::Unit(2, 0);
  SpecDec decoder{TableModel<>::context_free(row), FailsFrom{400}, BlockVerifier{},
                  WatchedLength{AcceptanceMonitor{0.3}}};
  std::mt19937_64 rng{1};
  const Result result = decoder.generate(Tokens{0}, {.max_new_tokens = 1400, .gamma = 4}, rng);
  CHECK(result.stats.accepted >= 300);
  CHECK(result.stats.drafted - result.stats.accepted < 4 * 200);  // of 1000 steps after the fall
  CHECK(result.stats.drafted - result.stats.accepted > 4 * 20);
}

TEST_CASE("a text under a watched length has the target's law", "[law]") {
  std::mt19937_64 rng{8};
  const Options options{.max_new_tokens = 4, .gamma = 2};
  for (int model = 0; model < 8; model += every(4)) {
    const auto target = TableModel<>::random(2, 1, rng), draft = TableModel<>::random(2, 1, rng);
    Law law;
    Index rested = 0;
    enumerate([&](Enumerator& chance) {
      WatchedLength length{AcceptanceMonitor{0.5, 1}};
      SpecDec decoder{TableModel<>(target), ModelDrafter{TableModel<>(draft)}, BlockVerifier{}, length};
      const Result result = decoder.generate(Tokens{0}, options, chance);
      law[result.tokens] += chance.probability();
      rested += length.rests() ? 1 : 0;
    });
    CHECK(largest_difference(law, target_law(target, Tokens{0}, options)).size < 1e-12);
    CHECK(rested > 0);
  }
}

TEST_CASE("monitors that cannot be are refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(message_of([&] { AcceptanceMonitor{nan}; }) == "specdec: least = nan is outside (0, 1)");
  CHECK(message_of([] { AcceptanceMonitor{1}; }) == "specdec: least = 1 is outside (0, 1)");
  CHECK(message_of([] { AcceptanceMonitor{0.5, 0}; }) == "specdec: patience = 0 is below 1");
}

}  // namespace test_more_lengths_watched_length

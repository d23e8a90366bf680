// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <specdec/more/lengths/cost_optimal_length.hpp>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_cost_optimal_length {

using namespace specdec;

namespace {

// A pair of models as a policy sees it: how likely a token survives given that all before it have, how likely the
// drafter proposes anything, and the costs.
struct Pair {
  double accepts;     // the probability that a token survives, given that all before it have
  double proposes;    // the probability that the drafter proposes anything
  double draft_cost;  // of one token
  std::function<double(Index)> target_cost;  // of a call over n tokens
  double read_cost = 0;                      // of one token that was written while the drafter was not asked
  double window = 1e9;                       // no more of these tokens are read than this

  double draft_time(Index n) const { return draft_cost * static_cast<double>(n); }

  // The exact time per token of a fixed length.
  double time_per_token(Index gamma) const {
    double tokens = 1;
    for (Index i = 1; i <= gamma; ++i) tokens += proposes * std::pow(accepts, static_cast<double>(i));
    const double drafted = proposes * (draft_time(gamma) + target_cost(gamma + 1));
    return (drafted + (1 - proposes) * target_cost(1)) / tokens;
  }
  double best_time(Index most) const {
    double best = time_per_token(0);
    for (Index gamma = 1; gamma <= most; ++gamma) best = std::min(best, time_per_token(gamma));
    return best;
  }
};

// Runs a policy on pairs with times that vary by a tenth and sometimes stall. The total time leaves this noise out, so
// that it can be compared with the exact optimum.
class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : rng_(seed) {}

  // The time per token of `steps` steps.
  template <class Policy>
  double run(Policy& policy, const Pair& pair, Index most, Index steps) {
    double time = 0, tokens = 0;
    for (Index k = 0; k < steps; ++k) {
      const Index asked = policy.next(most);
      REQUIRE(asked >= 0);
      REQUIRE(asked <= std::min<Index>(most, 4096));  // for no pair here are longer drafts worth it
      const Index drafted = uniform(rng_) < pair.proposes ? asked : 0;
      Index accepted = 0;
      while (accepted < drafted && uniform(rng_) < pair.accepts) ++accepted;
      survival_.assign(static_cast<std::size_t>(drafted), 0.0);
      std::fill_n(survival_.begin(), accepted, 1.0);
      const double read = asked > 0 ? pair.read_cost * std::min(unread_, pair.window) : 0;
      const double draft_time = pair.draft_time(drafted) + read, target_time = pair.target_cost(drafted + 1);
      policy.observe({.asked = asked,
                      .drafted = drafted,
                      .accepted = accepted,
                      .fed = drafted + 1,
                      .survival = survival_,
                      .draft_time = measured(draft_time),
                      .target_time = measured(target_time)});
      time += draft_time + target_time;
      tokens += static_cast<double>(accepted) + 1;
      unread_ = asked > 0 ? 0 : unread_ + 1;
    }
    return time / tokens;
  }

 private:
  std::chrono::nanoseconds measured(double time) {
    const double stall = uniform(rng_) < 0.01 ? 20 : 1;
    return std::chrono::nanoseconds(std::llround(1e6 * time * stall * (0.95 + 0.1 * uniform(rng_))));
  }
  static double uniform(std::mt19937_64& rng) { return uniform01(rng); }

  std::mt19937_64 rng_;
  std::vector<double> survival_;
  double unread_ = 0;  // tokens that the drafter must read before its next draft
};

double flat(Index) { return 1; }
double linear(Index n) { return 0.8 + 0.2 * static_cast<double>(n); }
double stepped(Index n) {  // the cost of a call with a tiled kernel
  const std::vector<double> costs{0, 1, 1.22, 1.68, 1.57, 1.94, 2.31, 2.6, 2.6, 3.5};
  return n < std::ssize(costs) ? costs[static_cast<std::size_t>(n)] : 0.39 * static_cast<double>(n);
}

}  // namespace

TEST_CASE(
    "the policy finds the fastest length: its time is within 3 % of the best fixed length's, probes "
    "included") {
  const std::vector<Pair> pairs{{0.75, 1, 0.07, stepped}, {0.6, 1, 0.07, stepped}, {0.9, 1, 0.05, flat},
                                {0.5, 1, 0.3, linear},    {0.8, 0.4, 0, linear},   {0.95, 1, 0.01, linear}};
  for (const Pair& pair : pairs) {
    CostOptimalLength policy;
    Simulation simulation(7);
    const double time = simulation.run(policy, pair, 16, 6000);
    INFO("accepts " << pair.accepts << ", best " << policy.best());
    CHECK(time <= 1.03 * pair.best_time(16));
  }
}

TEST_CASE("a long draft that pays off is found, however long drafts may be, and no longer drafts are tried",
          "[long]") {
  const Pair sure{0.995, 1, 0.002, flat}, usual{0.6, 1, 0.07, stepped};
  constexpr Index most = 30'000'000;
  for (const Pair& pair : {sure, usual}) {
    CostOptimalLength policy;
    Simulation simulation(3);
    CHECK(policy.longest() == -1);
    policy.next(most);
    CHECK(policy.longest() == 16);
    simulation.run(policy, pair, most, 1000);
    CHECK(simulation.run(policy, pair, most, 1000) <= 1.3 * pair.best_time(1000));
    CHECK(policy.longest() <= 1024);
    CHECK((policy.longest() > 32) == (pair.accepts > 0.9));
    CHECK(policy.best() <= policy.longest());
  }
}

TEST_CASE("a draft that ends early costs what a draft of its own length costs") {
  CostOptimalLength policy({.window = 1e9});
  const std::vector<double> survival(2, 1.0);
  const auto take = [&](Index drafted) {
    const Index asked = policy.next(2);
    drafted = std::min(drafted, asked);
    policy.observe({.asked = asked,
                    .drafted = drafted,
                    .accepted = drafted,
                    .fed = drafted + 1,
                    .survival = std::span(survival).first(static_cast<std::size_t>(drafted)),
                    .draft_time = std::chrono::seconds(drafted),
                    .target_time = std::chrono::seconds(10 + drafted)});
  };
  for (int step = 0; step < 400; ++step) take(1 + step % 2);
  // Where two tokens are asked for, half of the drafts have one.
  CHECK(policy.time_per_token(0) == Approx(10));
  CHECK(policy.time_per_token(1) == Approx(12 / 2.0).epsilon(0.01));
  CHECK(policy.time_per_token(2) == Approx((0.5 * 12 + 0.5 * 14) / 2.5).epsilon(0.02));
}

TEST_CASE("after a bad start the policy goes on trying for a while, but not for long") {
  CostOptimalLength policy;
  const std::vector<double> survival(16, 0.0);
  const auto fail = [&] {
    const Index asked = policy.next(16);
    policy.observe({.asked = asked,
                    .drafted = asked,
                    .accepted = 0,
                    .fed = asked + 1,
                    .survival = std::span(survival).first(static_cast<std::size_t>(asked)),
                    .draft_time = std::chrono::microseconds(10 * asked),
                    .target_time = std::chrono::microseconds(100)});
    return asked;
  };
  for (int step = 0; step < 6; ++step) CHECK(fail() <= 4);  // the lengths that are tried first
  CHECK(policy.best() > 0);
  for (int step = 0; step < 30; ++step) fail();
  CHECK(policy.best() == 0);
}

// A text of 100 steps with a policy that knows nothing yet; the mean over 200 texts.
TEST_CASE("the first text costs little more than with the best fixed length") {
  for (const Pair& pair : {Pair{0.75, 1, 0.07, stepped}, Pair{0.6, 1, 0.07, stepped}}) {
    double time = 0;
    Simulation simulation(12);
    for (int text = 0; text < 200; ++text) {
      CostOptimalLength policy;
      time += simulation.run(policy, pair, 16, 100) / 200;
    }
    CHECK(time <= 1.09 * pair.best_time(16));
  }
}

TEST_CASE("a drafter that does not pay is switched off, at a cost of at most 2 %") {
  for (const Pair& pair :
       {Pair{0.05, 0.6, 0.001, linear}, Pair{0.3, 1, 0.5, linear}, Pair{0.05, 1, 0.07, stepped}}) {
    CostOptimalLength policy;
    Simulation simulation(8);
    const double time = simulation.run(policy, pair, 16, 4000);
    CHECK(policy.best() == 0);
    CHECK(time <= 1.02 * pair.target_cost(1));
  }
}

TEST_CASE("the policy follows a pair that changes, also from being switched off") {
  const Pair good{0.85, 1, 0.05, linear}, bad{0.05, 1, 0.2, linear}, dear{0.85, 1, 0.4, linear};
  CostOptimalLength policy;
  Simulation simulation(9);
  const std::vector<Pair> course{good, bad, good, dear, good};
  double time = 0, fixed_times[17] = {};
  for (const Pair& pair : course) {
    time += simulation.run(policy, pair, 16, 3000);
    for (Index gamma = 0; gamma <= 16; ++gamma) fixed_times[gamma] += pair.time_per_token(gamma);
  }
  CHECK(time <= 1.03 * *std::min_element(fixed_times, fixed_times + 17));
  CHECK(good.time_per_token(policy.best()) <= 1.03 * good.best_time(16));
}

TEST_CASE("the times of a prompt and of catching up are not taken for the time of a step") {
  using std::chrono::milliseconds;
  CostOptimalLength policy;
  const std::vector<double> survival{1, 1, 1, 1};
  Index before = 0;
  const auto step = [&](Index prompt) {
    const Index asked = policy.next(4);
    policy.observe({.asked = asked,
                    .drafted = asked,
                    .accepted = asked,
                    .fed = prompt + asked + 1,
                    .survival = std::span(survival).first(static_cast<std::size_t>(asked)),
                    .draft_time = milliseconds(asked == 0                  ? 0
                                               : before == 0 || prompt > 0 ? 15
                                                                           : 10),
                    .target_time = milliseconds(prompt > 0 ? 15 : 10)});
    before = asked;
  };
  for (int text = 0; text < 3; ++text) {
    step(2);
    for (int k = 0; k < 12; ++k) step(0);
  }
  CHECK(policy.time_per_token(0) == Approx(0.010));
  CHECK(policy.time_per_token(2) == Approx(0.020 / 3));
  CHECK(policy.time_per_token(4) == Approx(0.020 / 5));
  CHECK(policy.best() == 4);
}

namespace {

// A step without noise of a draft of which every token survives; `stall` times as long where that is given.
template <class Policy>
Index sure_step(Policy& policy, Index most, Index cut = unlimited, double stall = 1) {
  const Index asked = std::min(policy.next(most), cut);
  const std::vector<double> survival(static_cast<std::size_t>(asked), 1.0);
  const auto time = [&](Index microseconds) {
    return std::chrono::nanoseconds(std::llround(1000 * stall * static_cast<double>(microseconds)));
  };
  policy.observe({.asked = asked,
                  .drafted = asked,
                  .accepted = asked,
                  .fed = asked + 1,
                  .survival = survival,
                  .draft_time = time(10 * asked),
                  .target_time = time(100)});
  return asked;
}

}  // namespace

TEST_CASE("the first steps go on, though budgets cut their drafts") {
  CostOptimalLength policy;
  std::vector<Index> next;
  for (int step = 0; step < 6; ++step) {
    next.push_back(policy.next(16));
    sure_step(policy, 16, 1);
  }
  CHECK(next == std::vector<Index>{2, 2, 0, 0, 4, 4});
}

TEST_CASE("of the lengths that are not the best, and no drafts, each gets probes that cost about as much") {
  CostOptimalLength policy({.window = 1e6});  // it forgets none of them
  for (int step = 0; step < 100; ++step) sure_step(policy, 4);
  std::vector<double> tried(5);
  for (int step = 0; step < 20000; ++step) ++tried[static_cast<std::size_t>(sure_step(policy, 4))];
  CHECK(policy.best() == 4);
  double lost = 0;
  for (const Index gamma : {0, 1, 2, 3}) {
    const double length = static_cast<double>(gamma), loss = 100 + 10 * length - 28 * (1 + length);
    INFO("gamma " << gamma);
    CHECK(tried[static_cast<std::size_t>(gamma)] * loss == Approx(tried[0] * 72).epsilon(0.2));
    lost += tried[static_cast<std::size_t>(gamma)] * loss;
  }
  CHECK(lost == Approx(0.01 * 140 * 20000).epsilon(0.1));
}

TEST_CASE("a length that was measured while the machine stalled is tried again some day") {
  CostOptimalLength policy({.window = 1e6});  // it forgets nothing in the meantime
  for (int step = 0; step < 100; ++step) sure_step(policy, 4);
  while (policy.next(5) < 5) sure_step(policy, 5);
  sure_step(policy, 5, unlimited, 1e6);
  REQUIRE(policy.best() == 4);
  int steps = 0;
  while (steps < 5000 && sure_step(policy, 5) < 5) ++steps;
  CHECK(steps > 100);
  CHECK(steps < 1000);
  sure_step(policy, 5);
  CHECK(policy.best() == 5);
}

TEST_CASE("a step from before the policy was first asked is ignored") {
  CostOptimalLength policy;
  const std::vector<double> survival(2, 1.0);
  policy.observe({.asked = 2,
                  .drafted = 2,
                  .accepted = 2,
                  .fed = 3,
                  .survival = survival,
                  .draft_time = std::chrono::milliseconds(1),
                  .target_time = std::chrono::milliseconds(1)});
  CHECK(policy.next(4) == 2);
  // No cost is known yet.
  for (Index gamma = 0; gamma <= 4; ++gamma) CHECK(policy.time_per_token(gamma) == 0);
}

TEST_CASE("gamma 0 drafts nothing; options are checked") {
  CostOptimalLength policy;
  CHECK(policy.next(0) == 0);
  policy.observe({});
  CHECK(policy.next(0) == 0);
  using Options = CostOptimalOptions;
  CHECK(support::message_of([] { CostOptimalLength(Options{.window = 0.5}); }) ==
        "specdec: window = 0.5 is below 1");
  CHECK(support::message_of([] { CostOptimalLength(Options{.probing = 1}); }) ==
        "specdec: probing = 1 is outside (0, 1)");
}

TEST_CASE("texts with a smaller gamma, or none, do not disturb what the text with the largest learns") {
  const Pair pair{0.9, 1, 0.05, flat};
  for (const Index other : {0, 2}) {
    CostOptimalLength policy;
    Simulation simulation(7), beside(8);
    for (int k = 0; k < 600; ++k) {
      simulation.run(policy, pair, 8, 1);
      beside.run(policy, pair, other, 1);
    }
    CHECK(policy.best() >= 6);
    CHECK(policy.longest() == 8);
    CHECK(policy.next(other) <= other);
  }
}

TEST_CASE("what was learnt of a bad drafter does not outweigh probes that find it good again") {
  const Pair good{0.9, 1, 0.1, linear}, bad{0.03, 1, 0.1, linear};
  int steps = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CostOptimalLength policy;
    Simulation simulation(seed);
    simulation.run(policy, good, 8, 300);
    simulation.run(policy, bad, 8, 3000);
    CHECK(policy.best() == 0);
    for (; policy.best() < 3 && steps < 10000; ++steps) simulation.run(policy, good, 8, 1);
  }
  CHECK(steps < 10 * 200);
}

TEST_CASE(
    "a drafter that does not pay costs at most 5 %, however long it takes to read what it has not seen") {
  for (const double probing : {0.01, 0.001})
    for (const double read_cost : {0.001, 0.005, 0.02, 0.05, 0.2, 0.5, 2.0})
      for (const std::uint64_t seed : {1u, 2u, 3u}) {
        const Pair pair{0.03, 1, 0.3, linear, read_cost};
        CostOptimalLength policy({.probing = probing});
        const double time = Simulation(seed).run(policy, pair, 8, 4000);
        INFO("probing " << probing << ", a token read costs " << read_cost << ": " << time);
        CHECK(policy.best() == 0);
        CHECK(time <= 1.05 * pair.target_cost(1));
      }
}

TEST_CASE("a drafter that begins to pay is found again, later where reading is dear") {
  struct Case {
    double read_cost, window;
    int steps;  // the most until it is found
  };
  for (const auto& [read_cost, window, most] :
       {Case{0.005, 1e9, 250}, Case{0.01, 1e9, 1000}, Case{0.02, 1e9, 40000}, Case{0.03, 64, 600}}) {
    const Pair good{0.9, 1, 0.1, linear, read_cost, window}, bad{0.03, 1, 0.1, linear, read_cost, window};
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CostOptimalLength policy;
      Simulation simulation(seed);
      simulation.run(policy, bad, 8, 6000);
      CHECK(policy.best() == 0);
      int steps = 0;
      while (policy.best() < 3 && steps++ < most) simulation.run(policy, good, 8, 1);
      INFO("a token read costs " << read_cost << ", the window has " << window << ", seed " << seed);
      CHECK(steps <= most);
    }
  }
}

TEST_CASE("a target that gets slower is no reason to read without a probe") {
  const auto slower = [](Index n) { return 3 * linear(n); };
  const Pair before{0.03, 1, 0.3, linear, 0.2}, now{0.03, 1, 0.3, slower, 0.2};
  CostOptimalLength policy;
  Simulation simulation(1);
  simulation.run(policy, before, 8, 1000);
  CHECK(policy.best() == 0);
  CHECK(simulation.run(policy, now, 8, 1000) == Approx(now.target_cost(1)));
}

TEST_CASE("lengths that the policy does not consider are named in the error") {
  using support::message_of;
  CostOptimalLength policy;
  CHECK(message_of([&] { policy.next(-1); }) == "specdec: most = -1 is negative");
  CHECK(message_of([&] { policy.time_per_token(0); }) == "specdec: gamma = 0 is outside 0..longest() = -1");
  CHECK(policy.next(unlimited) == 2);
  CHECK(message_of([&] { policy.time_per_token(17); }) == "specdec: gamma = 17 is outside 0..longest() = 16");
  CHECK(message_of([&] { policy.time_per_token(-1); }) == "specdec: gamma = -1 is outside 0..longest() = 16");
  CHECK(message_of([&] { CostOptimalLength({.window = std::nan("")}); }) ==
        "specdec: window = nan is below 1");
}

}  // namespace test_draft_cost_optimal_length

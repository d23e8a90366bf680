// A batch with target calls that cost what a roofline says: the time to read the weights, or the arithmetic of every
// token. Oracle: the exact goodput of every fixed length.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_goodput_length {

using namespace specdec;
using support::message_of;

namespace {

double roofline(Index tokens) { return std::max(1.0, static_cast<double>(tokens) / 64); }
double draft_step(Index sequences) { return 0.05 * roofline(sequences); }

// The mean number of tokens of a sequence, if each token survives with probability `accepts`.
double exact_tokens(Index gamma, double accepts) {
  double tokens = 1;
  for (Index i = 1; i <= gamma; ++i) tokens += std::pow(accepts, static_cast<double>(i));
  return tokens;
}

double step_cost(Index batch, Index gamma) {
  return roofline(batch * (gamma + 1)) + static_cast<double>(gamma) * draft_step(batch);
}

double exact_goodput(Index batch, Index gamma, double accepts) {
  return static_cast<double>(batch) * exact_tokens(gamma, accepts) / step_cost(batch, gamma);
}

Index exact_best(Index batch, Index most, double accepts) {
  Index best = 0;
  for (Index gamma = 1; gamma <= most; ++gamma)
    if (exact_goodput(batch, gamma, accepts) > exact_goodput(batch, best, accepts)) best = gamma;
  return best;
}

// Runs `steps` steps of a batch and observes every sequence. Returns the mean goodput of the chosen lengths.
template <class Policy>
double run(Policy& policy, Index batch, double accepts, int steps, std::mt19937_64& rng) {
  policy.batch(batch);
  double tokens = 0, cost = 0;
  std::vector<double> survival;
  for (int n = 0; n < steps; ++n) {
    const Index gamma = policy.next(16);
    for (Index b = 0; b < batch; ++b) {
      Index accepted = 0;
      while (accepted < gamma && uniform01(rng) < accepts) ++accepted;
      survival.assign(static_cast<std::size_t>(gamma), 0.0);
      std::fill_n(survival.begin(), accepted, 1.0);
      policy.observe({.asked = gamma, .drafted = gamma, .accepted = accepted, .survival = survival});
    }
    tokens += static_cast<double>(batch) * exact_tokens(gamma, accepts);
    cost += step_cost(batch, gamma);
  }
  return tokens / cost;
}

}  // namespace

TEST_CASE("the policy finds the greatest goodput for every batch size") {
  std::mt19937_64 rng{1};
  for (const double accepts : {0.5, 0.8})
    for (const Index batch : {1, 4, 16, 64, 256}) {
      GoodputLength policy(batch, roofline, draft_step);
      run(policy, batch, accepts, 400, rng);
      const double got = run(policy, batch, accepts, 400, rng);
      const double best = exact_goodput(batch, exact_best(batch, 16, accepts), accepts);
      INFO("accepts " << accepts << ", batch " << batch << ", gamma " << policy.next(16) << ", exact "
                      << exact_best(batch, 16, accepts));
      CHECK(got >= 0.96 * best);
    }
  CHECK(exact_best(1, 16, 0.8) > exact_best(16, 16, 0.8));
  CHECK(exact_best(256, 16, 0.5) == 0);
}

TEST_CASE("when a batch grows, drafts get shorter at once; when it shrinks, they get longer again") {
  std::mt19937_64 rng{2};
  GoodputLength policy(1, roofline, draft_step);
  run(policy, 1, 0.8, 500, rng);
  const Index alone = policy.next(16);
  policy.batch(16);
  const Index sixteen = policy.next(16);
  policy.batch(512);
  CHECK(alone > sixteen);
  CHECK(sixteen > 0);
  CHECK(policy.next(16) == 0);
  policy.batch(1);
  CHECK(policy.next(16) == alone);
}

TEST_CASE("a drafter that was given up is probed again, at the allowed cost") {
  std::mt19937_64 rng{3};
  GoodputLength policy(64, roofline, [](Index) { return 0.1; });
  run(policy, 64, 0.05, 100, rng);
  std::vector<double> survival;
  int drafts = 0;
  double lost = 0, spent = 0;
  for (int n = 0; n < 20000; ++n) {
    const Index gamma = policy.next(8);
    const double cost = roofline(64 * (gamma + 1)) + 0.1 * static_cast<double>(gamma);
    drafts += gamma > 0;
    lost += cost - roofline(64);
    spent += cost;
    survival.assign(static_cast<std::size_t>(gamma), 0.05);
    for (int sequence = 0; sequence < 64; ++sequence)
      policy.observe({.asked = gamma, .drafted = gamma, .survival = survival});
  }
  CHECK(drafts > 100);
  CHECK(lost < 0.015 * spent);
  run(policy, 8, 0.9, 300, rng);  // the drafter is good now, and the batch small
  CHECK(policy.next(16) > 0);
}

TEST_CASE("goodput counts the tokens that the drafter really proposes") {
  GoodputLength policy(
      10, [](Index tokens) { return static_cast<double>(tokens); }, [](Index) { return 0.5; });
  const std::vector<double> survival{0.5};
  for (int n = 0; n < 2000; ++n) {
    policy.next(2);
    policy.observe({.asked = 2, .drafted = n % 2, .survival = std::span(survival).first(n % 2 == 1 ? 1 : 0)});
  }
  // Half the drafts have one token, which survives in half the cases. No draft has two. 10 and 15 tokens a call.
  CHECK(policy.goodput(0) == Approx(10 / 10.0));
  CHECK(policy.goodput(1) == Approx(10 * 1.25 / (15 + 0.5)).epsilon(0.01));
  CHECK(policy.goodput(2) == Approx(10 * 1.25 / (15 + 1.0)).epsilon(0.01));
}

TEST_CASE("the first drafts are made in order to learn") {
  GoodputLength policy(
      1, [](Index) { return 1.0; }, [](Index) { return 9.0; });
  const std::vector<double> none(4, 0.0);
  for (int n = 0; n < 8; ++n) {
    CHECK(policy.next(16) == 4);
    CHECK(policy.next(3) == 3);
    policy.observe({.asked = 4, .drafted = 4, .survival = none});
  }
  CHECK(policy.next(16) == 0);
}

TEST_CASE("a drafter that proposes nothing is not asked for ever") {
  GoodputLength policy(
      1, [](Index) { return 1.0; }, [](Index) { return 0.2; });
  for (int n = 0; n < 8; ++n) {
    CHECK(policy.next(16) == 4);
    policy.observe({.asked = 4, .drafted = 0, .fed = 1});
  }
  CHECK(policy.next(16) == 0);
}

TEST_CASE("of equal goodputs the shorter draft is chosen, and the tokens of a call are rounded") {
  GoodputLength policy(
      3, [](Index tokens) { return tokens == 5 ? 1.0 : 7.0; }, [](Index) { return 0.0; });
  const std::vector<double> none(1, 0.0);
  for (int n = 0; n < 20000; ++n) {  // 0.6 of the drafts have one token, and none survives: 4.8 tokens a call
    const Index drafted = n % 5 < 3 ? 1 : 0;
    policy.next(4);
    policy.observe({.asked = 4,
                    .drafted = drafted,
                    .survival = std::span(none).first(static_cast<std::size_t>(drafted))});
  }
  CHECK(policy.goodput(1) == Approx(3.0).epsilon(0.01));
  CHECK(policy.goodput(4) == Approx(3.0).epsilon(0.01));
  CHECK(policy.next(4) == 1);
}

TEST_CASE("what was learnt is not forgotten while nothing is drafted") {
  GoodputLength policy(
      1, [](Index) { return 1.0; }, [](Index) { return 100.0; }, 1.5);
  const std::vector<double> most(4, 0.9);
  policy.next(4);
  for (int n = 0; n < 8; ++n) policy.observe({.asked = 4, .drafted = 4, .survival = most});
  for (int n = 0; n < 5000; ++n) policy.observe({});
  CHECK(policy.goodput(1) == Approx(1.9 / 101).epsilon(0.01));
}

TEST_CASE("a window counts steps of the batch, for every batch size") {
  const auto after = [](Index batch, Index before) {  // ten steps of good drafts, then two of bad ones
    GoodputLength policy(
        before, [](Index) { return 1.0; }, [](Index) { return 0.0; }, 10);
    policy.batch(batch);
    policy.next(1);
    const std::vector<double> good{1.0}, bad{0.0};
    for (int step = 0; step < 12; ++step)
      for (Index b = 0; b < batch; ++b)
        policy.observe({.asked = 1, .drafted = 1, .survival = step < 10 ? good : bad});
    return policy.goodput(1) / static_cast<double>(batch) - 1;
  };
  CHECK(after(64, 64) == Approx(after(1, 1)).epsilon(0.1));
  CHECK(after(64, 1) == after(64, 64));  // the number may change
  CHECK(after(1, 64) == after(1, 1));
}

TEST_CASE("a measured cost curve can give the costs, in the loop too") {
  CostCurve target, draft;
  for (const Index tokens : {1, 64, 256, 1024}) target.add(tokens, roofline(tokens));
  draft.add(1, 0.05);
  GoodputLength policy(1, target, draft);
  SplitMix64 seed{5};
  auto model = testing::TableModel<>::random(4, 1, seed), small = model;
  SpecDec decoder{model, ModelDrafter{small}, BlockVerifier{}, policy};
  std::mt19937_64 rng{1};
  const std::vector<Token> prompt{0};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 400, .gamma = 8}, rng);
  CHECK(r.stats.accepted == r.stats.drafted);
  CHECK(r.stats.drafted_by_position.size() == 8);  // all tokens survive, so drafts are as long as allowed
}

TEST_CASE("impossible batches are named in the error") {
  const auto make = [](Index batch, double window, double probing) {
    return message_of([&] { GoodputLength(batch, roofline, draft_step, window, probing); });
  };
  CHECK(make(0, 100, 0.01) == "specdec: batch = 0 is below 1");
  CHECK(make(1, 0.5, 0.01) == "specdec: window = 0.5 is below 1");
  CHECK(make(1, 100, 1) == "specdec: probing = 1 is outside (0, 1)");
  CHECK(make(1, 1, 0.5).empty());
  GoodputLength policy(1, roofline, draft_step);
  CHECK(message_of([&] { policy.batch(-3); }) == "specdec: batch = -3 is below 1");
  CHECK(policy.next(0) == 0);
}

TEST_CASE("however long drafts may be, only twice the longest so far is considered") {
  GoodputLength policy{1, [](Index) { return 1.0; }, [](Index) { return 0.001; }};
  const std::vector<double> all(4096, 1.0);
  Index longest = 8;
  for (int n = 0; n < 40; ++n) {
    const Index gamma = policy.next(30'000'000);
    REQUIRE(gamma <= 2 * longest);
    longest = std::max(longest, gamma);
    if (gamma > 1000) break;
    policy.observe({.asked = gamma,
                    .drafted = gamma,
                    .accepted = gamma,
                    .fed = gamma + 1,
                    .survival = std::span(all).first(static_cast<std::size_t>(gamma))});
  }
  CHECK(longest > 100);  // every drafted token survives
}

TEST_CASE("a batch too large to count, and lengths that are not considered, are named in the error") {
  CHECK(message_of([] { GoodputLength(unlimited, roofline, draft_step); }) ==
        "specdec: batch = 9223372036854775807 is more than 1073741824 sequences");
  GoodputLength policy(GoodputLength(1, roofline, draft_step).largest_batch, roofline, draft_step);
  CHECK(policy.next(unlimited) == 4);
  CHECK(policy.goodput(16) > 0);
  CHECK(message_of([&] { policy.next(-1); }) == "specdec: most = -1 is negative");
  CHECK(message_of([&] { policy.goodput(17); }) ==
        "specdec: gamma = 17 is outside 0..16, the lengths that are looked at");
  CHECK(message_of([&] { policy.goodput(-1); }) ==
        "specdec: gamma = -1 is outside 0..16, the lengths that are looked at");
}

}  // namespace test_draft_goodput_length

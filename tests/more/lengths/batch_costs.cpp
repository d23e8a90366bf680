// Texts that share their calls. Oracle of the lengths: the exact goodput of every fixed length, where a target call costs what
// a roofline says: the time to read the weights, or the arithmetic of every token.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <specdec/more/lengths/batch_costs.hpp>
#include <specdec/more/lengths/cost_optimal_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_batch_costs {

using namespace specdec;
using support::message_of;

namespace {

// A target call costs 1, and its tokens 1/4 each up to the eighth and 1/2 beyond; a draft call costs 2 and 1/8 for each text.
auto costs() {
  return BatchCosts{[](Index n) {
                      return 1 + 0.25 * static_cast<double>(n) +
                             0.25 * static_cast<double>(n > 8 ? n - 8 : 0);
                    },
                    [](Index texts) { return 2 + 0.125 * static_cast<double>(texts); }};
}

StepRecord drafted(Index tokens, Index fed) { return {.asked = tokens, .drafted = tokens, .fed = fed}; }

}  // namespace

TEST_CASE("a text bears its share of the calls that it takes part in") {
  auto alone = costs();
  CHECK(alone.plain() == Approx(1.25));
  CHECK(alone(3, 2) == Approx(2 + 2 * 2.125));  // a call over 4 tokens, and two levels
  auto shared = costs();
  shared.batch(4);
  CHECK(shared.plain() == Approx(2.0 / 4));           // a call over the last token of each
  CHECK(shared(0, 0) == Approx(shared.plain()));      // while nothing else is known, the others draft nothing
  CHECK(shared(0, 1) == Approx((2.0 + 2.5) / 4));     // and an equal share of a draft call
  CHECK(shared(3, 0) == Approx(2.0 / 4 + 3 * 0.25));  // a call over 7 tokens, not over 4
  CHECK(shared(6, 0) == Approx(2.0 / 4 + 4 * 0.25 + 2 * 0.5));  // the tokens after the eighth cost more
}

TEST_CASE("a text pays in full for what it feeds beyond the usual number of tokens") {
  auto shared = costs();
  shared.batch(4);
  shared.observe(drafted(1, 2));  // so each of the four feeds 2, all together 8
  const double share = 3.0 / 4;
  CHECK(shared(1, 0) == Approx(share));
  CHECK(shared(2, 0) == Approx(share + 0.5));
  CHECK(shared(0, 0) == Approx(share - 0.25));
  CHECK(shared.plain() == Approx(2.0 / 4));  // all without a draft
}

TEST_CASE("a step that takes in a prompt does not tell how many tokens are usual") {
  auto shared = costs();
  shared.batch(4);
  shared.observe(drafted(1, 2));
  const double before = shared(1, 1);
  shared.observe(drafted(0, 500));
  shared.observe(drafted(1, 501));
  CHECK(shared(1, 1) == before);
  for (int n = 0; n < 2000; ++n) shared.observe(drafted(3, 4));  // longer drafts do, by and by
  CHECK(shared(3, 0) == Approx((1 + 0.25 * 16 + 0.25 * 8) / 4));
}

TEST_CASE("functions of costs are copied, and a curve behind std::cref is read as it is filled") {
  CostCurve curve;
  curve.add(1, 1);
  const BatchCosts copied{curve, curve};
  const BatchCosts referring{std::cref(curve), std::cref(curve)};
  for (int n = 0; n < 100; ++n) curve.add(1, 1.5);
  CHECK(copied.plain() == 1);
  CHECK(referring.plain() > 1.4);
}

TEST_CASE("a number of texts that no batch has is refused, and the number before it stays") {
  auto shared = costs();
  shared.batch(4);
  CHECK(message_of([&] { shared.batch(0); }) == "specdec: batch = 0 is outside 1..1073741824");
  CHECK(message_of([&] { shared.batch(1073741825); }) ==
        "specdec: batch = 1073741825 is outside 1..1073741824");
  CHECK(shared.plain() == Approx(2.0 / 4));
}

TEST_CASE("where all texts draft alike, each bears an equal share of calls over all their tokens") {
  auto shared = costs();
  shared.batch(4);
  CHECK(shared.of_all(1, 0) == Approx(shared.plain()));
  CHECK(shared.of_all(3, 2) == Approx((1 + 0.25 * 12 + 0.25 * 4 + 2 * 2.5) / 4));
  CHECK(shared.of_all(1.7, 0) == Approx((1 + 0.25 * 7) / 4));  // 6.8 tokens are rounded
}

namespace {

double roofline(Index tokens) { return std::max(1.0, static_cast<double>(tokens) / 64); }
double draft_step(Index texts) { return 0.05 * roofline(texts); }

// A length for all texts of a batch.
auto length_for(Index texts, auto target_cost, auto draft_cost, const CostOptimalOptions& options = {}) {
  CostOptimalLength length(BatchCosts(target_cost, draft_cost), options);
  length.batch(texts);
  return length;
}

// The mean number of tokens of a text, if each token survives with probability `accepts`.
double exact_tokens(Index gamma, double accepts) {
  double tokens = 1;
  for (Index i = 1; i <= gamma; ++i) tokens += std::pow(accepts, static_cast<double>(i));
  return tokens;
}

double step_cost(Index texts, Index gamma) {
  return roofline(texts * (gamma + 1)) + static_cast<double>(gamma) * draft_step(texts);
}

double exact_goodput(Index texts, Index gamma, double accepts) {
  return static_cast<double>(texts) * exact_tokens(gamma, accepts) / step_cost(texts, gamma);
}

Index exact_best(Index texts, Index most, double accepts) {
  Index best = 0;
  for (Index gamma = 1; gamma <= most; ++gamma)
    if (exact_goodput(texts, gamma, accepts) > exact_goodput(texts, best, accepts)) best = gamma;
  return best;
}

// Enters a step of which so many tokens survive, or the given probabilities.
void observe(auto& length, Index drafted, const std::vector<double>& survival, Index accepted = 0) {
  length.observe({.asked = drafted,
                  .drafted = drafted,
                  .accepted = accepted,
                  .fed = drafted + 1,
                  .survival = std::span(survival).first(static_cast<std::size_t>(drafted))});
}

// Runs steps of a batch. Returns the mean goodput of the chosen lengths.
double run(auto& length, Index texts, double accepts, int steps, std::mt19937_64& rng) {
  length.batch(texts);
  double tokens = 0, cost = 0;
  for (int n = 0; n < steps; ++n) {
    const Index gamma = length.next(16);
    for (Index b = 0; b < texts; ++b) {
      std::vector<double> survival(static_cast<std::size_t>(gamma), 0.0);
      Index accepted = 0;
      while (accepted < gamma && uniform01(rng) < accepts) ++accepted;
      std::fill_n(survival.begin(), accepted, 1.0);
      observe(length, gamma, survival, accepted);
    }
    tokens += static_cast<double>(texts) * exact_tokens(gamma, accepts);
    cost += step_cost(texts, gamma);
  }
  return tokens / cost;
}

}  // namespace

TEST_CASE("one length for all texts has the greatest goodput, for every batch size") {
  std::mt19937_64 rng{1};
  for (const double accepts : {0.5, 0.8})
    for (const Index texts : {1, 4, 16, 64, 256}) {
      auto length = length_for(texts, roofline, draft_step);
      run(length, texts, accepts, 400, rng);
      const double got = run(length, texts, accepts, 400, rng);
      const double best = exact_goodput(texts, exact_best(texts, 16, accepts), accepts);
      INFO("accepts " << accepts << ", texts " << texts << ", gamma " << length.best() << ", exact "
                      << exact_best(texts, 16, accepts));
      CHECK(got >= 0.96 * best);
    }
  CHECK(exact_best(1, 16, 0.8) > exact_best(16, 16, 0.8));
  CHECK(exact_best(256, 16, 0.5) == 0);
}

TEST_CASE("when a batch grows, drafts get shorter at once; when it shrinks, they get longer again") {
  std::mt19937_64 rng{2};
  auto length = length_for(1, roofline, draft_step);
  run(length, 1, 0.8, 500, rng);
  const Index alone = length.best();
  length.batch(16);
  const Index sixteen = length.best();
  length.batch(512);
  CHECK(alone > sixteen);
  CHECK(sixteen > 0);
  CHECK(length.next(16) == 0);
  length.batch(1);
  CHECK(length.best() == alone);
}

TEST_CASE("a drafter that a batch has given up is probed again, at the allowed cost") {
  std::mt19937_64 rng{3};
  auto length = length_for(64, roofline, [](Index) { return 0.1; });
  run(length, 64, 0.05, 100, rng);
  int drafts = 0;
  double lost = 0, spent = 0;
  for (int n = 0; n < 20000; ++n) {
    const Index gamma = length.next(8);
    const double cost = roofline(64 * (gamma + 1)) + 0.1 * static_cast<double>(gamma);
    drafts += gamma > 0;
    lost += cost - roofline(64);
    spent += cost;
    const std::vector<double> survival(static_cast<std::size_t>(gamma), 0.05);
    for (int text = 0; text < 64; ++text) observe(length, gamma, survival);
  }
  CHECK(drafts > 100);
  CHECK(lost < 0.015 * spent);
  run(length, 8, 0.9, 300, rng);  // the drafter is good now, and the batch small
  CHECK(length.best() > 0);
}

TEST_CASE("the cost of a batch's call counts the tokens that the drafter really proposes") {
  auto length = length_for(
      10, [](Index tokens) { return static_cast<double>(tokens); }, [](Index) { return 0.5; });
  const std::vector<double> survival{0.5};
  for (int n = 0; n < 2000; ++n) {
    const Index asked = length.next(2), drafted = asked > 0 ? n % 2 : 0;
    length.observe({.asked = asked,
                    .drafted = drafted,
                    .fed = drafted + 1,
                    .survival = std::span(survival).first(static_cast<std::size_t>(drafted))});
  }
  // Half the drafts have one token, which survives in half the cases. No draft has two. 10 and 15 tokens a call.
  CHECK(1 / length.time_per_token(0) == Approx(10 / 10.0));
  CHECK(1 / length.time_per_token(1) == Approx(10 * 1.25 / (15 + 0.5)).epsilon(0.05));
  CHECK(1 / length.time_per_token(2) == Approx(10 * 1.25 / (15 + 1.0)).epsilon(0.05));
}

TEST_CASE("a drafter that proposes nothing is not asked for ever") {
  auto length = length_for(
      1, [](Index) { return 1.0; }, [](Index) { return 0.2; });
  for (int n = 0; n < 40; ++n) length.observe({.asked = length.next(16), .drafted = 0, .fed = 1});
  CHECK(length.best() == 0);
}

TEST_CASE("a window counts steps of the batch, for every batch size") {
  const auto after = [](Index texts, Index before) {  // good drafts, then two bad ones
    auto length = length_for(
        before, [](Index) { return 1.0; }, [](Index) { return 1e-9; }, {.window = 10});
    length.batch(texts);
    const std::vector<double> good{1.0}, bad{0.0};
    for (int drafts = 0; drafts < 32;) {
      const Index asked = length.next(1);
      const bool is_good = drafts < 30;
      drafts += asked > 0;
      for (Index b = 0; b < texts; ++b) observe(length, asked, is_good ? good : bad, is_good ? asked : 0);
    }
    length.batch(texts + 1);  // another number, so that it chooses now
    length.batch(texts);
    return 1 / (length.time_per_token(1) * static_cast<double>(texts)) - 1;
  };
  CHECK(after(64, 64) == Approx(after(1, 1)).epsilon(0.1));
  CHECK(after(64, 64) < 0.9);
  CHECK(after(64, 1) == after(64, 64));  // the number may change
  CHECK(after(1, 64) == after(1, 1));
}

TEST_CASE("a measured cost curve can give the costs, in the loop too") {
  CostCurve target, draft;
  for (const Index tokens : {1, 64, 256, 1024}) target.add(tokens, roofline(tokens));
  draft.add(1, 0.05);
  auto length = length_for(1, target, draft);
  SplitMix64 seed{5};
  auto model = testing::TableModel<>::random(4, 1, seed), small = model;
  SpecDec decoder{model, ModelDrafter{small}, BlockVerifier{}, length};
  std::mt19937_64 rng{1};
  const std::vector<Token> prompt{0};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 400, .gamma = 8}, rng);
  CHECK(r.stats.accepted == r.stats.drafted);
  CHECK(r.stats.drafted_by_position.size() == 8);  // all tokens survive, so drafts are as long as allowed
}

TEST_CASE("however long drafts may be, only twice the longest so far is considered") {
  auto length = length_for(
      1, [](Index) { return 1.0; }, [](Index) { return 0.001; });
  const std::vector<double> all(4096, 1.0);
  Index longest = 8;
  for (int n = 0; n < 60; ++n) {
    const Index gamma = length.next(30'000'000);
    REQUIRE(gamma <= 2 * longest);
    longest = std::max(longest, gamma);
    if (gamma > 1000) break;
    observe(length, gamma, all, gamma);
  }
  CHECK(longest > 100);  // every drafted token survives
}

TEST_CASE("the largest batch has a length, and wrong costs are told before a step") {
  CHECK(length_for(1073741824, roofline, draft_step).next(unlimited) == 2);
  auto free = length_for(
      2, [](Index) { return 1.0; }, [](Index) { return 0.0; });
  CHECK(message_of([&] { free.next(4); }) == "specdec: draft_cost(2) = 0 is no finite number above 0");
}

}  // namespace test_draft_batch_costs

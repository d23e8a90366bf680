// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <specdec/more/audits/audited_drafter.hpp>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/lengths/batch_costs.hpp>
#include <specdec/more/lengths/by_probability.hpp>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/more/lengths/early_stopping_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/one_of_drafters.hpp"
#include "support/one_text.hpp"

namespace test_draft_early_stopping_length {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;
using support::OneOfDrafters;
using support::OneText;

namespace {

// A text as a draft length sees it. A drafted token is easy or hard, with another confidence for each kind; an easy token is
// often followed by an easy one.
struct Text {
  double easy_survives = 0.95, hard_survives = 0.3;
  double stays = 0.8;  // the probability that the next token is of the same kind
  double confidence_of(bool easy) const { return easy ? 0.9 : 0.35; }
  double survives(bool easy) const { return easy ? easy_survives : hard_survives; }
};

struct Costs {
  double draft = 0.1, token = 0.1;  // of a drafted token, and of one more token of a target call
  double read = 0;                  // of a token that was written while the drafter was not asked
  double call = 1;                  // of a target call over one token
  double of(Index tokens) const { return call + static_cast<double>(tokens) * (draft + token); }
};

// A draft length that a simulation may ask. The simulations are compiled once.
struct Policy {
  virtual ~Policy() = default;
  virtual Index next(Index most) = 0;
  virtual bool goes_on(std::span<const double> readings) const = 0;
  virtual void observe(const StepRecord& step) = 0;
  virtual void batch(Index) {}
};

template <class Costs>
struct Early : Policy {
  EarlyStoppingLength<Costs> length;

  explicit Early(EarlyStoppingLength<Costs> begins) : length(std::move(begins)) {}
  Index next(Index most) override { return length.next(most); }
  bool goes_on(std::span<const double> readings) const override {
    return length.more({.readings = readings}).level;
  }
  void observe(const StepRecord& step) override { length.observe(step); }
  void batch(Index texts) override {
    if constexpr (requires { length.batch(texts); }) length.batch(texts);
  }
};

// Goes on after an easy token, up to a length, and after a hard one, up to another.
struct Rule : Policy {
  Index most, easy, hard;

  Rule(Index all, Index when_easy, Index when_hard) : most(all), easy(when_easy), hard(when_hard) {}
  Index next(Index limit) override { return std::min(most, limit); }
  bool goes_on(std::span<const double> confidences) const override {
    return std::ssize(confidences) < (confidences.back() > 0.5 ? easy : hard);
  }
  void observe(const StepRecord&) override {}
};

// Drafts always have this length.
struct Fixed : Rule {
  explicit Fixed(Index length) : Rule(length, length, length) {}
};

// Runs a policy, with times that vary by a tenth and sometimes stall. The result leaves this noise out.
class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : rng_(seed) {}

  bool shows_rows = true;
  bool within = true;  // whether the policy never asked for more than it may

  // Tokens per time.
  double run(Policy& policy, const Text& text, const Costs& costs, Index most, int steps) {
    double tokens = 0, time = 0;
    lengths = 0;
    for (int k = 0; k < steps; ++k) {
      const Index asked = policy.next(most);
      within = within && asked >= 0 && asked <= most;
      draft(policy, text, asked);
      const Index drafted = std::ssize(survival_);
      const auto accepted = std::count(survival_.begin(), survival_.end(), 1.0);
      const double read = asked > 0 ? costs.read * std::exchange(unread_, 0) : (++unread_, 0);
      policy.observe({.asked = asked,
                      .drafted = drafted,
                      .accepted = accepted,
                      .fed = drafted + 1,
                      .survival = survival_,
                      .readings = readings_,
                      .draft_time = measured(costs.draft * static_cast<double>(drafted) + read),
                      .target_time = measured(costs.call + costs.token * static_cast<double>(drafted))});
      tokens += static_cast<double>(accepted) + 1;
      time += costs.of(drafted) + read;
      lengths += static_cast<double>(drafted) / steps;
    }
    return tokens / time;
  }

  double lengths = 0;  // the mean length of the last run

 private:
  void draft(const Policy& policy, const Text& text, Index asked) {
    survival_.clear();
    readings_.clear();
    bool easy = uniform() < 0.5, survives = true;
    for (Index i = 0; i < asked; ++i) {
      survives = survives && uniform() < text.survives(easy);
      survival_.push_back(survives ? 1 : 0);
      if (shows_rows) readings_.push_back(text.confidence_of(easy));
      if (shows_rows && !policy.goes_on(readings_)) return;
      if (uniform() >= text.stays) easy = !easy;
    }
  }
  std::chrono::nanoseconds measured(double time) {
    const double stall = uniform() < 0.01 ? 20 : 1;
    return std::chrono::nanoseconds(std::llround(1e6 * time * stall * (0.95 + 0.1 * uniform())));
  }
  double uniform() { return uniform01(rng_); }

  std::mt19937_64 rng_;
  std::vector<double> survival_, readings_;
  double unread_ = 0;  // tokens that the drafter must read before its next draft
};

// Tokens per time of the best rule.
double best_rule(const Text& text, const Costs& costs) {
  double best = 0;
  for (const Index easy : {2, 3, 4, 6, 8, 12})
    for (const Index hard : {1, 2}) {
      Rule rule{unlimited, easy, hard};
      best = std::max(best, Simulation(9).run(rule, text, costs, 16, 6000));
    }
  return best;
}

double best_fixed(const Text& text, const Costs& costs) {
  double best = 0;
  for (const Index length : {0, 1, 2, 3, 4, 6, 8, 12}) {
    Fixed fixed{length};
    best = std::max(best, Simulation(9).run(fixed, text, costs, 16, 6000));
  }
  return best;
}

}  // namespace

TEST_CASE("drafts go on where the draft model is confident, and beat every fixed length") {
  for (const Costs& costs : {Costs{0.1, 0.1}, Costs{0.05, 0.01}, Costs{0.02, 0.2}}) {
    Early policy{EarlyStoppingLength{}};
    Simulation simulation(1);
    simulation.run(policy, {}, costs, 16, 500);  // begins to learn
    const double got = simulation.run(policy, {}, costs, 16, 5000);
    const double by_rule = best_rule({}, costs), fixed = best_fixed({}, costs);
    INFO(costs.draft << ' ' << costs.token << ": " << got << ' ' << by_rule << ' ' << fixed);
    CHECK(policy.length.drafts());
    CHECK(simulation.within);
    CHECK(got > 0.97 * by_rule);
    CHECK(got > 1.05 * fixed);
  }
}

TEST_CASE("where rows tell nothing, drafts are about as good as the best fixed length") {
  const Text dull{.easy_survives = 0.7, .hard_survives = 0.7};
  for (const Costs& costs : {Costs{0.1, 0.1}, Costs{0.05, 0.01}, Costs{0.02, 0.2}}) {
    Early policy{EarlyStoppingLength{}};
    Simulation simulation(1);
    simulation.run(policy, dull, costs, 16, 500);
    CHECK(simulation.run(policy, dull, costs, 16, 5000) > 0.96 * best_fixed(dull, costs));
  }
}

TEST_CASE("a drafter that does not pay is off, and on again when it pays") {
  Early policy{EarlyStoppingLength{}};
  Simulation simulation(1);
  const Text bad{.easy_survives = 0.1, .hard_survives = 0.05};
  const Costs dear{0.5, 0.3};
  simulation.run(policy, bad, dear, 16, 500);
  CHECK_FALSE(policy.length.drafts());
  CHECK(simulation.run(policy, bad, dear, 16, 5000) > 0.97);
  CHECK(simulation.lengths < 0.05);
  simulation.run(policy, {}, {0.05, 0.01}, 16, 3000);
  CHECK(policy.length.drafts());
  CHECK(simulation.run(policy, {}, {0.05, 0.01}, 16, 5000) > 0.97 * best_rule({}, {0.05, 0.01}));
}

TEST_CASE(
    "off, drafts that may end early cost at most 5 %, however long the drafter takes to read what it has not "
    "seen") {
  const Text bad{.easy_survives = 0.1, .hard_survives = 0.05};
  for (const double read : {0.001, 0.005, 0.02, 0.05, 0.2, 0.5, 2.0})
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      Early policy{EarlyStoppingLength{}};
      const double rate = Simulation(seed).run(policy, bad, {0.5, 0.3, read}, 16, 4000);
      INFO("a token read costs " << read << ": " << rate);
      CHECK_FALSE(policy.length.drafts());
      CHECK(1 / rate < 1.05);
    }
}

TEST_CASE("drafts that may end early are on again when they pay, later where reading is dear") {
  const Text bad{.easy_survives = 0.1, .hard_survives = 0.05};
  for (const auto& [read, most] : {std::pair{0.005, 300}, std::pair{0.01, 12000}, std::pair{0.02, 40000}})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      Early policy{EarlyStoppingLength{}};
      Simulation simulation(seed);
      simulation.run(policy, bad, {0.1, 0.1, read}, 16, 6000);
      CHECK_FALSE(policy.length.drafts());
      int steps = 0;
      while (!policy.length.drafts() && steps++ < most) simulation.run(policy, {}, {0.1, 0.1, read}, 16, 1);
      INFO("a token read costs " << read << ", seed " << seed << ": " << steps);
      CHECK(steps <= most);
    }
}

TEST_CASE("a target that gets slower is no reason to read without a probe, for drafts that may end early") {
  const Text bad{.easy_survives = 0.1, .hard_survives = 0.05};
  Early policy{EarlyStoppingLength{}};
  Simulation simulation(1);
  simulation.run(policy, bad, {0.5, 0.3, 0.2}, 16, 1000);
  CHECK_FALSE(policy.length.drafts());
  CHECK(simulation.run(policy, bad, {0.5, 0.3, 0.2, 3}, 16, 1000) == Approx(1 / 3.0));
}

TEST_CASE("drafts that begin to fail get short, and long again") {
  Early policy{EarlyStoppingLength{}};
  Simulation simulation(1);
  const Costs costs{0.02, 0.02};
  simulation.run(policy, {}, costs, 16, 2000);
  const double before = simulation.lengths;
  const Text wrong{.easy_survives = 0.3, .hard_survives = 0.3};  // as confident as before
  simulation.run(policy, wrong, costs, 16, 1000);
  simulation.run(policy, wrong, costs, 16, 1000);
  CHECK(simulation.lengths < before / 2);
  simulation.run(policy, {}, costs, 16, 2000);
  simulation.run(policy, {}, costs, 16, 2000);
  CHECK(simulation.lengths > 0.9 * before);
}

TEST_CASE("drafts of a drafter that shows no rows have one length, near the best") {
  for (const Costs& costs : {Costs{0.1, 0.1}, Costs{0.02, 0.2}}) {
    Early policy{EarlyStoppingLength{}};
    Simulation simulation(1);
    simulation.shows_rows = false;
    simulation.run(policy, {}, costs, 16, 500);
    CHECK(simulation.run(policy, {}, costs, 16, 5000) > 0.93 * best_fixed({}, costs));
  }
}

TEST_CASE("the first steps draft 2, 0 and 4 tokens, two steps each") {
  EarlyStoppingLength policy;
  std::vector<Index> asked;
  for (int k = 0; k < 6; ++k) {
    asked.push_back(policy.next(16));
    const std::vector<double> survival(static_cast<std::size_t>(asked.back()), 1.0);
    const std::vector<double> readings(survival.size(), 0.9);
    for (std::size_t n = 1; n <= readings.size(); ++n)
      CHECK(policy.more({.readings = std::span(readings).first(n)}).level == (n < readings.size()));
    policy.observe({.asked = asked.back(),
                    .drafted = asked.back(),
                    .accepted = asked.back(),
                    .fed = asked.back() + 1,
                    .survival = survival,
                    .readings = readings,
                    .draft_time = std::chrono::milliseconds(asked.back()),
                    .target_time = std::chrono::milliseconds(10)});
  }
  CHECK(asked == std::vector<Index>{2, 2, 0, 0, 4, 4});
  CHECK(policy.next(16) == 16);
  const std::vector<double> one{0.9};
  CHECK(policy.more({.readings = one}).level);
  CHECK(policy.next(1) == 1);
  CHECK_FALSE(policy.more({.readings = one}).level);
  CHECK(policy.next(0) == 0);
}

namespace {

// Costs that are known and not measured: of a step, of each drafted token up to the fourth, and of each beyond.
struct KnownCosts {
  struct Prices {
    double step = 1, token = 0, late_token = 0;
  };
  const Prices* prices;

  void reserve(const DraftLimits&) const {}
  void batch(Index) const {}
  void observe(const StepRecord&) const {}
  static bool allow(const specdec::detail::Trials& trials, double loss) { return trials.affords(loss); }
  double plain() const { return prices->step; }
  double operator()(Index nodes, Index) const {
    const auto late = static_cast<double>(std::max<Index>(nodes - 4, 0));
    return prices->step + prices->token * static_cast<double>(nodes) + prices->late_token * late;
  }
};
using Known = EarlyStoppingLength<KnownCosts>;

// A text takes a step with a drafter of whose tokens each survives with this probability. Returns the length of the draft.
Index take(Known& length, Index asked, double survives) {
  const std::vector<double> readings(static_cast<std::size_t>(asked), 0.9);
  Index drafted = std::min<Index>(asked, 1);
  while (drafted < asked &&
         length.more({.readings = std::span(readings).first(static_cast<std::size_t>(drafted))}).level)
    ++drafted;
  std::vector<double> survival;
  for (double reached = survives; std::ssize(survival) < drafted; reached *= survives)
    survival.push_back(reached);
  length.observe({.asked = asked,
                  .drafted = drafted,
                  .accepted = survives == 1 ? drafted : 0,
                  .fed = drafted + 1,
                  .survival = survival,
                  .readings = std::span(readings).first(survival.size())});
  return drafted;
}
Index step(Known& length, double survives, Index most) { return take(length, length.next(most), survives); }

}  // namespace

TEST_CASE("drafts that cost nothing and never fail get as long as they may be, by doubling") {
  const KnownCosts::Prices free{};
  Known length{KnownCosts{&free}};
  Index longest = 0;
  for (int k = 0; k < 20; ++k) {
    const Index drafted = step(length, 1, 1024);
    CHECK(drafted <= std::max<Index>(64, 2 * longest));
    longest = std::max(longest, drafted);
  }
  CHECK(longest == 1024);
}

TEST_CASE("the first steps go on, though the budget cuts their drafts") {
  const KnownCosts::Prices dear{1, 0.2};
  Known length{KnownCosts{&dear}};
  std::vector<Index> asked;
  for (int k = 0; k < 6; ++k) {
    asked.push_back(length.next(16));
    take(length, std::min<Index>(asked.back(), 1), 0);
  }
  CHECK(asked == std::vector<Index>{2, 2, 0, 0, 4, 4});
}

TEST_CASE("what was learnt of drafts that ceased to pay does not outweigh a few drafts that succeed") {
  KnownCosts::Prices prices{1, 0.02};
  Known length{KnownCosts{&prices}, {.probing = 0.2}};
  for (int k = 0; k < 1000; ++k) step(length, 0.3, 16);
  CHECK(length.drafts());
  prices.token = 0.5;
  for (int k = 0; k < 200; ++k) step(length, 0.3, 16);
  CHECK_FALSE(length.drafts());
  Index late = 0;
  for (int k = 0; k < 200; ++k) {
    const Index drafted = step(length, 1, 16);
    if (k >= 100) late += drafted;
  }
  CHECK(late > 4 * 100);
}

TEST_CASE("a length that was found to be dear is tried again some day") {
  KnownCosts::Prices stalled{1, 0.1, 1e9};
  Known length{KnownCosts{&stalled}};
  int steps = 0;
  while (steps < 3000 && step(length, 1, 16) <= 4) ++steps;
  CHECK(steps > 200);  // a probe may lose three steps, and that is a hundredth of the time
  CHECK(steps < 1000);
}

TEST_CASE("while drafts pay, some probes draft nothing: what that costs must not be forgotten") {
  const KnownCosts::Prices cheap{1, 0.02};
  Known length{KnownCosts{&cheap}};
  for (int k = 0; k < 6; ++k) step(length, 0.7, 16);
  int without = 0;
  for (int k = 0; k < 4000; ++k) without += step(length, 0.7, 16) == 0;
  CHECK(length.drafts());
  CHECK(without > 3);
  CHECK(without < 80);  // each loses more than half a step
}

TEST_CASE("all texts of a batch take part in both steps of a probe") {
  const KnownCosts::Prices dear{1, 0.2};
  Known length{KnownCosts{&dear}, {.probing = 0.2}};
  constexpr Index texts = 6;
  length.batch(texts);
  int probes = 0;
  bool rests = false;
  for (int k = 0, steps = 0; k < 600; ++k) {
    const Index asked = length.next(16);
    for (Index text = 0; text < texts; ++text) take(length, asked, 0);
    rests = rests || (k > 60 && asked == 0);
    if (!rests) continue;  // it finds out that drafts do not pay
    if (asked > 0) {
      ++steps;
    } else if (steps > 0) {
      CHECK(std::exchange(steps, 0) == 2);
      ++probes;
    }
  }
  CHECK_FALSE(length.drafts());
  CHECK(probes > 3);
}

TEST_CASE("survival is learnt in five ranges of confidence") {
  specdec::detail::SurvivalByConfidence survival;
  for (int k = 0; k < 1000; ++k) {
    survival.add(0.2, 1, 0.1);
    survival.add(0.4, 1, 0.3);
    survival.add(0.6, 1, 0.5);
    survival.add(0.8, 1, 0.7);
    survival.add(0.95, 1, 0.9);
  }
  const auto near_to = [](double p) { return Approx(p).margin(0.01); };
  for (const double confidence : {0.0, 0.26}) CHECK(survival(confidence) == near_to(0.1));
  for (const double confidence : {0.28, 0.49}) CHECK(survival(confidence) == near_to(0.3));
  for (const double confidence : {0.5, 0.72}) CHECK(survival(confidence) == near_to(0.5));
  for (const double confidence : {0.74, 0.87}) CHECK(survival(confidence) == near_to(0.7));
  for (const double confidence : {0.89, 1.0}) CHECK(survival(confidence) == near_to(0.9));
  CHECK(survival.mean() == near_to(0.5));
}

TEST_CASE("a bad option, number or record is an error, and nothing is learnt from it") {
  using Length = EarlyStoppingLength<>;
  CHECK(message_of([] { Length({.window = 0.5}); }) == "specdec: window = 0.5 is below 1");
  CHECK(message_of([] { Length({.probing = 1}); }) == "specdec: probing = 1 is outside (0, 1)");
  Length length;
  CHECK(message_of([&] { length.next(-1); }) == "specdec: most = -1 is negative");
  length.observe({.fed = 1});  // next() was not asked
  length.next(4);
  CHECK(message_of([&] { length.observe({.asked = 1, .drafted = 1, .fed = 2}); }) ==
        "specdec: step.survival has 0 numbers for 1 drafted tokens");
  const std::vector<Index> offered{1};
  const std::vector<double> two{0.5, 0.4};
  CHECK(message_of([&] {
          length.observe({.asked = 1, .drafted = 1, .fed = 2, .tree = {1, {}, offered, two}});
        }) == "specdec: step.tree has 2 probabilities for 1 children");
  CHECK(length.next(unlimited) == 2);
}

TEST_CASE("the first trees have 2 and 4 tokens, and none is larger than it may be") {
  EarlyStoppingLength length;
  const std::vector<double> values{0.9, 0.8, 0.7, 0.6}, leaves{0.8, 0.7};
  const auto found = [&](Index count, Index levels) {
    return GrowingDraft{.values = std::span(values).first(static_cast<std::size_t>(count)),
                        .leaves = leaves,
                        .levels = levels};
  };
  for (const Index asked : {2, 2, 0, 0, 4, 4}) {
    CHECK(length.next(16) == asked);
    for (Index levels = 1; levels < 6; ++levels)
      CHECK(length.more(found(2, levels)).level == (levels < asked));
    CHECK(length.more(found(asked, 1)).tokens == asked);
    const std::vector<Index> ranks(static_cast<std::size_t>(std::min<Index>(asked, 1))),
        offered(ranks.size() + 1, std::max<Index>(asked - 1, 0));
    const std::vector<double> probabilities(
        ranks.empty() ? 0 : offered.size() * static_cast<std::size_t>(asked - 1), 0.5);
    length.observe({.asked = asked,
                    .drafted = asked,
                    .accepted = std::ssize(ranks),
                    .fed = asked + 1,
                    .draft_time = std::chrono::milliseconds(asked),
                    .target_time = std::chrono::milliseconds(10),
                    .tree = {asked, ranks, offered, probabilities}});
  }
  // One of two eldest children was accepted, and no other child.
  CHECK(length.acceptance({0.5, 0}) == Approx(0.5));
  CHECK(length.acceptance({0.5, 1}) < 0.4);
  CHECK(length.next(16) == 16);
  CHECK(length.more(found(4, 1)).level);
  CHECK(length.more(found(4, 1)).tokens == 4);
  CHECK(length.more(found(0, 1)).tokens == 0);
  CHECK_FALSE(length.more({.values = values, .levels = 1}).level);  // no token can get children
}

namespace {

// Many texts of which each step is one; half of them are easy, half hard.
struct Served {
  double tokens = 0, cost = 0;
  double easy = 0, hard = 0;  // mean lengths
};

using CostOf = std::function<double(Index)>;

// `batch` texts share each call. A call over n tokens costs target(n); a draft call for b texts costs draft(b).
Served serve(Policy& policy, Index batch, const CostOf& target, const CostOf& draft, int steps) {
  std::mt19937_64 rng{3};
  const Text text{.stays = 1};
  Served served;
  for (int k = 0; k < steps; ++k) {
    policy.batch(batch);
    const Index asked = policy.next(16);
    Index fed = 0, levels = 0;
    struct Step {
      std::vector<double> survival, readings;
    };
    std::vector<Step> all(static_cast<std::size_t>(batch));
    std::vector<Index> drafting(17, 0);
    for (std::size_t b = 0; b < all.size(); ++b) {
      const bool easy = b % 2 == 0;
      auto& [survival, readings] = all[b];
      for (bool survives = true; std::ssize(survival) < asked;) {
        survives = survives && uniform01(rng) < text.survives(easy);
        ++drafting[survival.size()];
        survival.push_back(survives ? 1 : 0);
        readings.push_back(text.confidence_of(easy));
        if (!policy.goes_on(readings)) break;
      }
      fed += std::ssize(survival) + 1;
      levels = std::max<Index>(levels, std::ssize(survival));
      (easy ? served.easy : served.hard) +=
          static_cast<double>(survival.size()) / (0.5 * static_cast<double>(batch) * steps);
    }
    for (const auto& [survival, readings] : all) {
      const Index drafted = std::ssize(survival);
      const auto accepted = std::count(survival.begin(), survival.end(), 1.0);
      policy.observe({.asked = asked,
                      .drafted = drafted,
                      .accepted = accepted,
                      .fed = drafted + 1,
                      .survival = survival,
                      .readings = readings});
      served.tokens += static_cast<double>(accepted) + 1;
    }
    served.cost += target(fed);
    for (Index i = 0; i < levels; ++i) served.cost += draft(drafting[static_cast<std::size_t>(i)]);
  }
  return served;
}

}  // namespace

TEST_CASE("in a batch the tokens of a call go to the texts that gain most") {
  const CostOf draft = [](Index texts) { return 0.02 + 0.001 * static_cast<double>(texts); };
  const CostOf target = [](Index tokens) {
    return 1 + 0.02 * static_cast<double>(std::max<Index>(tokens - 16, 0));
  };
  for (const Index texts : {2, 16, 64}) {
    if (support::sanitized && texts > 16) break;
    Early policy{EarlyStoppingLength{BatchCosts{target, draft}}};
    serve(policy, texts, target, draft, 100);
    const Served got = serve(policy, texts, target, draft, 1000);
    double best = 0;
    for (const Index length : {0, 1, 2, 3, 4, 6, 8, 12}) {
      Fixed fixed{length};
      const Served other = serve(fixed, texts, target, draft, 300);
      best = std::max(best, other.tokens / other.cost);
    }
    INFO(texts << " texts: " << got.easy << ' ' << got.hard << ' ' << got.tokens / got.cost / best);
    CHECK(got.easy > 2 * got.hard);
    CHECK(got.tokens / got.cost > 1.03 * best);
  }
}

TEST_CASE("costs of a batch that are no costs are refused before the step") {
  const auto complaint = [](double target_cost, double draft_cost) {
    EarlyStoppingLength length{
        BatchCosts{[=](Index n) { return n > 2 ? target_cost : 1.0; }, [=](Index) { return draft_cost; }}};
    length.batch(2);
    return message_of([&] { length.next(4); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  CHECK(complaint(2, 0.5).empty());
  CHECK(complaint(nan, 0.5).ends_with(") = nan is no finite number above 0"));
  for (const double cost : {nan, inf, -inf, -1.0, 0.0}) {
    CHECK(complaint(cost, 0.5).starts_with("specdec: target_cost("));
    CHECK(complaint(2, cost).starts_with("specdec: draft_cost(2) = "));
  }
  EarlyStoppingLength unknown{BatchCosts{CostCurve{}, CostCurve{}}};  // in which nothing is known
  CHECK(message_of([&] { unknown.next(4); }) == "specdec: target_cost(1) = 0 is no finite number above 0");
}

namespace {

// Reads the largest probability of each row, and stops after one below 0.6. Of trees it takes the draft model at its word,
// and cuts each to five tokens. Keeps all records.
struct Watching {
  struct Step {
    Index drafted = 0;
    std::vector<double> readings;
    std::vector<Index> ranks, offered;
    std::vector<double> probabilities;
    bool drawn = false;
    bool operator==(const Step&) const = default;
    bool operator<(const Step& other) const {
      return std::tie(drafted, readings, ranks, offered, probabilities) <
             std::tie(other.drafted, other.readings, other.ranks, other.offered, other.probabilities);
    }
  };
  std::vector<Step>* steps;

  static constexpr bool counts_nodes = true;
  Index next(Index most) const { return most; }
  double reading(const auto& row, Index) const { return row.probability(row.argmax()); }
  double acceptance(const CandidateToken& candidate) const { return candidate.reading; }
  More more(const GrowingDraft& draft) const {
    if (!draft.readings.empty()) return {.level = draft.readings.back() >= 0.6};
    return {.level = !draft.leaves.empty() && draft.leaves.front() > 0.3, .tokens = 5};
  }
  void observe(const StepRecord& step) const {
    const auto& [depth, ranks, offered, probabilities, drawn] = step.tree;
    steps->push_back({step.drafted,
                      {step.readings.begin(), step.readings.end()},
                      {ranks.begin(), ranks.end()},
                      {offered.begin(), offered.end()},
                      {probabilities.begin(), probabilities.end()},
                      drawn});
  }
};

TableModel<> random_table(std::uint64_t seed) {
  SplitMix64 generator{seed};
  return TableModel<>::random(3, 2, generator);
}
const std::vector<Token> prompt{0, 1, 2};
constexpr ConfidentTree small_tree{.width = 3, .depth = 4, .nodes = 12};

template <class Strategy>
using With = ModelDrafter<TableModel<>, Strategy>;
using LineOrTree = OneOfDrafters<With<Line>, With<ConfidentTree>, With<Tree<WithoutReplacement>>>;
using ByModel = OneOfDrafters<With<Line>, With<Spares>, With<ConfidentTree>, With<Tree<WithoutReplacement>>>;
using AnyDrafter =
    OneOfDrafters<ByModel, OneText<FallbackDrafter<NoDrafter, ByModel>>, OneText<AuditedDrafter<ByModel>>,
                  CascadeDrafter<TableModel<>, PromptLookupDrafter>>;

ByModel by_model(TableModel<> table, const auto& strategy) {
  return ModelDrafter{std::move(table), strategy};
}

template <class Strategy>
using WithMany = ModelDrafter<ModelPerSequence<TableModel<>>, Strategy>;
using Together = OneOfDrafters<WithMany<Line>, WithMany<ConfidentTree>, WithMany<Tree<WithoutReplacement>>>;

Together drafting_together(const auto& strategy) {
  return ModelDrafter{ModelPerSequence{random_table(2)}, strategy};
}

using SameToken = TrunkAndSpares<SampleMatchVerifier>;

std::vector<Watching::Step> steps_of(const TableModel<>& target, AnyDrafter drafter,
                                     std::span<const Token> text, const Options& options,
                                     std::uint64_t seed) {
  std::vector<Watching::Step> steps;
  SpecDec decoder{TableModel<>(target), std::move(drafter), SameToken{}, Watching{&steps}};
  SplitMix64 rng{seed};
  decoder.generate(text, options, rng);
  return steps;
}

// Every draft ends after the first reading below 0.6, or is as long as it may be.
void check_stops(const std::vector<Watching::Step>& steps, Index most, bool trees = false) {
  std::size_t short_ones = 0;
  REQUIRE(steps.size() > 10);
  for (const Watching::Step& step : steps) {
    if (step.drafted == 0) continue;
    REQUIRE(!step.readings.empty());
    if (!trees) CHECK(std::ssize(step.readings) == step.drafted);
    for (std::size_t i = 0; i + 1 < step.readings.size(); ++i) CHECK(step.readings[i] >= 0.6);
    if (std::ssize(step.readings) < most) short_ones += step.readings.back() < 0.6;
  }
  CHECK(short_ones > 5);
}

}  // namespace

TEST_CASE("a line ends after the token whose row says so, with no call of the draft model in vain") {
  const ByModel line = by_model(random_table(2), Line{});
  check_stops(steps_of(random_table(1), line, prompt, {.max_new_tokens = 100, .gamma = 5}, 1), 5);
}

TEST_CASE("drafters in other drafters end their drafts, too") {
  const auto check = [](AnyDrafter drafter, bool trees) {
    const Options options{.max_new_tokens = 150, .gamma = 12};
    check_stops(steps_of(random_table(1), std::move(drafter), prompt, options, 1), 4, trees);
  };
  check(OneText{FallbackDrafter{NoDrafter{}, by_model(random_table(2), Line{})}}, false);
  check(CascadeDrafter{random_table(2), PromptLookupDrafter{}}, false);
  check(OneText{AuditedDrafter{by_model(random_table(2), Line{})}}, false);
  check(by_model(random_table(2), Spares{4, {1}}), true);
}

namespace {

// What the texts after three prompts record, in order, with a decoder for each.
std::vector<Watching::Step> alone(const ByModel& drafter, const Options& options) {
  std::vector<Watching::Step> all;
  for (const Token first : {0, 1, 2}) {
    const std::vector<Token> text{first};
    const auto steps = steps_of(random_table(1), drafter, text, options, static_cast<std::uint64_t>(first));
    all.insert(all.end(), steps.begin(), steps.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

// And what they record in a batch.
std::vector<Watching::Step> in_batch(auto drafter, auto&& length, std::vector<Watching::Step>& steps,
                                     const Options& options) {
  steps.clear();
  Batch batch{ModelPerSequence{random_table(1)}, std::move(drafter), SameToken{},
              std::forward<decltype(length)>(length)};
  for (const Token first : {0, 1, 2})
    batch.add(std::vector<Token>{first}, options, SplitMix64{static_cast<std::uint64_t>(first)});
  batch.run();
  std::sort(steps.begin(), steps.end());
  return steps;
}

// Whether drafts are made together or for each text, whether the length is one for all or one for each.
std::vector<std::vector<Watching::Step>> in_batches(Together (*together)(), const LineOrTree& apart,
                                                    const Options& options) {
  std::vector<Watching::Step> steps;
  Watching one{&steps};
  return {in_batch(together(), one, steps, options),
          in_batch(together(), each(Watching{&steps}), steps, options),
          in_batch(apart, each(Watching{&steps}), steps, options)};
}

}  // namespace

TEST_CASE("in a batch each text's draft ends by its own rows") {
  const Options options{.max_new_tokens = 60, .gamma = 5};
  const auto expected = alone(by_model(random_table(2), Line{}), options);
  for (const auto& steps :
       in_batches([] { return drafting_together(Line{}); }, ModelDrafter{random_table(2)}, options)) {
    check_stops(steps, 5);
    CHECK((steps == expected));
  }
}

TEST_CASE("a record has the probabilities of the tokens whose parents were accepted") {
  const Eigen::RowVector4d row(0.1, 0.5, 0.15, 0.25);
  const auto small = TableModel<>::context_free(row);
  const std::vector<double> sorted{0.5, 0.25, 0.15, 0.1};
  const auto check = [&](AnyDrafter drafter, bool rated) {
    const std::vector<Token> text{0};
    Index accepted = 0;
    for (const auto& step :
         steps_of(small, std::move(drafter), text, {.max_new_tokens = 100, .gamma = 12}, 1)) {
      std::vector<double> expected;
      for (const Index count : step.offered)
        expected.insert(expected.end(), sorted.begin(), sorted.begin() + count);
      if (!rated) expected.clear();
      CHECK(step.probabilities == expected);
      CHECK_FALSE(step.drawn);
      accepted += std::ssize(step.ranks);
    }
    CHECK(accepted > 20);
  };
  check(by_model(small, small_tree), true);
  check(OneText{FallbackDrafter{NoDrafter{}, by_model(small, small_tree)}}, true);
  check(OneText{AuditedDrafter{by_model(small, small_tree)}}, true);
  check(by_model(small, Spares{4, {1}}), false);
}

TEST_CASE(
    "a record has the confidences of the rows that tokens were drawn from, if their parents were accepted") {
  const auto check = [](AnyDrafter drafter) {
    const TableModel<> target = random_table(1);
    std::vector<Watching::Step> steps;
    SpecDec decoder{TableModel<>(target), std::move(drafter), SameToken{}, Watching{&steps}};
    SplitMix64 rng{1};
    std::vector<Token> text = prompt;
    const Result r = decoder.generate(text, {.max_new_tokens = 200, .gamma = 12}, rng);
    text.insert(text.end(), r.tokens.begin(), r.tokens.end());
    const TableModel<> small = random_table(2);
    std::size_t length = prompt.size(), rated = 0;
    for (const Watching::Step& step : steps) {
      std::vector<double> expected;
      for (std::size_t k = 0; k < step.offered.size(); ++k) {
        const auto q = small.distribution(std::span(text).first(std::min(length + k, text.size())));
        expected.insert(expected.end(), static_cast<std::size_t>(step.offered[k]), q.probability(q.argmax()));
      }
      if (length + step.offered.size() > text.size()) break;  // the last step was cut
      CHECK(step.probabilities == expected);
      CHECK(step.drawn == (step.drafted > 0));
      length += step.ranks.size() + 1;
      rated += step.probabilities.size();
    }
    CHECK(rated > 200);
  };
  const auto drawn = [] {
    return by_model(random_table(2), Tree{TreeShape::of_widths({2, 2}), WithoutReplacement{}});
  };
  check(drawn());
  check(OneText{FallbackDrafter{NoDrafter{}, drawn()}});
  check(OneText{AuditedDrafter{drawn()}});
}

TEST_CASE("in a batch each text's tree grows by its own rows") {
  const Options options{.max_new_tokens = 60, .gamma = 12};
  const auto expected = alone(by_model(random_table(2), small_tree), options);
  for (const auto& steps : in_batches([] { return drafting_together(small_tree); },
                                      ModelDrafter{random_table(2), small_tree}, options))
    CHECK((steps == expected));
  static constexpr auto drawn = [] { return Tree{TreeShape::of_widths({2, 2, 1}), WithoutReplacement{}}; };
  const auto expected_of_drawn = alone(by_model(random_table(2), drawn()), options);
  CHECK(std::ranges::any_of(expected_of_drawn, &Watching::Step::drawn));
  for (const auto& steps :
       in_batches([] { return drafting_together(drawn()); }, ModelDrafter{random_table(2), drawn()}, options))
    CHECK((steps == expected_of_drawn));
}

namespace {

template <class Length, class Row>
bool goes_on(Length length, const Row& row) {
  specdec::detail::DraftReadings readings;
  return specdec::detail::KeepDrafting<Length, false>{&length, &readings}.more(row, 0);
}

}  // namespace

TEST_CASE("confidence is that of the row before temperature") {
  const Eigen::RowVector3d logits(std::log(0.5), std::log(0.3), std::log(0.2));
  for (const double temperature : {0.0, 0.5, 1.0}) {
    const Temperature chain{temperature};
    const auto rows = ProcessedRows(logits, chain);
    CHECK(confidence_of(rows.row(0), 0) == Approx(0.5));
    CHECK(goes_on(ConfidentLength(0.45), rows.row(0)));
    CHECK_FALSE(goes_on(ConfidentLength(0.55), rows.row(0)));
    const double nats = -(0.5 * std::log(0.5) + 0.3 * std::log(0.3) + 0.2 * std::log(0.2));
    CHECK(goes_on(EntropyLength(nats + 1e-6), rows.row(0)));
    CHECK_FALSE(goes_on(EntropyLength(nats - 1e-6), rows.row(0)));
  }
  const Eigen::RowVector2d bad(0.5, std::numeric_limits<double>::quiet_NaN());
  CHECK(message_of<InvalidDistribution>([&] { confidence_of(distributions(bad).row(0), 3); }) ==
        "specdec: draft row 3: the largest entry is nan");
}

}  // namespace test_draft_early_stopping_length

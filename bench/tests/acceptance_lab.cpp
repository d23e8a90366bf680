// bench/acceptance: what is measured of the rules, on rows where it can be known.
// Oracles: enumeration of the verifiers and of the loop (testing/), the toy example of Sun et al., Section 2, sums
// over all drafts, and estimators worked out by hand. Samples have fixed seeds and are allowed four standard
// errors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "acceptance/estimate.hpp"
#include "acceptance/exact.hpp"
#include "acceptance/hashed_model.hpp"
#include "acceptance/law.hpp"
#include "acceptance/markov.hpp"
#include "acceptance/one_step.hpp"
#include "acceptance/pool.hpp"
#include "acceptance/rules.hpp"
#include "acceptance/shared.hpp"
#include "acceptance/whole_loop.hpp"
#include "specdec/specdec.hpp"
#include "support/catch.hpp"

namespace {

using acceptance::Drafts;
using acceptance::Estimate;
using acceptance::HashedModel;
using acceptance::Measured;
using acceptance::Pool;
using acceptance::Side;
using specdec::Index;
using specdec::Token;

template <class F>
void for_each_rule(F&& f) {
  std::apply([&](const auto&... rule) { (f(rule), ...); }, acceptance::rules);
}

// All contexts of `size` tokens.
std::vector<std::vector<Token>> contexts(Index vocab_size, Index size) {
  std::vector<std::vector<Token>> all{{}};
  for (Index i = 0; i < size; ++i) {
    std::vector<std::vector<Token>> longer;
    for (const auto& context : all)
      for (Token x = 0; x < vocab_size; ++x) {
        longer.push_back(context);
        longer.back().push_back(x);
      }
    all = longer;
  }
  return all;
}

// Tokens a step, in expectation over all contexts of `order` tokens.
template <class V>
double exact_one_step(const V& verifier, const Pool& pool, Index order, Index gamma) {
  double sum = 0;
  const auto all = contexts(pool.vocab_size(), order);
  for (const auto& prompt : all) {
    HashedModel target(pool, Side::target, order);
    specdec::ModelDrafter drafter{HashedModel(pool, Side::draft, order)};
    sum += 1 + specdec::testing::exact_step(target, drafter, verifier, prompt, gamma).expected_accepted();
  }
  return sum / static_cast<double>(all.size());
}

// 1 + Σ over all prefixes of up to `gamma` tokens of min(P, Q), the joint probabilities, after `context`.
double joint_overlap(const Pool& pool, Index order, std::vector<Token>& context, Index gamma, double p,
                     double q) {
  if (gamma == 0) return std::min(p, q);
  const Index slot = acceptance::slot_of(context, order, pool.contexts());
  double sum = std::min(p, q);
  for (Token x = 0; x < pool.vocab_size(); ++x) {
    context.push_back(x);
    sum += joint_overlap(pool, order, context, gamma - 1, p * pool.row(Side::target, slot)[x],
                         q * pool.row(Side::draft, slot)[x]);
    context.pop_back();
  }
  return sum;
}

double exact_bound(const Pool& pool, Index order, Index gamma) {
  double sum = 0;
  auto all = contexts(pool.vocab_size(), order);
  for (auto& prompt : all) sum += joint_overlap(pool, order, prompt, gamma, 1, 1);
  return sum / static_cast<double>(all.size());
}

// Tokens a step over the first `steps` of them, in expectation over all prompts of `size` tokens.
template <class V, class T, class D>
double exact_whole_loop(const V& verifier, T target, D draft, Index size, Index gamma, Index steps) {
  specdec::ModelDrafter drafter{draft};
  specdec::SpecDec decoder{target, drafter, verifier};
  double sum = 0;
  const auto all = contexts(target.vocab_size(), size);
  for (const auto& prompt : all)
    specdec::testing::enumerate([&](specdec::testing::Enumerator& chance) {
      auto sequence = decoder.start(prompt, {.max_new_tokens = 100, .gamma = gamma});
      for (Index step = 0; step < steps; ++step) sequence.step(chance);
      sum += chance.probability() * static_cast<double>(sequence.tokens().size());
    });
  return sum / static_cast<double>(all.size()) / static_cast<double>(steps);
}

// The rule over the whole loop, beside token verification there.
template <class V, class T, class D>
Measured measure_loop(const V& verifier, const T& target, const D& draft, Index gamma,
                      const acceptance::Length& length, std::uint64_t seed) {
  const auto token = acceptance::generate(specdec::TokenVerifier{}, target, draft, gamma, length, seed);
  return acceptance::whole_loop(verifier, target, draft, gamma, length, seed, token);
}

void check_near(const Estimate& measured, double exact) {
  CHECK(measured.standard_error > 0);
  CHECK(measured.standard_error < 0.02);
  CHECK(std::abs(measured.value - exact) <= 4 * measured.standard_error);
}

TEST_CASE("The toy example: 10/9, 11/9 and 12/9 accepted tokens") {
  const Pool pool({.family = "toy", .vocab_size = 2, .overlap = 2. / 3});
  const Drafts drafts(pool, 1, 2, 20'000, 5);
  check_near(acceptance::one_step(specdec::TokenVerifier{}, drafts, 2, 1).efficiency, 1 + 10. / 9);
  check_near(acceptance::one_step(specdec::BlockVerifier{}, drafts, 2, 1).efficiency, 1 + 11. / 9);
  check_near(acceptance::one_step(specdec::GreedyBlockVerifier{}, drafts, 2, 1).efficiency, 1 + 12. / 9);
  const Measured bound = acceptance::full_information(drafts, 2);
  check_near(bound.efficiency, 1 + 12. / 9);
  CHECK(bound.accepted_fraction == Approx((bound.efficiency.value - 1) / 2));
  CHECK(std::abs(bound.gain.value - (21. / 19 - 1)) <= 4 * bound.gain.standard_error);
}

TEST_CASE("What is to be expected is told where it is known") {
  const Pool toy({.family = "toy", .vocab_size = 2, .overlap = 2. / 3}),
      zipf({.vocab_size = 2, .overlap = 0.8});
  const auto off = 1e-4;  // the dial's
  CHECK(*acceptance::exact_step_efficiency(specdec::TokenVerifier{}, toy, 2) ==
        Approx(1 + 10. / 9).margin(off));
  CHECK(*acceptance::exact_step_efficiency(specdec::BlockVerifier{}, toy, 2) ==
        Approx(1 + 11. / 9).margin(off));
  CHECK(*acceptance::exact_step_efficiency(specdec::GreedyBlockVerifier{}, toy, 2) ==
        Approx(1 + 12. / 9).margin(off));
  CHECK(*acceptance::exact_loop_efficiency(specdec::BlockVerifier{}, toy, 2) ==
        Approx(1 + 11. / 9).margin(off));
  CHECK_FALSE(acceptance::exact_loop_efficiency(specdec::GreedyBlockVerifier{}, toy, 2));  // has a memory
  CHECK_FALSE(acceptance::exact_step_efficiency(acceptance::PrefixCoins{}, toy, 2));
  CHECK_FALSE(
      acceptance::exact_step_efficiency(specdec::BlockVerifier{}, zipf, 2));  // depends on the context
}

TEST_CASE("One step measures of every rule what enumeration knows") {
  for (const char* family : {"zipf", "disjoint"})
    for (const Index gamma : {1, 3}) {
      const Pool pool({.family = family, .vocab_size = 3, .overlap = 0.7});
      const Drafts drafts(pool, 1, 4, 20'000, 6);
      for_each_rule([&](const auto& rule) {
        CAPTURE(family, gamma, rule.name);
        const Measured measured = acceptance::one_step(rule.verifier, drafts, gamma, 1);
        CHECK(measured.consistent);
        REQUIRE(std::ssize(measured.at_least) == gamma);
        double sum = 1;
        for (const double share : measured.at_least) sum += share;
        CHECK(sum == Approx(measured.efficiency.value));
        check_near(measured.efficiency, exact_one_step(rule.verifier, pool, 1, gamma));
      });
      check_near(acceptance::full_information(drafts, gamma).efficiency, exact_bound(pool, 1, gamma));
    }
}

TEST_CASE("The whole loop measures of every rule what enumeration knows") {
  const Pool pool({.vocab_size = 2, .overlap = 0.75});
  const HashedModel target(pool, Side::target, 1), draft(pool, Side::draft, 1);
  const auto pair = acceptance::markov_pair(2, 2, 0.7, 3);
  for_each_rule([&](const auto& rule) {
    CAPTURE(rule.name);
    const acceptance::Length length{.generations = 10'000, .steps = 2};
    check_near(measure_loop(rule.verifier, target, draft, 2, length, 4).efficiency,
               exact_whole_loop(rule.verifier, target, draft, 1, 2, 2));
    check_near(measure_loop(rule.verifier, pair.target, pair.draft, 2, length, 4).efficiency,
               exact_whole_loop(rule.verifier, pair.target, pair.draft, 2, 2, 2));
  });
}

TEST_CASE("In one step token <= block <= greedy block = full information, in expectation") {
  Index strictly = 0;
  for (const char* family : {"zipf", "dirichlet", "sharpened", "flattened", "truncated", "disjoint", "toy"})
    for (const Index vocab_size : {2, 3})
      for (const Index gamma : {1, 2, 3}) {
        CAPTURE(family, vocab_size, gamma);
        const Pool pool({.family = family, .vocab_size = vocab_size, .overlap = 0.9});
        const double token = exact_one_step(specdec::TokenVerifier{}, pool, 1, gamma);
        const double block = exact_one_step(specdec::BlockVerifier{}, pool, 1, gamma);
        const double greedy = exact_one_step(specdec::GreedyBlockVerifier{}, pool, 1, gamma);
        const double bound = exact_bound(pool, 1, gamma);
        // Rows are float: they sum to 1 within 1e-7.
        CHECK(token <= block + 1e-7);
        CHECK(block <= greedy + 1e-7);
        CHECK(greedy == Approx(bound).epsilon(1e-6));
        if (gamma == 1) CHECK(token == Approx(bound).epsilon(1e-6));
        strictly += token + 1e-4 < block && block + 1e-4 < greedy;
      }
  CHECK(strictly >= 8);
}

TEST_CASE("Greedy block is ahead of block for a step and behind it over generations") {
  const Pool pool({.vocab_size = 100, .overlap = 0.7});
  const Drafts drafts(pool, 2, 8, 4'000, 2);
  const Measured block = acceptance::one_step(specdec::BlockVerifier{}, drafts, 8, 1);
  const Measured greedy = acceptance::one_step(specdec::GreedyBlockVerifier{}, drafts, 8, 1);
  CHECK(greedy.gain.value > block.gain.value + 4 * (block.gain.standard_error + greedy.gain.standard_error));
  CHECK(block.gain.value > 4 * block.gain.standard_error);

  const HashedModel target(pool, Side::target, 2), draft(pool, Side::draft, 2);
  const auto loop = [&](auto verifier) {
    return measure_loop(verifier, target, draft, 8, {.generations = 32, .steps = 200}, 1).gain;
  };
  const Estimate whole_block = loop(specdec::BlockVerifier{}),
                 whole_greedy = loop(specdec::GreedyBlockVerifier{});
  CHECK(whole_block.value >
        whole_greedy.value + 4 * (whole_block.standard_error + whole_greedy.standard_error));
  CHECK(whole_greedy.value > 4 * whole_greedy.standard_error);
}

TEST_CASE("What the benches of a pool share is what each would make for itself") {
  acceptance::Shared shared({.vocab_size = 20, .overlap = 0.6, .seed = 5}, acceptance::Effort::quick(), 8);
  CHECK(shared.drafts().size() == 500);
  CHECK(shared.drafts()[0].tokens.size() == 8);
  CHECK(&shared.drafts() == &shared.drafts());
  const Measured token = shared.whole_loop(specdec::TokenVerifier{}, 4);
  const Measured block = shared.whole_loop(specdec::BlockVerifier{}, 4);
  CHECK(token.gain.value == 0);
  CHECK(token.gain.standard_error == 0);
  CHECK(block.gain.value == Approx(block.efficiency.value / token.efficiency.value - 1));
  CHECK(shared.one_step(specdec::BlockVerifier{}, 8).at_least.size() == 8);
  CHECK(acceptance::Effort::full(256'000).drafts < acceptance::Effort::full(1000).drafts);
}

TEST_CASE("Drafts are drawn from their rows, and a shorter one is the front of a longer one") {
  const Pool pool({.vocab_size = 20, .overlap = 0.6});
  const Drafts longer(pool, 2, 8, 50, 3), shorter(pool, 2, 4, 50, 3), other(pool, 2, 4, 50, 4);
  bool differ = false;
  for (std::size_t k = 0; k < longer.size(); ++k) {
    CHECK(std::ranges::equal(longer[k].first(4), shorter[k].tokens));
    differ = differ || shorter[k].tokens != other[k].tokens;
    REQUIRE(longer[k].target_rows(4, 20).rows() == 5);
    REQUIRE(longer[k].draft_rows(4, 20).rows() == 4);
    for (std::size_t i = 0; i < 8; ++i) {
      const auto [p, q] = acceptance::probabilities(longer[k], i);
      CHECK(q > 0);
      CHECK(p == static_cast<double>(longer[k].target[i][longer[k].tokens[i]]));
    }
    // From the third token on the context is all drafted.
    const std::vector<Token> context{longer[k].tokens[2], longer[k].tokens[3]};
    const Index slot = acceptance::slot_of(context, 2, pool.contexts());
    CHECK(longer[k].target[4] == pool.row(Side::target, slot));
    CHECK(longer[k].draft[4] == pool.row(Side::draft, slot));
  }
  CHECK(differ);
}

TEST_CASE("The same seed measures the same, bit for bit") {
  const Pool pool({.vocab_size = 20, .overlap = 0.6});
  const HashedModel target(pool, Side::target, 2), draft(pool, Side::draft, 2);
  const auto run = [&](std::uint64_t seed) {
    const Drafts drafts(pool, 2, 4, 100, seed);
    return std::vector{
        acceptance::one_step(specdec::GreedyBlockVerifier{}, drafts, 4, seed).efficiency.value,
        measure_loop(specdec::GreedyBlockVerifier{}, target, draft, 4, {8, 20}, seed).gain.value};
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}

TEST_CASE("Means, gains and their errors") {
  const Estimate mean = acceptance::mean({1, 2, 3, 6});
  CHECK(mean.value == 3);
  CHECK(mean.standard_error == Approx(std::sqrt(14. / 12)));
  CHECK(acceptance::mean({2}).standard_error == 0);

  // b = 1.5·a + {0.5, −1, 0.5}: the mean of the rests is 0, their squares sum to 1.5.
  const Estimate gain = acceptance::gain({1, 2, 3}, {2, 2, 5});
  CHECK(gain.value == Approx(0.5));
  CHECK(gain.standard_error == Approx(std::sqrt(1.5 / 6) / 2));

  const Pool pool({.vocab_size = 20, .overlap = 0.6});
  const Measured token = acceptance::one_step(specdec::TokenVerifier{}, Drafts(pool, 2, 4, 100, 1), 4, 1);
  CHECK(token.gain.value == 0);
  CHECK(token.gain.standard_error == 0);
}

// A verifier whose survival() promises more than it does.
struct Boastful : specdec::TokenVerifier {
  static double survival(double before, double, double) { return before; }
};

TEST_CASE("A survival that the verifier does not keep is found out") {
  const Pool pool({.vocab_size = 20, .overlap = 0.6});
  const Drafts drafts(pool, 2, 4, 200, 1);
  CHECK_FALSE(acceptance::one_step(Boastful{}, drafts, 4, 1).consistent);
  CHECK(acceptance::one_step(specdec::TokenVerifier{}, drafts, 4, 1).consistent);
}

TEST_CASE("Every rule says what enumeration found of its law") {
  for_each_rule([](const auto& rule) {
    CAPTURE(rule.name);
    const bool lossy = rule.name == "lenient" || rule.name == "prefix_coins";
    const auto found = acceptance::check_law(rule);
    CHECK(found.lossless != lossy);
    CHECK((found.worst_difference > 1e-3) == lossy);
    CHECK(acceptance::label_of(rule).starts_with(lossy ? "LOSSY: off by 0.0" : "lossless: exact"));
    CHECK(acceptance::has_place(rule, 0));
    CHECK(acceptance::has_place(rule, 1) == (rule.name != "argmax"));
  });
  // Argmax verification writes another text than the target samples.
  CHECK_FALSE(acceptance::check_law(acceptance::Rule{"likeliest", specdec::ArgmaxVerifier{}}).lossless);
}

}  // namespace

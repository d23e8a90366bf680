// Tests of bench/acceptance: the measured figures of the rules, on rows where the exact values are known.
// Oracles: enumeration of the verifiers and of the loop (testing/), the toy example of Sun et al., Section 2, sums over all
// drafts, and estimators computed by hand.
// Seeds are fixed, so that a passing test always passes. Samples may differ by four standard errors. A right mean exceeds
// this with probability 6.3e-5: with other seeds, one of the 53 comparisons with exact values would fail in 0.34 % of the
// cases.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
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
#include "specdec/more/analysis.hpp"
#include "specdec/specdec.hpp"
#include "specdec/testing.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/rules.hpp"

namespace test_bench_acceptance_lab {

namespace {

using acceptance::Drafts;
using acceptance::Estimate;
using acceptance::HashedModel;
using acceptance::Measured;
using acceptance::Pool;
using acceptance::Side;
using specdec::Index;
using specdec::Token;
using specdec::testing::Enumerator;
using support::RowMajor;

// Any of the rules. It judges copies of the rows, with code that tests/support compiles for all tests. These tests are about
// the figures that are computed from verdicts, not about how a rule reads its rows.
struct AnyRule {
  std::variant<support::AnyVerifier, acceptance::PrefixCoins> rule;
  std::mt19937_64* generator = nullptr;  // used for all chance but an Enumerator's

  Index min_draft_length() const {
    return std::visit([](const auto& verifier) { return specdec::min_draft_length(verifier); }, rule);
  }
  specdec::Verdict judge(const auto& drafted, auto& chance) {
    const support::Seen seen(drafted);
    if constexpr (std::same_as<decltype(chance), Enumerator&>) return judge_copies(seen, chance);
    else return judge_copies(seen, *generator);
  }
  friend bool operator==(const AnyRule&, const AnyRule&) = default;

 private:
  template <class Source>
  specdec::Verdict judge_copies(const support::Seen& seen, Source& source) {
    return std::visit(
        [&](auto& verifier) { return specdec::verify(verifier, seen.p, seen.q, seen.tokens, source); }, rule);
  }
};

// Claims a higher survival than any rule has.
struct Boastful {
  static double survival(double before, double, double) { return before; }
};

// A rule that has survival().
struct TellingRule : AnyRule {
  std::variant<specdec::TokenVerifier, specdec::BlockVerifier, specdec::SampleMatchVerifier,
               specdec::LenientVerifier, Boastful>
      teller;

  double survival(double before, double p, double q) const {
    return std::visit([&](const auto& verifier) { return verifier.survival(before, p, q); }, teller);
  }
};

static_assert(specdec::SurvivalRule<TellingRule> && !specdec::SurvivalRule<AnyRule>);

// A rule of acceptance/rules.hpp, with its survival if that is known.
struct Compared {
  std::string_view name;
  specdec::testing::Reference reference;
  AnyRule rule;
  std::variant<AnyRule, TellingRule, specdec::GreedyBlockVerifier> measured;
};

template <class V>
AnyRule any_rule(const V& verifier, std::mt19937_64* generator = nullptr) {
  if constexpr (std::same_as<V, acceptance::PrefixCoins>) return {verifier, generator};
  else return {support::AnyVerifier{verifier}, generator};
}

template <class V>
TellingRule telling(const V& verifier, std::mt19937_64& generator) {
  return {any_rule(verifier, &generator), verifier};
}

template <class V>
Compared compared(const acceptance::Rule<V>& rule, std::mt19937_64& generator) {
  const AnyRule any = any_rule(rule.verifier, &generator);
  if constexpr (specdec::tells_survival<V>)
    return {rule.name, rule.reference, any, telling(rule.verifier, generator)};
  else if constexpr (specdec::SurvivalRule<V>) return {rule.name, rule.reference, any, rule.verifier};
  else return {rule.name, rule.reference, any, any};
}

std::vector<Compared> all_rules(std::mt19937_64& generator) {
  const auto all = [&](const auto&... rule) { return std::vector<Compared>{compared(rule, generator)...}; };
  return std::apply(all, acceptance::rules);
}

Measured one_step(const TellingRule& rule, const Drafts& drafts, Index gamma) {
  return acceptance::one_step(rule, drafts, gamma, 1);
}
Measured one_step(const specdec::GreedyBlockVerifier& rule, const Drafts& drafts, Index gamma,
                  std::uint64_t seed = 1) {
  return acceptance::one_step(rule, drafts, gamma, seed);
}

// The row of a target or a drafter after a context.
using Rows = std::function<Eigen::RowVectorXd(std::span<const Token>)>;

// Two models, each defined by a row for every context.
struct Models {
  Index vocab_size;
  Rows p, q;
};

template <class Model>
Rows rows_of(const Model& model) {
  return [&model](std::span<const Token> context) {
    const auto row = model.distribution(context);
    Eigen::RowVectorXd copy(row.vocab_size());
    for (Token x = 0; x < copy.size(); ++x) copy[x] = row.probability(x);
    return copy;
  };
}

Rows rows_of(const Pool& pool, Side side, Index order) {
  return [&pool, side, order](std::span<const Token> context) {
    const float* row = pool.row(side, acceptance::slot_of(context, order, pool.contexts()));
    return Eigen::RowVectorXd(Eigen::Map<const Eigen::RowVectorXf>(row, pool.vocab_size()).cast<double>());
  };
}

Models models_of(const Pool& pool, Index order) {
  return {pool.vocab_size(), rows_of(pool, Side::target, order), rows_of(pool, Side::draft, order)};
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

// One step: drafts after the context, judges the draft, and appends the emitted tokens to the context.
void step(const Models& models, AnyRule& verifier, Index gamma, std::vector<Token>& context,
          Enumerator& chance) {
  gamma = std::max(gamma, verifier.min_draft_length());
  RowMajor<double> p(gamma + 1, models.vocab_size), q(gamma, models.vocab_size);
  const std::size_t before = context.size();
  for (Index i = 0; i <= gamma; ++i) {
    p.row(i) = models.p(context);
    if (i == gamma) break;
    q.row(i) = models.q(context);
    context.push_back(chance.draw(specdec::DenseRow<double>(q.row(i).data(), q.cols())));
  }
  const std::vector<Token> drafted(context.begin() + static_cast<std::ptrdiff_t>(before), context.end());
  const specdec::Verdict verdict = specdec::verify(verifier, p, q, drafted, chance);
  context.resize(before + static_cast<std::size_t>(verdict.accepted));
  context.push_back(verdict.token);
}

// Expected tokens per step over the first `steps` steps, averaged over all prompts of `size` tokens.
double exact_efficiency(const AnyRule& rule, const Models& models, Index size, Index gamma, Index steps) {
  double sum = 0;
  const auto all = contexts(models.vocab_size, size);
  for (const auto& prompt : all)
    specdec::testing::enumerate([&](Enumerator& chance) {
      AnyRule verifier = rule;
      std::vector<Token> context = prompt;
      for (Index k = 0; k < steps; ++k) step(models, verifier, gamma, context, chance);
      sum += chance.probability() * static_cast<double>(context.size() - prompt.size());
    });
  return sum / static_cast<double>(all.size()) / static_cast<double>(steps);
}

// 1 + Σ min(P, Q) over all prefixes of up to `gamma` tokens after `context`. P and Q are the joint probabilities.
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

// One side of Models as a model for the loop.
class RowModel {
 public:
  RowModel(Index vocab_size, Rows rows) : vocab_size_(vocab_size), rows_(std::move(rows)) {}
  Index vocab_size() const { return vocab_size_; }
  const RowMajor<double>& forward(std::span<const Token> tokens, Index rows) {
    context_.insert(context_.end(), tokens.begin(), tokens.end());
    out_.resize(rows, vocab_size_);
    for (Index i = 0; i < rows; ++i)
      out_.row(i) =
          rows_(std::span(context_).first(context_.size() - static_cast<std::size_t>(rows - 1 - i)));
    return out_;
  }
  void truncate(Index length) {
    if (length < std::ssize(context_)) context_.resize(static_cast<std::size_t>(length));
  }

 private:
  Index vocab_size_;
  Rows rows_;
  std::vector<Token> context_;
  RowMajor<double> out_;
};

// Measures a rule over whole generations, with the given baseline.
Measured measure_loop(const AnyRule& rule, const Models& models, Index gamma,
                      const acceptance::Length& length, const acceptance::Collector& baseline) {
  return acceptance::whole_loop(rule, RowModel(models.vocab_size, models.p),
                                RowModel(models.vocab_size, models.q), gamma, length, 4, baseline);
}

// Runs generate() on HashedModels.
template <class V>
acceptance::Collector generate_hashed(const V& verifier, const Pool& pool, Index order, Index gamma,
                                      const acceptance::Length& length, std::uint64_t seed) {
  return acceptance::generate(verifier, HashedModel(pool, Side::target, order),
                              HashedModel(pool, Side::draft, order), gamma, length, seed);
}

void check_near(const Estimate& measured, double exact) {
  CHECK(measured.standard_error > 0);
  CHECK(measured.standard_error < 0.02);
  CHECK(std::abs(measured.value - exact) <= 4 * measured.standard_error);
}

TEST_CASE("The toy example: 10/9, 11/9 and 12/9 accepted tokens") {
  const Pool pool({.family = "toy", .vocab_size = 2, .overlap = 2. / 3});
  const Drafts drafts(pool, 1, 2, 20'000, 5);
  std::mt19937_64 generator(9);
  check_near(one_step(telling(specdec::TokenVerifier{}, generator), drafts, 2).efficiency, 1 + 10. / 9);
  check_near(one_step(telling(specdec::BlockVerifier{}, generator), drafts, 2).efficiency, 1 + 11. / 9);
  check_near(one_step(specdec::GreedyBlockVerifier{}, drafts, 2).efficiency, 1 + 12. / 9);
  const Measured bound = acceptance::full_information(drafts, 2);
  check_near(bound.efficiency, 1 + 12. / 9);
  CHECK(bound.accepted_fraction == Approx((bound.efficiency.value - 1) / 2));
  CHECK(std::abs(bound.gain.value - (21. / 19 - 1)) <= 4 * bound.gain.standard_error);
}

TEST_CASE("What is to be expected is told where it is known") {
  const Pool toy({.family = "toy", .vocab_size = 2, .overlap = 2. / 3}),
      zipf({.vocab_size = 2, .overlap = 0.8});
  const auto off = 1e-4;  // error of the dial
  CHECK(*acceptance::exact_step_efficiency(specdec::TokenVerifier{}, toy, 2) ==
        Approx(1 + 10. / 9).margin(off));
  CHECK(*acceptance::exact_step_efficiency(specdec::BlockVerifier{}, toy, 2) ==
        Approx(1 + 11. / 9).margin(off));
  CHECK(*acceptance::exact_step_efficiency(specdec::GreedyBlockVerifier{}, toy, 2) ==
        Approx(1 + 12. / 9).margin(off));
  CHECK(*acceptance::exact_loop_efficiency(specdec::BlockVerifier{}, toy, 2) ==
        Approx(1 + 11. / 9).margin(off));
  CHECK_FALSE(acceptance::exact_loop_efficiency(specdec::GreedyBlockVerifier{}, toy, 2));  // has state
  CHECK_FALSE(acceptance::exact_step_efficiency(acceptance::PrefixCoins{}, toy, 2));
  CHECK_FALSE(
      acceptance::exact_step_efficiency(specdec::BlockVerifier{}, zipf, 2));  // depends on the context
}

TEST_CASE("One step measures of every rule what enumeration knows") {
  std::mt19937_64 generator(9);
  for (const char* family : {"zipf", "disjoint"})
    for (const Index gamma : {1, 3}) {
      const Pool pool({.family = family, .vocab_size = 3, .overlap = 0.7});
      const Drafts drafts(pool, 1, 4, 20'000, 6);
      for (const Compared& rule : all_rules(generator)) {
        CAPTURE(family, gamma, rule.name);
        const Measured measured =
            std::visit([&](const auto& verifier) { return acceptance::one_step(verifier, drafts, gamma, 1); },
                       rule.measured);
        CHECK(measured.consistent);
        REQUIRE(std::ssize(measured.beyond) == gamma);
        double sum = 1;
        for (const double share : measured.beyond) sum += share;
        CHECK(sum == Approx(measured.efficiency.value).epsilon(1e-12));
        check_near(measured.efficiency, exact_efficiency(rule.rule, models_of(pool, 1), 1, gamma, 1));
      }
      check_near(acceptance::full_information(drafts, gamma).efficiency, exact_bound(pool, 1, gamma));
    }
}

TEST_CASE("The whole loop measures of every rule what enumeration knows") {
  const Pool pool({.vocab_size = 2, .overlap = 0.75});
  const auto pair = acceptance::markov_pair(2, 2, 0.7, 3);
  const Models hashed = models_of(pool, 1), markov{2, rows_of(pair.target), rows_of(pair.draft)};
  const acceptance::Length length{.generations = 10'000, .steps = 2};
  const auto token = generate_hashed(specdec::TokenVerifier{}, pool, 1, 2, length, 4);
  const auto block = generate_hashed(specdec::BlockVerifier{}, pool, 1, 2, length, 4);
  check_near(acceptance::mean(token.tokens()),
             exact_efficiency(any_rule(specdec::TokenVerifier{}), hashed, 1, 2, 2));
  check_near(acceptance::mean(block.tokens()),
             exact_efficiency(any_rule(specdec::BlockVerifier{}), hashed, 1, 2, 2));
  std::mt19937_64 generator(9);
  for (const Compared& rule : all_rules(generator)) {
    CAPTURE(rule.name);
    check_near(measure_loop(rule.rule, hashed, 2, length, token).efficiency,
               exact_efficiency(rule.rule, hashed, 1, 2, 2));
    check_near(measure_loop(rule.rule, markov, 2, length, token).efficiency,
               exact_efficiency(rule.rule, markov, 2, 2, 2));
  }
}

TEST_CASE("In one step token <= block <= greedy block = full information, in expectation") {
  Index strictly = 0;
  for (const char* family : {"zipf", "dirichlet", "sharpened", "flattened", "truncated", "disjoint", "toy"})
    for (const Index vocab_size : {2, 3})
      for (const Index gamma : {1, 2, 3}) {
        CAPTURE(family, vocab_size, gamma);
        const Pool pool({.family = family, .vocab_size = vocab_size, .overlap = 0.9});
        const auto exact = [&](const AnyRule& rule) {
          return exact_efficiency(rule, models_of(pool, 1), 1, gamma, 1);
        };
        const double token = exact(any_rule(specdec::TokenVerifier{}));
        const double block = exact(any_rule(specdec::BlockVerifier{}));
        const double greedy = exact(any_rule(specdec::GreedyBlockVerifier{}));
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

TEST_CASE("Greedy block is better than block for one step and worse over generations") {
  const Pool pool({.vocab_size = 100, .overlap = 0.7});
  const Drafts drafts(pool, 2, 8, 4'000, 2);
  std::mt19937_64 generator(9);
  const Estimate ahead = one_step(specdec::GreedyBlockVerifier{}, drafts, 8).gain;
  const Estimate behind = one_step(telling(specdec::BlockVerifier{}, generator), drafts, 8).gain;
  CHECK(ahead.value > behind.value + 4 * (behind.standard_error + ahead.standard_error));
  CHECK(behind.value > 4 * behind.standard_error);

  const acceptance::Length length{.generations = 32, .steps = 200};
  const auto token = generate_hashed(specdec::TokenVerifier{}, pool, 2, 8, length, 1);
  const auto block = generate_hashed(specdec::BlockVerifier{}, pool, 2, 8, length, 1);
  const Estimate whole_block = block.measured(token.tokens()).gain;
  const Estimate whole_greedy =
      measure_loop(any_rule(specdec::GreedyBlockVerifier{}, &generator), models_of(pool, 2), 8, length, token)
          .gain;
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
  CHECK(block.gain.value == Approx(block.efficiency.value / token.efficiency.value - 1).epsilon(1e-12));
  CHECK(shared.one_step(specdec::GreedyBlockVerifier{}, 8).beyond.size() == 8);
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
    // From the third token on, all tokens of the context are drafted.
    const std::vector<Token> context{longer[k].tokens[2], longer[k].tokens[3]};
    const Index slot = acceptance::slot_of(context, 2, pool.contexts());
    CHECK(longer[k].target[4] == pool.row(Side::target, slot));
    CHECK(longer[k].draft[4] == pool.row(Side::draft, slot));
  }
  CHECK(differ);
}

TEST_CASE("The same seed measures the same, bit for bit") {
  const Pool pool({.vocab_size = 20, .overlap = 0.6});
  const auto run = [&](std::uint64_t seed) {
    const Drafts drafts(pool, 2, 4, 100, seed);
    return std::vector{
        one_step(specdec::GreedyBlockVerifier{}, drafts, 4, seed).efficiency.value,
        acceptance::mean(generate_hashed(specdec::BlockVerifier{}, pool, 2, 4, {8, 20}, seed).tokens())
            .value};
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}

TEST_CASE("Means, gains and their errors") {
  const Estimate mean = acceptance::mean({1, 2, 3, 6});
  CHECK(mean.value == 3);
  CHECK(mean.standard_error == Approx(std::sqrt(14. / 12)));
  CHECK(acceptance::mean({2}).standard_error == 0);

  // b = 1.5·a + {0.5, −1, 0.5}: the residuals have the mean 0, and their squares sum to 1.5.
  const Estimate gain = acceptance::gain({1, 2, 3}, {2, 2, 5});
  CHECK(gain.value == Approx(0.5));
  CHECK(gain.standard_error == Approx(std::sqrt(1.5 / 6) / 2));

  const Pool pool({.vocab_size = 20, .overlap = 0.6});
  std::mt19937_64 generator(9);
  const Measured token =
      one_step(telling(specdec::TokenVerifier{}, generator), Drafts(pool, 2, 4, 100, 1), 4);
  CHECK(token.gain.value == 0);
  CHECK(token.gain.standard_error == 0);
}

TEST_CASE("A survival that the verifier does not keep is found out") {
  const Pool pool({.vocab_size = 20, .overlap = 0.6});
  const Drafts drafts(pool, 2, 4, 200, 1);
  std::mt19937_64 generator(9);
  TellingRule rule = telling(specdec::TokenVerifier{}, generator);
  CHECK(one_step(rule, drafts, 4).consistent);
  rule.teller = Boastful{};
  CHECK_FALSE(one_step(rule, drafts, 4).consistent);
}

TEST_CASE("Every rule says what enumeration found of its law") {
  std::mt19937_64 generator;
  for (const Compared& compared : all_rules(generator)) {
    const acceptance::Rule rule{compared.name, compared.rule, compared.reference};
    CAPTURE(rule.name);
    const bool lossy = rule.name == "lenient" || rule.name == "prefix_coins";
    const auto found = acceptance::check_law(rule);
    CHECK(found.lossless != lossy);
    CHECK((found.worst_difference > 1e-3) == lossy);
    CHECK(acceptance::label_of(rule).starts_with(lossy ? "LOSSY: off by 0.0" : "lossless: exact"));
    CHECK(acceptance::has_place(rule, 0));
    CHECK(acceptance::has_place(rule, 1) == (rule.name != "argmax"));
  }
  // Argmax verification writes another text than the target samples.
  const acceptance::Rule likeliest{"likeliest", any_rule(specdec::ArgmaxVerifier{})};
  CHECK_FALSE(acceptance::check_law(likeliest).lossless);
}

}  // namespace

}  // namespace test_bench_acceptance_lab

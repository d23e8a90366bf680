// Chance by address: the laws of coins, draws, races and rules; and no number that depends on another decision.
// SPDX-License-Identifier: MIT
#include "specdec/more/device/addressed_chance.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/address_enumerator.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_more_device_addressed_chance {

using namespace specdec;
using namespace specdec::testing;
using support::AddressEnumerator;

static_assert(Chance<AddressedChance> && Chance<AddressEnumerator::Chance>);

namespace {

using Dense = DenseRow<double>;
using Outcomes = std::map<std::optional<Token>, double>;

template <class Race>
Outcomes law_of(int rounds, const Race& race) {
  Outcomes law;
  AddressEnumerator all(rounds);
  do {
    auto chance = all.chance();
    const std::optional<Token> winner = race(chance);
    law[winner] += all.probability();
  } while (all.next());
  return law;
}

Outcomes closed_form(double w, const Dense& p, const Dense& q) {
  Outcomes law;
  double all = 0;
  for (Token x = 0; x < p.vocab_size(); ++x)
    all += law[x] = std::max(0.0, w * p.probability(x) - q.probability(x));
  all += law[std::nullopt] = std::max(0.0, 1 - w);
  for (auto& [outcome, probability] : law) probability /= all;
  return law;
}

double difference(Outcomes a, Outcomes b) {
  double worst = 0;
  for (const auto& [outcome, probability] : a) worst = std::max(worst, std::abs(probability - b[outcome]));
  for (const auto& [outcome, probability] : b) worst = std::max(worst, std::abs(probability - a[outcome]));
  return worst;
}

// Of 50 pairs of rows for each size, and weights below, at and above 1.
void for_random_rows(const std::function<void(double, const Dense&, const Dense&)>& f) {
  std::mt19937_64 rng{11};
  const std::vector<Token> context{0};
  for (int i = 0; i < 50; ++i)
    for (const Index size : {2, 3, 4}) {
      const auto p = TableModel<>::random(size, 1, rng), q = TableModel<>::random(size, 1, rng);
      for (const double w : {0x1p-30, 0.25, 0.75, 1 - 0x1p-50, 1.0, 1.5, 40.0})
        f(w, p.distribution(context), q.distribution(context));
    }
}

}  // namespace

TEST_CASE(
    "over all numbers, a race by address has the closed form's law, after however many rounds it is "
    "settled") {
  for_random_rows([](double w, const Dense& p, const Dense& q) {
    for (const int rounds : {0, 1, 2})
      CHECK(difference(law_of(rounds, [&](auto& chance) { return chance.race(w, p, q); }),
                       closed_form(w, p, q)) < 1e-13);
  });
}

TEST_CASE("over all numbers, a race by address against no draft row is won with probability w") {
  Eigen::RowVector3d row(0.5, 0.0, 0.5);
  const Dense p = distributions(row).row(0);
  for (const double w : {-1.0, 0.0, 0.25, 1.0, 3.0}) {
    const double won = std::clamp(w, 0.0, 1.0);
    CHECK(difference(law_of(2, [&](auto& chance) { return chance.race(w, p); }),
                     {{0, won / 2}, {2, won / 2}, {std::nullopt, 1 - won}}) < 1e-15);
  }
}

TEST_CASE("a race by address that has no residual left draws from p, or is lost") {
  Eigen::RowVector3d row(0.25, 0.25, 0.5);
  const Dense p = distributions(row).row(0);
  CHECK(difference(law_of(2, [&](auto& chance) { return chance.race(1.0, p, p); }),
                   {{0, 0.25}, {1, 0.25}, {2, 0.5}}) < 1e-15);
  CHECK(difference(law_of(2, [&](auto& chance) { return chance.race(0.5, p, p); }), {{std::nullopt, 1.0}}) <
        1e-15);
}

TEST_CASE("the numbers of a seed give a race its law") {
  // Some 500 cells, 5.5 standard errors each: the false-alarm rate is below 1e-4.
  const int samples = 20000;
  std::uint64_t step = 0;
  std::mt19937_64 rng{13};
  const std::vector<Token> context{0};
  for (int i = 0; i < 10; ++i) {
    const auto target = TableModel<>::random(4, 1, rng), draft = TableModel<>::random(4, 1, rng);
    const Dense p = target.distribution(context), q = draft.distribution(context);
    for (const double w : {0.25, 0.75, 1.0, 2.0}) {
      Outcomes seen;
      AddressedChance running{17, 1u << 31};  // one object goes on, as in a loop
      for (int n = 0; n < samples; ++n) {
        AddressedChance fresh{5, step++};
        seen[n % 2 ? fresh.race(w, p, q) : running.race(w, p, q)] += 1;
      }
      for (const auto& [outcome, probability] : closed_form(w, p, q)) {
        const double error = std::sqrt(samples * probability * (1 - probability));
        CHECK(std::abs(seen[outcome] - samples * probability) <= 5.5 * error + 1e-2);
      }
    }
  }
}

TEST_CASE("a question costs its number, whatever is certain and however long a race takes") {
  Eigen::RowVector2d p(0.5, 0.5), q(0.5 + 0x1p-40, 0.5 - 0x1p-40);
  const Dense even = distributions(p).row(0), nearly = distributions(q).row(0);
  const auto last = [&](const std::function<void(AddressedChance&)>& first) {
    AddressedChance chance{3, 4};
    first(chance);
    CHECK(chance.question() == 1);
    const bool below_itself = chance.coin(numbers_at(3, {4, 1, 0}).coin);
    return std::pair(below_itself, chance.draw(even));
  };
  const auto expected = std::pair(false, static_cast<Token>(numbers_at(3, {4, 2, 0}).draw >= 0.5));
  CHECK(last([](auto& chance) { CHECK(chance.coin(1.0)); }) == expected);
  CHECK(last([](auto& chance) { CHECK(!chance.coin(0.0)); }) == expected);
  CHECK(last([](auto& chance) { (void)chance.coin(0.5); }) == expected);
  CHECK(last([&](auto& chance) { (void)chance.draw(even); }) == expected);
  CHECK(last([&](auto& chance) { CHECK(!chance.race(0.0, even, nearly)); }) == expected);
  CHECK(last([&](auto& chance) { CHECK(!chance.race(0.0, even)); }) == expected);
  CHECK(last([&](auto& chance) { CHECK(chance.race(1.0, even)); }) == expected);
  CHECK(last([&](auto& chance) { CHECK(chance.race(1.0, even, nearly) == Token{1}); }) ==
        expected);  // settled
}

TEST_CASE("a coin of probability NaN is an error, and errors of rows name the row") {
  AddressedChance chance{1};
  CHECK_THROWS_AS(chance.coin(std::numeric_limits<double>::quiet_NaN()), InvalidDistribution);
  const support::RowMajor<double> target = support::RowMajor<double>::Zero(2, 3), draft = target.topRows(1);
  const auto row = distributions(target).row(0);
  const specdec::detail::NamedRow p(row, "target", 5);
  CHECK(support::message_of([&] { (void)chance.draw(p); }) ==
        "specdec: target row 5: the probabilities sum to 0");
}

namespace {

// The law of a verdict, over all numbers, against the law over all decisions.
template <class Judge>
double worst_verdict(const Judge& judge) {
  std::map<std::pair<std::vector<Index>, Token>, double> by_address, expected;
  AddressEnumerator all(1);
  do {
    auto chance = all.chance();
    const auto verdict = judge(chance);
    by_address[verdict] += all.probability();
  } while (all.next());
  enumerate([&](Enumerator& chance) {
    const auto verdict = judge(chance);
    expected[verdict] += chance.probability();
  });
  double worst = 0;
  for (const auto& [verdict, probability] : by_address)
    worst = std::max(worst, std::abs(probability - expected[verdict]));
  for (const auto& [verdict, probability] : expected)
    worst = std::max(worst, std::abs(probability - by_address[verdict]));
  return worst;
}

template <class Rule>
double worst_of_line(const Rule& rule) {
  std::mt19937_64 rng{23};
  double worst = 0;
  for (int i = 0; i < 5; ++i)
    for (const Index size : {2, 3}) {
      const auto target = TableModel<>::random(size, 2, rng), draft = TableModel<>::random(size, 2, rng);
      for (Token first = 0; first < size; ++first)
        for (Token second = 0; second < size; ++second) {
          const std::vector<Token> tokens{first, second}, context{0}, longer{0, first},
              longest{0, first, second};
          support::RowMajor<double> p(3, size), q(2, size);
          for (Token x = 0; x < size; ++x) {
            p.col(x) << target.distribution(context).probability(x),
                target.distribution(longer).probability(x), target.distribution(longest).probability(x);
            q.col(x) << draft.distribution(context).probability(x), draft.distribution(longer).probability(x);
          }
          q = 0.9 * q.array() + 0.1 / static_cast<double>(size);  // any token may have been drawn
          worst = std::max(worst, worst_verdict([&](auto& chance) {
                             Rule mine = rule;
                             const Verdict verdict = verify(mine, p, q, tokens, chance);
                             return std::pair(std::vector<Index>{verdict.accepted}, verdict.token);
                           }));
        }
    }
  return worst;
}

template <class Rule>
double worst_of_tree(const Rule& rule) {
  std::mt19937_64 rng{29};
  double worst = 0;
  const std::vector<Token> parents{-1, -1, 0};
  for (int i = 0; i < 3; ++i) {
    const auto numbers = TableModel<>::random(3, 3, rng);
    support::RowMajor<double> p(4, 3), q(3, 3);
    for (Token x = 0; x < 3; ++x) {
      for (Token row = 0; row < 3; ++row) {
        p(row, x) = numbers.distribution(std::vector<Token>{0, row, 0}).probability(x);
        q(row, x) = numbers.distribution(std::vector<Token>{1, row, 2}).probability(x);
      }
      p(3, x) = numbers.distribution(std::vector<Token>{2, 2, 2}).probability(x);
    }
    q = 0.9 * q.array() + 0.1 / 3;  // any token may have been drawn
    q.row(1) = q.row(0);            // independent siblings
    for (const std::vector<Token>& tokens : {std::vector<Token>{0, 1, 2}, {2, 2, 0}, {1, 0, 0}})
      worst = std::max(worst, worst_verdict([&](auto& chance) {
                         const TreeVerdict verdict = verify(rule, p, q, tokens, parents, chance);
                         return std::pair(verdict.path, verdict.token);
                       }));
  }
  return worst;
}

}  // namespace

TEST_CASE("over all numbers, each rule gives its verdicts the probabilities that it has over all decisions") {
  CHECK(worst_of_line(TokenVerifier{}) < 1e-13);
  CHECK(worst_of_line(BlockVerifier{}) < 1e-13);
  CHECK(worst_of_line(GreedyBlockVerifier{}) < 1e-13);
  CHECK(worst_of_line(SampleMatchVerifier{}) < 1e-13);
  CHECK(worst_of_line(LenientVerifier{0.75}) < 1e-13);
  CHECK(worst_of_tree(TraversalVerifier{}) < 1e-13);
  CHECK(worst_of_tree(RecursiveRejectionVerifier{}) < 1e-13);
}

TEST_CASE("over all numbers, the loop writes the target's law by chance by address, drafts and all") {
  std::mt19937_64 rng{31};
  const std::vector<Token> prompt{0};
  const Options options{.max_new_tokens = 3, .gamma = 2};
  for (int i = 0; i < 2; ++i) {
    auto target = TableModel<>::random(2, 2, rng);
    ModelDrafter drafter{TableModel<>::random(2, 2, rng)};
    SpecDec decoder{target, drafter, BlockVerifier{}};
    Law law;
    AddressEnumerator all(1);
    do {
      auto chance = all.chance();
      const Result result = decoder.generate(prompt, options, chance);
      law[{result.tokens.begin(), result.tokens.end()}] += all.probability();
    } while (all.next());
    CHECK(largest_difference(law, target_law(target, prompt, options)).size < 1e-12);
  }
}

TEST_CASE("a text by chance by address goes on from seed, step and question") {
  std::mt19937_64 rng{37};
  auto target = TableModel<>::random(20, 1, rng);
  ModelDrafter drafter{TableModel<>::random(20, 1, rng)};
  SpecDec decoder{target, drafter, BlockVerifier{}};
  const std::vector<Token> prompt{0};
  const Options options{.max_new_tokens = 60, .gamma = 4};
  AddressedChance whole{7, 2}, before{7, 2};
  auto first = decoder.start(prompt, options);
  const Result expected = first.generate(whole);
  auto second = decoder.start(prompt, options);
  while (!second.done()) {
    AddressedChance again{before.seed(), before.step(), before.question()};
    second.step(again);
    before = again;
  }
  CHECK(second.result().tokens == expected.tokens);
  CHECK(before == whole);
  AddressedChance other{8, 2};
  CHECK(decoder.generate(prompt, options, other).tokens != expected.tokens);
}

TEST_CASE("verdicts of many drafts by address are those of the drafts alone") {
  const support::RowMajor<double> target = support::RowMajor<double>::Constant(6, 4, 0.25);
  const support::RowMajor<double> draft = (support::RowMajor<double>(4, 4) << 0.7, 0.1, 0.1, 0.1, 0.1, 0.1,
                                           0.1, 0.7, 0.1, 0.1, 0.7, 0.1, 0.25, 0.25, 0.25, 0.25)
                                              .finished();
  const std::vector<Token> tokens{0, 3, 2, 1};
  const std::vector<Index> offsets{0, 2, 4};
  for (std::uint64_t step = 0; step < 50; ++step) {
    std::vector<AddressedChance> chances{AddressedChance{1, step}, AddressedChance{2, step}};
    std::vector<BatchVerdict> verdicts(2);
    verify_batch(BlockVerifier{}, target, draft, tokens, offsets, chances, std::span(verdicts), InOrder{});
    for (int i = 0; i < 2; ++i) {
      AddressedChance alone{static_cast<std::uint64_t>(i) + 1, step};
      const std::vector<Token> mine(tokens.begin() + 2 * i, tokens.begin() + 2 * i + 2);
      CHECK(verdicts[static_cast<std::size_t>(i)].verdict ==
            verify(BlockVerifier{}, target.middleRows(3 * i, 3), draft.middleRows(2 * i, 2), mine, alone));
    }
  }
}

}  // namespace test_more_device_addressed_chance

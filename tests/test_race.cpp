// The race against its closed form: won by y with probability (w·p(y) − q(y))+ / (S + 1 − w).
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "catch.hpp"
#include "support.hpp"

using namespace specdec;
using testing::Enumerator;
using testing::TableModel;

namespace {

using Outcomes = std::map<std::optional<Token>, double>;

template <class Race>
Outcomes law_of(Race&& race) {
  Outcomes law;
  testing::enumerate([&](Enumerator& chance) {
    const std::optional<Token> winner = race(chance);
    law[winner] += chance.probability();
  });
  return law;
}

Outcomes closed_form(double w, const DenseRow<double>& p, const DenseRow<double>& q) {
  double mass = 0;
  for (Token x = 0; x < p.vocab_size(); ++x) mass += std::max(0.0, w * p.probability(x) - q.probability(x));
  const double lost = std::max(0.0, 1 - w);
  Outcomes law;
  for (Token x = 0; x < p.vocab_size(); ++x)
    law[x] = mass + lost > 0 ? std::max(0.0, w * p.probability(x) - q.probability(x)) / (mass + lost)
                             : p.probability(x);
  law[std::nullopt] = mass + lost > 0 ? lost / (mass + lost) : 0.0;
  return law;
}

void check_equal(Outcomes a, Outcomes b) {
  for (const auto& [outcome, probability] : a) CHECK(std::abs(probability - b[outcome]) < 1e-13);
  for (const auto& [outcome, probability] : b) CHECK(std::abs(probability - a[outcome]) < 1e-13);
}

template <class F>
void for_random_rows(F&& f) {
  std::mt19937_64 rng{11};
  const std::vector<Token> context{0};
  for (int i = 0; i < 200; ++i)
    for (const Index size : {1, 2, 3, 4}) {
      const auto p = TableModel<>::random(size, 1, rng), q = TableModel<>::random(size, 1, rng);
      for (const double w : {0.0, 0x1p-30, 0.25, 0.75, 1 - 0x1p-50, 1.0, 1.5, 40.0})
        f(w, p.distribution(context), q.distribution(context));
    }
}

}  // namespace

TEST_CASE("the enumerated race has the closed form's law") {
  for_random_rows([](double w, const auto& p, const auto& q) {
    check_equal(law_of([&](Enumerator& chance) { return chance.race(w, p, q); }), closed_form(w, p, q));
  });
}

TEST_CASE("the looped race has the closed form's law, however soon it settles") {
  for_random_rows([](double w, const auto& p, const auto& q) {
    for (const int rounds : {0, 1, 3}) {
      const Outcomes looped = law_of([&](Enumerator& chance) { return run_race(chance, w, p, q, rounds); });
      check_equal(looped, closed_form(w, p, q));
    }
  });
}

TEST_CASE("the race against nothing is won with probability w by a draw from p") {
  Eigen::RowVector3d row(0.5, 0.0, 0.5);
  const auto p = distributions(row).row(0);
  for (const double w : {0.0, 0.25, 1.0, 3.0}) {
    const double won = std::min(w, 1.0);
    check_equal(law_of([&](Enumerator& chance) { return chance.race(w, p); }),
                {{0, won / 2}, {2, won / 2}, {std::nullopt, 1 - won}});
  }
}

TEST_CASE("RandomChance's race has the closed form's law") {
  // Ten cells at the most, 5 standard errors each, a few dozen laws: false alarm below 1e-3.
  std::mt19937_64 rng{13};
  const std::vector<Token> context{0};
  const int samples = 40000;
  for (int i = 0; i < 10; ++i) {
    const auto p = TableModel<float>::random(4, 1, rng), q = TableModel<float>::random(4, 1, rng);
    for (const double w : {0.5, 1.0, 2.0}) {
      Outcomes expected;
      {
        const auto dp = p.distribution(context);
        const auto dq = q.distribution(context);
        double all = std::max(0.0, 1 - w);
        for (Token x = 0; x < 4; ++x) all += residual(w, dp, 1.0, dq, x);
        if (all == 0) continue;
        for (Token x = 0; x < 4; ++x) expected[x] = residual(w, dp, 1.0, dq, x) / all;
        expected[std::nullopt] = std::max(0.0, 1 - w) / all;
      }
      Outcomes seen;
      RandomChance chance{rng};
      for (int n = 0; n < samples; ++n)
        seen[chance.race(w, p.distribution(context), q.distribution(context))] += 1;
      for (const auto& [outcome, probability] : expected) {
        const double error = std::sqrt(samples * probability * (1 - probability));
        CHECK(std::abs(seen[outcome] - samples * probability) <= 5 * error);
      }
    }
  }
}

TEST_CASE("a race that cannot be lost and has no residual left draws from p") {
  Eigen::RowVector3d row(0.25, 0.25, 0.5);
  const auto p = distributions(row).row(0);
  std::mt19937_64 rng{1};
  RandomChance chance{rng};
  for (int i = 0; i < 100; ++i) {
    const auto winner = chance.race(1.0, p, p);
    REQUIRE(winner.has_value());
    CHECK(p.probability(*winner) > 0);
  }
  check_equal(law_of([&](Enumerator& e) { return run_race(e, 1.0, p, p, 2); }),
              {{0, 0.25}, {1, 0.25}, {2, 0.5}});
}

TEST_CASE("a race settles: its cost is bounded where S + 1 - w is almost nothing") {
  // S = 2^-40: without the fallback some 10^12 rounds.
  Eigen::RowVector2d p(0.5, 0.5), q(0.5 + 0x1p-40, 0.5 - 0x1p-40);
  std::mt19937_64 rng{1};
  RandomChance chance{rng};
  for (int i = 0; i < 100; ++i)
    CHECK(chance.race(1.0, distributions(p).row(0), distributions(q).row(0)) == Token{1});
}

TEST_CASE("a weight too small to multiply loses, and divides nothing by nothing") {
  Eigen::RowVector2d p(0.25, 0.75), q(0.5, 0.5);
  const double w = std::numeric_limits<double>::denorm_min();
  testing::enumerate([&](Enumerator& chance) {
    CHECK_FALSE(run_race(chance, w, distributions(p).row(0), distributions(q).row(0), 2).has_value());
  });
}

// The race against its closed form: won by y with probability (w·p(y) − q(y))+ / (S + 1 − w).
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_chance_race {

using namespace specdec;
using testing::Enumerator;
using testing::TableModel;

namespace {

using Outcomes = std::map<std::optional<Token>, double>;
using Dense = DenseRow<double>;
using ByGenerator = RandomChance<std::mt19937_64>;

Outcomes law_of(const std::function<std::optional<Token>(Enumerator&)>& race) {
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

void check_equal(Outcomes a, Outcomes b, double tolerance = 1e-13) {
  for (const auto& [outcome, probability] : a) CHECK(std::abs(probability - b[outcome]) < tolerance);
  for (const auto& [outcome, probability] : b) CHECK(std::abs(probability - a[outcome]) < tolerance);
}

void check_sampled(Outcomes seen, const Outcomes& expected, int samples, double errors) {
  for (const auto& [outcome, probability] : expected) {
    const double error = std::sqrt(samples * probability * (1 - probability));
    CHECK(std::abs(seen[outcome] - samples * probability) <= errors * error + 1e-2);
  }
}

void for_random_rows(const std::function<void(double, const Dense&, const Dense&)>& f) {
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
  for_random_rows([](double w, const Dense& p, const Dense& q) {
    check_equal(law_of([&](Enumerator& chance) { return chance.race(w, p, q); }), closed_form(w, p, q));
  });
}

TEST_CASE("the race as a loop has the closed form's law, after however many rounds it is settled") {
  for_random_rows([](double w, const Dense& p, const Dense& q) {
    for (const int rounds : {0, 1, 3}) {
      const Outcomes looped = law_of([&](Enumerator& chance) { return run_race(chance, w, p, q, rounds); });
      check_equal(looped, closed_form(w, p, q));
    }
  });
}

TEST_CASE("a race against no draft row is won with probability w, by a draw from p") {
  Eigen::RowVector3d row(0.5, 0.0, 0.5);
  const auto p = distributions(row).row(0);
  for (const double w : {0.0, 0.25, 1.0, 3.0}) {
    const double won = std::min(w, 1.0);
    check_equal(law_of([&](Enumerator& chance) { return chance.race(w, p); }),
                {{0, won / 2}, {2, won / 2}, {std::nullopt, 1 - won}});
  }
}

TEST_CASE("RandomChance's race has the closed form's law") {
  // At most ten cells, 5 standard errors each, a few dozen laws: the false-alarm rate is below 1e-3.
  std::mt19937_64 rng{13};
  const std::vector<Token> context{0};
  const int samples = 40000;
  for (int i = 0; i < 10; ++i) {
    const auto target = TableModel<>::random(4, 1, rng), draft = TableModel<>::random(4, 1, rng);
    const Dense p = target.distribution(context), q = draft.distribution(context);
    for (const double w : {0.5, 1.0, 2.0}) {
      Outcomes seen;
      ByGenerator chance{rng};
      for (int n = 0; n < samples; ++n) seen[chance.race(w, p, q)] += 1;
      check_sampled(seen, closed_form(w, p, q), samples, 5);
    }
  }
}

TEST_CASE("a race that cannot be lost, but has no residual left, draws from p") {
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

TEST_CASE("every race is settled at bounded cost, even where S + 1 - w is almost 0") {
  // S = 2^-40: without the fallback the race would take some 10^12 rounds.
  Eigen::RowVector2d p(0.5, 0.5), q(0.5 + 0x1p-40, 0.5 - 0x1p-40);
  std::mt19937_64 rng{1};
  RandomChance chance{rng};
  for (int i = 0; i < 100; ++i)
    CHECK(chance.race(1.0, distributions(p).row(0), distributions(q).row(0)) == Token{1});
}

namespace {

// Counts its draws and its sums.
struct CountedRow {
  Dense row;
  int* draws;
  int* sums;
  Index vocab_size() const { return row.vocab_size(); }
  double probability(Token x) const { return row.probability(x); }
  double sum(Index start, Index count) const {
    ++*sums;
    return row.sum(start, count);
  }
  auto sampler() const {
    return [draw = row.sampler(), count = draws](double u) mutable {
      ++*count;
      return draw(u);
    };
  }
};

}  // namespace

TEST_CASE("a race that no round wins is settled by a pass over the row after a few dozen rounds") {
  const Eigen::RowVector2d p(0.5, 0.5), q(0.5 + 0x1p-40, 0.5 - 0x1p-40);
  int draws = 0, sums = 0;
  const CountedRow row{distributions(p).row(0), &draws, &sums};
  std::mt19937_64 rng{1};
  ByGenerator chance{rng};
  CHECK(chance.race(1.0, row, distributions(q).row(0)) == Token{1});
  CHECK(draws >= 8);  // a pass costs more than a few draws, so draws come first
  CHECK(draws <= 128);
  // Rows without segments are read by their probabilities. No round asks for a sum.
  CHECK(sums == 0);
}

TEST_CASE("a weight too small to multiply loses the race, and does not divide 0 by 0") {
  Eigen::RowVector2d p(0.25, 0.75), q(0.5, 0.5);
  const double w = std::numeric_limits<double>::denorm_min();
  testing::enumerate([&](Enumerator& chance) {
    CHECK_FALSE(run_race(chance, w, distributions(p).row(0), distributions(q).row(0), 2).has_value());
  });
}

namespace {

// The closed form for rows of any kind, from the probabilities that they mean.
double weight_of(double w, const Eigen::RowVectorXd& p, const Eigen::RowVectorXd& q, Index x) {
  return std::max(0.0, w * p[x] - (x < q.size() ? q[x] : 0.0));
}
double residual_of(double w, const Eigen::RowVectorXd& p, const Eigen::RowVectorXd& q) {
  double mass = 0;
  for (Index x = 0; x < p.size(); ++x) mass += weight_of(w, p, q, x);
  return mass;
}
Outcomes closed_form(double w, const Eigen::RowVectorXd& p, const Eigen::RowVectorXd& q) {
  const double lost = std::max(0.0, 1 - w), all = residual_of(w, p, q) + lost;
  Outcomes law;
  for (Index x = 0; x < p.size(); ++x) law[static_cast<Token>(x)] = weight_of(w, p, q, x) / all;
  law[std::nullopt] = lost / all;
  return law;
}

template <class Layout>
Eigen::RowVectorXd hold(Layout& layout, const support::RowMajor<double>& row) {
  const support::RowMajor<typename Layout::Scalar> numbers = row.cast<typename Layout::Scalar>();
  layout.hold(numbers);
  if constexpr (requires { &Layout::means; }) return Layout::means(numbers);
  else return numbers.template cast<double>();
}

// Enumerates or samples, as chosen at run time, so that a race is compiled once for both.
struct EitherChance {
  Enumerator* enumerator = nullptr;
  std::mt19937_64* generator = nullptr;

  bool coin(double h) {
    if (enumerator) return enumerator->coin(h);
    return ByGenerator(*generator).coin(h);
  }
  template <Distribution R>
  Token draw(const R& row) {
    auto sampler = row.sampler();
    return draw_again(sampler, row);
  }
  template <class S, Distribution R>
  Token draw_again(S& sampler, const R& row) {
    if (!enumerator) return sampler(uniform01(*generator));
    Eigen::RowVectorXd p(row.vocab_size());
    for (Token x = 0; x < row.vocab_size(); ++x) p[x] = row.probability(x);
    return enumerator->draw(Dense(p.data(), p.size()));
  }
};

// The races between rows of one kind and rows of another.
struct Races {
  std::string kinds;
  double tolerance;
  // Stores the two rows in their kinds, and returns the probabilities that they mean there.
  std::function<std::pair<Eigen::RowVectorXd, Eigen::RowVectorXd>(const support::RowMajor<double>&,
                                                                  const support::RowMajor<double>&)>
      hold;
  std::function<std::optional<Token>(EitherChance, double w, int rounds)> run;
};

template <class P, class Q>
Races races(const char* kinds, double tolerance) {
  struct Layouts {
    P p;
    Q q;
  };
  const auto layouts = std::make_shared<Layouts>();
  const auto run = [layouts](EitherChance chance, double w, int rounds) {
    const auto p = distributions(std::as_const(layouts->p).view());
    const auto q = distributions(std::as_const(layouts->q).view());
    return run_race(chance, w, p.row(0), q.row(0), rounds);
  };
  return {kinds, tolerance,
          [layouts](const support::RowMajor<double>& p, const support::RowMajor<double>& q) {
            return std::pair(hold(layouts->p, p), hold(layouts->q, q));
          },
          run};
}

// Races between rows of two kinds, enumerated and sampled. The vocabulary of q may be another one.
void check_races(const Races& kind) {
  INFO(kind.kinds);
  std::mt19937_64 rng{17};
  const std::vector<Token> context{0};
  const int samples = 4000;
  int compared = 0;
  for (int i = 0; i < 16; ++i) {
    const Index size = 2 + i % 3, q_size = i % 4 == 3 ? size + 1 : i % 4 == 2 ? size - 1 : size;
    const auto numbers = [&](Index vocab_size) -> support::RowMajor<double> {
      const auto table = support::coarse_model(vocab_size, 1, rng);
      return table.distribution(context).segment(0, vocab_size).matrix().transpose();
    };
    const auto p_numbers = numbers(size), q_numbers = numbers(q_size);
    const auto [p, q] = kind.hold(p_numbers, q_numbers);
    for (const double w : {0.25, 0.75, 1.0, 2.5}) {
      const Outcomes expected = closed_form(w, p, q);
      // Where the residual is 0 except for rounding, there is no law to compare with.
      if (residual_of(w, p, q) + std::max(0.0, 1 - w) < 1e-3) continue;
      ++compared;
      for (const int rounds : {0, 1, 3})
        check_equal(law_of([&](Enumerator& chance) { return kind.run({.enumerator = &chance}, w, rounds); }),
                    expected, kind.tolerance);
      for (const int rounds : {0, 1, 64}) {
        Outcomes seen;
        for (int n = 0; n < samples; ++n) seen[kind.run({.generator = &rng}, w, rounds)] += 1;
        check_sampled(seen, expected, samples, 5.5);
      }
    }
  }
  CHECK(compared > 50);
}

}  // namespace

// Sampled: a few cells in each of some 60 races, three times over, in 5 mixes. Of these some 4 000 cells, one in
// 3·10^7 is off by 5.5 standard errors. The seed is fixed.
TEST_CASE(
    "a race between rows of any two kinds has the closed form's law, after however many rounds it is "
    "settled",
    "[long]") {
  using namespace support;
  constexpr double exact = 1e-13;
  // A residual is summed in different ways, depending on which row lists tokens and which has segments.
  check_races(races<AsRowMajor<double>, AsStridedPointers<float>>("dense, dense", exact));
  check_races(races<AsSparse<double>, AsSparse<float, std::int64_t>>("sparse, sparse", exact));
  check_races(races<AsSparse<double>, AsRowMajor<double>>("sparse, dense", exact));
  check_races(races<AsRowMajor<double>, AsSparse<double>>("dense, sparse", exact));
  check_races(races<AsLogits<double, 70>, AsNormalisedLogits<double>>("logits, normalised logits", 1e-12));
}

TEST_CASE("a race against a one-hot row has the closed form's law, for every kind of row") {
  const auto check = []<class Layout>(Layout layout, double tolerance) {
    support::RowMajor<double> row(1, 4);
    row << 0.25, 0.0, 0.625, 0.125;
    const Eigen::RowVectorXd p = hold(layout, row);
    const auto rows = distributions(std::as_const(layout).view());
    for (const Token guess : {0, 1, 2, 3, 4, 9})
      for (const double w : {0.25, 1.0, 3.0})
        for (const int rounds : {0, 1, 3}) {
          Eigen::RowVectorXd q = Eigen::RowVectorXd::Zero(10);
          q[guess] = 1;
          check_equal(law_of([&](Enumerator& chance) {
                        return run_race(chance, w, rows.row(0), OneHotRow(guess), rounds);
                      }),
                      closed_form(w, p, q), tolerance);
        }
  };
  using namespace support;
  check(AsRowMajor<double>{}, 1e-13);
  check(AsLogits<double, 70>{}, 1e-12);
}

TEST_CASE("if a race is settled by a pass, the error names the row that holds NaN") {
  // p = q except for the NaN, so no round of the race is won. The rounds' draws never read the NaN.
  const double NaN = std::numeric_limits<double>::quiet_NaN();
  support::RowMajor<double> target = support::RowMajor<double>::Zero(2, 3000), draft(1, 3000);
  target.col(0).setConstant(1);
  draft = target.topRows(1);
  const std::vector<Token> tokens{0};
  const auto complaint = [&](const auto& p, const auto& q) {
    std::mt19937_64 rng{1};
    const Drafted drafted(p, q, tokens);
    RandomChance chance{rng};
    return support::message_of([&] { drafted.race(chance, 1.0, 0); });
  };
  CHECK(complaint(target, draft).empty());
  draft(0, 2999) = NaN;
  CHECK(complaint(target, draft) == "specdec: target row 0: the residual of target and draft sums to nan");
  draft(0, 2999) = 0;
  target(0, 2999) = NaN;
  CHECK(complaint(target, draft) == "specdec: target row 0: the residual of target and draft sums to nan");
}

}  // namespace test_chance_race

// The race against its closed form: won by y with probability (w·p(y) − q(y))+ / (S + 1 − w).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

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

namespace {

// The closed form for rows of any kind, from what their numbers mean.
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
Eigen::RowVectorXd meaning(const support::RowMajor<typename Layout::Scalar>& row) {
  if constexpr (requires { &Layout::means; }) return Layout::means(row);
  else return row.template cast<double>();
}

// Races between one kind of row and another, exactly and as they are run; q's vocabulary may be another one.
template <class P, class Q>
void check_kinds(double tolerance) {
  std::mt19937_64 rng{17};
  const std::vector<Token> context{0};
  const int samples = 4000;
  int races = 0;
  for (int i = 0; i < 16; ++i) {
    const Index size = 2 + i % 3, q_size = i % 4 == 3 ? size + 1 : i % 4 == 2 ? size - 1 : size;
    const auto row = [&]<class Layout>(Layout& layout, Index vocab_size) {
      using Scalar = typename Layout::Scalar;
      const auto table = support::coarse_model<Scalar>(vocab_size, 1, rng);
      const support::RowMajor<Scalar> numbers =
          table.distribution(context).block(0, vocab_size).matrix().transpose();
      layout.hold(numbers);
      return meaning<Layout>(numbers);
    };
    P p_layout;
    Q q_layout;
    const Eigen::RowVectorXd p_means = row(p_layout, size), q_means = row(q_layout, q_size);
    const auto p_rows = distributions(std::as_const(p_layout).view());
    const auto q_rows = distributions(std::as_const(q_layout).view());
    const auto p = p_rows.row(0);
    const auto q = q_rows.row(0);
    for (const double w : {0.25, 0.75, 1.0, 2.5}) {
      const Outcomes expected = closed_form(w, p_means, q_means);
      // Where the residual is nothing, or but rounding, there is no law to compare with.
      if (residual_of(w, p_means, q_means) + std::max(0.0, 1 - w) < 1e-3) continue;
      ++races;
      for (const int rounds : {0, 1, 3}) {
        Outcomes law = law_of([&](Enumerator& chance) { return run_race(chance, w, p, q, rounds); });
        for (const auto& [outcome, probability] : expected)
          CHECK(std::abs(law[outcome] - probability) < tolerance);
      }
      RandomChance chance{rng};
      for (const int rounds : {0, 1, 64}) {
        Outcomes seen;
        for (int n = 0; n < samples; ++n) seen[run_race(chance, w, p, q, rounds)] += 1;
        for (const auto& [outcome, probability] : expected) {
          const double error = std::sqrt(samples * probability * (1 - probability));
          CHECK(std::abs(seen[outcome] - samples * probability) <= 5.5 * error + 1e-2);
        }
      }
    }
  }
  CHECK(races > 50);
}

}  // namespace

// Sampled: a few cells each in some 200 races, three times over, in 17 mixes: some 50 000 cells, of which one in
// 3·10^7 is off by 5.5 standard errors. The seed is fixed.
TEST_CASE("a race between rows of any two kinds has the closed form's law, however soon it settles") {
  using namespace support;
  using Half = Eigen::half;
  using BFloat = Eigen::bfloat16;
  constexpr double exact = 1e-13, in_float = 2e-6;  // of float exponentials, over a residual as small as 1/64
  check_kinds<AsRowMajor<double>, AsColMajor<float>>(exact);
  check_kinds<AsPointers<float>, AsStridedPointers<double>>(exact);
  check_kinds<AsNarrow<Half>, AsNarrow<BFloat>>(exact);
  check_kinds<AsSparse<double>, AsSparse<float, std::int64_t>>(exact);
  check_kinds<AsSparse<BFloat>, AsRowMajor<double>>(exact);
  check_kinds<AsRowMajor<float>, AsSparse<double>>(exact);
  check_kinds<AsStridedPointers<float>, AsSparse<Half>>(exact);
  check_kinds<AsLogits<double>, AsLogits<double, 70>>(1e-12);
  check_kinds<AsNormalisedLogits<double>, AsSparse<double>>(1e-12);
  check_kinds<AsSparse<double>, AsNormalisedLogits<double>>(1e-12);
  check_kinds<AsLogits<double, 130>, AsStridedMap<double>>(1e-12);
  check_kinds<AsNarrow<BFloat>, AsLogits<double>>(1e-12);
  check_kinds<AsLogits<float>, AsLogits<float, 70>>(in_float);
  check_kinds<AsLogits<float>, AsSparse<float>>(in_float);
  check_kinds<AsSparse<double>, AsLogits<float>>(in_float);
  check_kinds<AsNormalisedLogits<float>, AsRowMajor<float>>(in_float);
  check_kinds<AsLogits<Half>, AsLogits<BFloat, 70>>(in_float);
}

TEST_CASE("a race against a one-hot row has the closed form's law, for every kind of row") {
  const auto check = []<class Layout>(Layout layout, double tolerance) {
    support::RowMajor<typename Layout::Scalar> row(1, 4);
    row << 0.25f, 0.0f, 0.625f, 0.125f;
    layout.hold(row);
    const Eigen::RowVectorXd p = meaning<Layout>(row);
    const auto rows = distributions(std::as_const(layout).view());
    for (const Token guess : {0, 1, 2, 3, 4, 9})
      for (const double w : {0.25, 1.0, 3.0})
        for (const int rounds : {0, 1, 3}) {
          Eigen::RowVectorXd q = Eigen::RowVectorXd::Zero(10);
          q[guess] = 1;
          Outcomes law = law_of(
              [&](Enumerator& chance) { return run_race(chance, w, rows.row(0), OneHotRow(guess), rounds); });
          for (const auto& [outcome, probability] : closed_form(w, p, q))
            CHECK(std::abs(law[outcome] - probability) < tolerance);
        }
  };
  using namespace support;
  check(AsRowMajor<double>{}, 1e-13);
  check(AsStridedPointers<float>{}, 1e-13);
  check(AsNarrow<Eigen::bfloat16>{}, 1e-13);
  check(AsSparse<double, std::int64_t>{}, 1e-13);
  check(AsLogits<double, 70>{}, 1e-12);
  check(AsNormalisedLogits<float>{}, 1e-6);
}

TEST_CASE("a race that is settled names the row that holds NaN") {
  // p = q but for the NaN, so that no round of the race is won; it lies where no draw of the rounds looks.
  const double NaN = std::numeric_limits<double>::quiet_NaN();
  support::RowMajor<double> target = support::RowMajor<double>::Zero(2, 3000), draft(1, 3000);
  target.col(0).setConstant(1);
  draft = target.topRows(1);
  const std::vector<Token> tokens{0};
  const auto complaint = [&](const auto& p, const auto& q) {
    std::mt19937_64 rng{1};
    const auto block = detail::drafted_block(p, q, tokens);
    RandomChance chance{rng};
    return support::message_of([&] { detail::race_at(chance, 1.0, block, 0); });
  };
  CHECK(complaint(target, draft).empty());
  draft(0, 2999) = NaN;
  CHECK(complaint(target, draft) == "specdec: target row 0: the residual of target and draft sums to nan");
  draft(0, 2999) = 0;
  target(0, 2999) = NaN;
  CHECK(complaint(target, draft) == "specdec: target row 0: the residual of target and draft sums to nan");
  // Logits know before the first round, sparse rows when they are summed.
  target(0, 2999) = 0;
  support::RowMajor<double> logits = target.array().log().matrix();
  logits(0, 2999) = NaN;
  CHECK(complaint(Logits{logits}, draft) == "specdec: target row 0: the largest logit is nan");
  const auto first_logits = logits.topRows(1);
  CHECK(complaint(target, Logits{first_logits}) == "specdec: draft row 0: the largest logit is nan");
  std::vector<Token> ids{0, 2999};
  std::vector<double> good{1, 0}, bad{1, NaN};
  const SparseRow<double> whole[] = {{ids, good, 3000}, {ids, good, 3000}};
  const SparseRow<double> broken[] = {{ids, bad, 3000}, {ids, good, 3000}};
  const auto of = [](std::span<const SparseRow<double>> rows) {
    return RowSpan<SparseRow<double>>(rows, 3000);
  };
  CHECK(complaint(of(whole), of(std::span(whole).first(1))).empty());
  CHECK(complaint(of(broken), of(std::span(whole).first(1))).starts_with("specdec: target row 0: "));
  CHECK(complaint(of(whole), of(std::span(broken).first(1))) ==
        "specdec: draft row 0: the probability of token 2999 is nan");
  CHECK(complaint(target, of(std::span(broken).first(1))) ==
        "specdec: draft row 0: the probability of token 2999 is nan");
}

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_residual {

using namespace specdec;
using support::RowMajor;

namespace {

template <class Scalar>
Eigen::Matrix<Scalar, 1, Eigen::Dynamic> random_row(Index size, std::mt19937_64& rng) {
  Eigen::Matrix<Scalar, 1, Eigen::Dynamic> row = Eigen::Matrix<Scalar, 1, Eigen::Dynamic>::Zero(size);
  for (Scalar& p : row) p = static_cast<Scalar>(uniform01(rng) < 0.3 ? 0.0 : uniform01(rng));
  row[size / 2] += Scalar{1};
  return row / row.sum();
}

}  // namespace

TEST_CASE("residual_mass agrees with a long double sum") {
  std::mt19937_64 rng{5};
  for (const Index size : {1, 3, 64, 1001, 70000}) {
    const auto p = random_row<float>(size, rng), q = random_row<float>(size, rng);
    const auto rows_p = distributions(p), rows_q = distributions(q);
    for (const double a : {1.0, 0.3, 2.5}) {
      long double expected = 0;
      for (Index x = 0; x < size; ++x)
        expected +=
            std::max<long double>(0, static_cast<long double>(a) * p[x] - static_cast<long double>(q[x]));
      const double mass = residual_mass(a, rows_p.row(0), 1.0, rows_q.row(0), 0, size);
      CHECK(mass == Approx(static_cast<double>(expected)).epsilon(1e-12).margin(1e-14));
    }
  }
}

TEST_CASE("a one-hot draft gives the residual of an equal dense draft, row by row") {
  Eigen::RowVector4d p(0.1, 0.2, 0.3, 0.4);
  const auto row = distributions(p).row(0);
  const OneHotRow q(3);
  CHECK(residual_mass(1.0, row, 1.0, q, 0, 4) == Approx(0.6));
  CHECK(residual_mass(0.5, row, 1.0, q, 0, 4) == Approx(0.3));
  CHECK(residual_mass(3.0, row, 1.0, q, 0, 4) == Approx(1.8 + 0.2));
  CHECK(residual(3.0, row, 1.0, q, 3) == Approx(0.2));
  CHECK(residual(1.0, row, 1.0, q, 3) == 0.0);
}

TEST_CASE("a residual of many segments is drawn from by its own sums") {
  std::mt19937_64 rng{9};
  Eigen::RowVectorXd p(1500), q(1500);
  for (double& x : p) x = uniform01(rng);
  for (double& x : q) x = uniform01(rng);
  p /= p.sum();
  q /= q.sum();
  const auto rows_p = distributions(p).row(0), rows_q = distributions(q).row(0);
  const double mass = residual_mass(1.0, rows_p, 0.7, rows_q);
  const ResidualRow t(1.0, rows_p, 0.7, rows_q, mass);
  CHECK(t.sum(0, 1500) == Approx(1));
  auto sampler = t.sampler();
  for (int i = 0; i < 300; ++i) {
    const double u = uniform01(rng);
    double below = 0;  // u falls on the step of the token that is drawn
    const Token y = sampler(u);
    for (Token x = 0; x < y; ++x) below += t.probability(x);
    CHECK(u >= below - 1e-12);
    CHECK(u <= below + t.probability(y) + 1e-12);
  }
}

TEST_CASE("ResidualRow is the normalised residual, and draws from it") {
  Eigen::RowVector4d p(0.1, 0.2, 0.3, 0.4), q(0.4, 0.1, 0.3, 0.2);
  const ResidualRow rest(1.0, distributions(p).row(0), 1.0, distributions(q).row(0));
  CHECK(rest.mass() == Approx(0.3));
  CHECK(rest.probability(0) == 0.0);
  CHECK(rest.probability(1) == Approx(1.0 / 3));
  CHECK(rest.probability(2) == 0.0);
  CHECK(rest.probability(3) == Approx(2.0 / 3));
  auto sampler = rest.sampler();
  CHECK(sampler(0.0) == 1);
  CHECK(sampler(0.33) == 1);
  CHECK(sampler(0.34) == 3);
  CHECK(sampler(1 - 0x1p-53) == 3);
}

TEST_CASE("a residual with NaN is NaN or an error") {
  Eigen::RowVector3d p(0.5, std::numeric_limits<double>::quiet_NaN(), 0.5), q(0.2, 0.3, 0.5);
  const auto bad = distributions(p).row(0), good = distributions(q).row(0);
  CHECK(std::isnan(residual_mass(1.0, bad, 1.0, good, 0, 3)));
  CHECK(std::isnan(residual_mass(1.0, good, 1.0, bad, 0, 3)));
  CHECK(residual_mass(1.0, bad, 1.0, good, 2, 1) == 0.0);
  CHECK_THROWS_AS(ResidualRow(1.0, bad, 1.0, good), InvalidDistribution);
  CHECK(support::message_of([&] { residual(1.0, bad, 1.0, good, 1); }) ==
        "at token 1 target = nan and draft = 0.3");
}

namespace {

struct Part {
  Index start, count;
};

// The answers of a residual: its mass and that of some parts; as a row its mass, the shares of the parts, and the
// probabilities of a few tokens that it draws.
struct Residual {
  double mass, row_mass;
  std::vector<double> parts, shares, drawn;
};

// Two rows of some kinds, asked for their residuals.
struct Pair {
  std::string kinds;
  double tolerance;
  std::function<void(const RowMajor<double>& p, const RowMajor<double>& q)> hold;
  std::function<std::pair<std::vector<double>, std::vector<double>>()> probabilities;
  std::function<Residual(double a, double b, const std::vector<Part>&, std::mt19937_64&)> residual;
};

template <class P, class Q>
Pair pair_of(const char* kinds, double tolerance) {
  struct Layouts {
    P p;
    Q q;
  };
  const auto held = std::make_shared<Layouts>();
  const auto p_row = [held] { return distributions(std::as_const(held->p).view()).row(0); };
  const auto q_row = [held] { return distributions(std::as_const(held->q).view()).row(0); };
  return {kinds, tolerance,
          [held](const RowMajor<double>& p, const RowMajor<double>& q) {
            held->p.hold(p.cast<typename P::Scalar>());
            held->q.hold(q.cast<typename Q::Scalar>());
          },
          [=] {
            std::vector<double> p, q;
            const auto p_numbers = p_row();
            const auto q_numbers = q_row();
            for (Token x = 0; x < p_numbers.vocab_size(); ++x) p.push_back(p_numbers.probability(x));
            for (Token x = 0; x < q_numbers.vocab_size(); ++x) q.push_back(q_numbers.probability(x));
            q.resize(std::max(p.size(), q.size()));
            return std::pair(p, q);
          },
          [=](double a, double b, const std::vector<Part>& parts, std::mt19937_64& rng) {
            const auto p = p_row();
            const auto q = q_row();
            const ResidualRow rest(a, p, b, q);
            Residual out{residual_mass(a, p, b, q), rest.mass(), {}, {}, {}};
            for (const auto& [start, count] : parts) {
              out.parts.push_back(residual_mass(a, p, b, q, start, count));
              out.shares.push_back(rest.sum(start, count));
            }
            if (out.mass < 1e-3) return out;
            auto sampler = rest.sampler();
            for (int n = 0; n < 20; ++n) out.drawn.push_back(rest.probability(sampler(uniform01(rng))));
            return out;
          }};
}

RowMajor<double> coarse_row(Index size, std::mt19937_64& rng) {
  RowMajor<double> row = RowMajor<double>::Zero(1, size);
  for (Index x = 0; x < size; ++x)
    if (uniform01(rng) < 0.6) row(0, x) = std::ceil(uniform01(rng) * 15);
  row(0, size / 2) = 15;
  // Multiples of a power of two with a sum of at most 1, so they are exact in every scalar and every order.
  return row * std::exp2(-std::ceil(std::log2(row.sum())));
}

// How a residual is summed depends on the kinds of the two rows. The definition does not.
void check_masses(const Pair& pair) {
  INFO(pair.kinds);
  std::mt19937_64 rng{29};
  for (const Index size : {1, 2, 5, 300, 1024, 2600})
    for (const Index q_size :
         {size, size + 700, std::max<Index>(1, size / 2), std::max<Index>(1, size - 1)}) {
      const RowMajor<double> p_numbers = coarse_row(size, rng), q_numbers = coarse_row(q_size, rng);
      pair.hold(p_numbers, q_numbers);
      const auto [p_row, q_row] = pair.probabilities();
      const auto &p = p_row, &q = q_row;  // a structured binding cannot be captured by every compiler
      for (const double a : {1.0, 0.3, 2.5})
        for (const double b : {1.0, 0.25}) {
          CAPTURE(size, q_size, a, b);
          const auto by_definition = [&](Index start, Index count) {
            long double sum = 0;
            for (auto x = static_cast<std::size_t>(start); x < static_cast<std::size_t>(start + count); ++x)
              sum += std::max<long double>(
                  0, static_cast<long double>(a) * p[x] - static_cast<long double>(b) * q[x]);
            return static_cast<double>(sum);
          };
          const std::vector<Part> parts{
              {0, size / 2}, {size / 3, size - size / 3}, {size / 2, 1}, {size / 2, 0}, {size, 0}};
          const Residual found = pair.residual(a, b, parts, rng);
          REQUIRE(std::abs(found.mass - by_definition(0, size)) < pair.tolerance);
          REQUIRE(found.row_mass == found.mass);
          for (std::size_t i = 0; i < parts.size(); ++i) {
            const double part = by_definition(parts[i].start, parts[i].count);
            REQUIRE(std::abs(found.parts[i] - part) < pair.tolerance);
            if (found.mass > 1e-3)
              REQUIRE(std::abs(found.shares[i] - part / found.mass) < pair.tolerance / 1e-3);
          }
          for (const double p_drawn : found.drawn) REQUIRE(p_drawn > 0);
        }
    }
}

}  // namespace

TEST_CASE("a residual between rows of any two kinds is summed correctly, whole and in parts") {
  using namespace support;
  constexpr double exact = 1e-13, in_float = 1e-6;
  check_masses(pair_of<AsNarrow<Eigen::bfloat16>, AsColMajor<double>>("bfloat16, dense", exact));
  check_masses(pair_of<AsSparse<double>, AsSparse<double>>("sparse, sparse", exact));
  check_masses(pair_of<AsSparse<double>, AsRowMajor<float>>("sparse, dense", exact));
  check_masses(pair_of<AsRowMajor<float>, AsSparse<double>>("dense, sparse", exact));
  check_masses(
      pair_of<AsLogits<float, 70>, AsNormalisedLogits<float>>("logits, normalised logits", in_float));
}

namespace {

// The vocabulary of a large model: probabilities from logits l(x) by a long double softmax.
constexpr Index large = 256000;
// Where p and q nearly cancel, the rest has the absolute resolution of the float rows.
constexpr double resolution = 0x1p-24;

Eigen::VectorXd logits_of(bool peaked, std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  Eigen::VectorXd l(large);
  for (double& x : l) x = (peaked ? 12.0 : 0.1) * uniform01(rng);
  for (Index x = 0; peaked && x < 20; ++x) l[static_cast<Index>(uniform01(rng) * large)] += 12;
  return l.cast<float>().cast<double>();
}

std::vector<long double> softmax(const Eigen::VectorXd& l) {
  const long double top = l.maxCoeff();
  std::vector<long double> p;
  long double sum = 0;
  for (const double x : l) sum += p.emplace_back(std::exp(static_cast<long double>(x) - top));
  for (long double& x : p) x /= sum;
  return p;
}

constexpr double factors[] = {1.0, 0.7, 3.0};

// The sums that rows of some kinds give.
struct Sums {
  double all, most, without_one, residuals[3];
};

template <class P, class Q>
Sums sums_of(const P& target, const Q& draft) {
  const auto p = distributions(target).row(0);
  const auto q = distributions(draft).row(0);
  Sums out{static_cast<double>(p.sum(0, large)),
           static_cast<double>(p.sum(1000, 200000)),
           residual_mass(1.0, p, 1.0, OneHotRow(large / 3)),
           {}};
  for (std::size_t i = 0; i < 3; ++i) out.residuals[i] = residual_mass(factors[i], p, 1.0, q);
  return out;
}

struct LargePair {
  std::vector<long double> p, q;

  void check(const std::string& kinds, const Sums& sums) const {
    INFO(kinds);
    CHECK(std::abs(sums.all - 1) < 1e-6);
    CHECK(sums.most == Approx(static_cast<double>(sum(1000, 200000))).epsilon(1e-6));
    // A list of one token leaves two long stretches of p to sum.
    const double listed = static_cast<double>(p[large / 3]);
    CHECK(sums.without_one == Approx(1 - listed).epsilon(1e-6));
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(sums.residuals[i] ==
            Approx(static_cast<double>(residual(factors[i]))).epsilon(1e-6).margin(factors[i] * resolution));
  }

 private:
  long double sum(Index start, Index count) const {
    long double sum = 0;
    for (Index x = start; x < start + count; ++x) sum += p[static_cast<std::size_t>(x)];
    return sum;
  }
  long double residual(double a) const {
    long double sum = 0;
    for (std::size_t x = 0; x < p.size(); ++x) sum += std::max(0.0L, a * p[x] - q[x]);
    return sum;
  }
};

template <class Scalar>
support::RowMajor<Scalar> matrix_of(const std::vector<long double>& row) {
  support::RowMajor<Scalar> m(1, large);
  for (Index x = 0; x < large; ++x) m(0, x) = static_cast<Scalar>(row[static_cast<std::size_t>(x)]);
  return m;
}

}  // namespace

TEST_CASE("masses over 256 000 tokens are right to a millionth, for every kind of row") {
  for (const bool p_peaked : {false, true})
    for (const bool q_peaked : {false, true}) {
      if (support::sanitized && p_peaked == q_peaked) continue;
      const Eigen::VectorXd p_logits = logits_of(p_peaked, 1), q_logits = logits_of(q_peaked, 2);
      const LargePair pair{softmax(p_logits), softmax(q_logits)};
      const auto p_double = matrix_of<double>(pair.p), q_double = matrix_of<double>(pair.q);
      const auto p_float = matrix_of<float>(pair.p), q_float = matrix_of<float>(pair.q);
      const support::RowMajor<float> p_l = p_logits.transpose().cast<float>(),
                                     q_l = q_logits.transpose().cast<float>();
      pair.check("floats", sums_of(p_float, q_float));
      pair.check("logits of float", sums_of(Logits{p_l}, Logits{q_l}));
      const std::vector<double> p_normaliser{Logits{p_l}.row(0).log_sum_exp().value},
          q_normaliser{Logits{q_l}.row(0).log_sum_exp().value};
      pair.check("normalised logits", sums_of(Logits{p_l, {.log_sum_exp = p_normaliser}},
                                              Logits{q_l, {.log_sum_exp = q_normaliser}}));
      std::vector<Token> ids;
      for (Token x = 0; x < large; ++x) ids.push_back(x);
      using Row = SparseRow<double>;
      const Row p_list[] = {{ids, std::span<const double>(p_double.data(), large), large}};
      const Row q_list[] = {{ids, std::span<const double>(q_double.data(), large), large}};
      const RowSpan<Row> p_sparse(p_list, large), q_sparse(q_list, large);
      pair.check("lists", sums_of(p_sparse, q_sparse));
      pair.check("logits of float, a list", sums_of(Logits{p_l}, q_sparse));
    }
}

TEST_CASE("a sparse row is subtracted at its own tokens, and nowhere else") {
  // Stretches between the listed tokens are sums of p, including the first, the last and empty ones.
  const Eigen::RowVectorXd dense = Eigen::RowVectorXd::Constant(8, 0.125);
  const auto p = distributions(dense).row(0);
  const std::vector<double> q{0.5, 0.0625, 0.25, 0.1875};
  const auto mass = [&](std::vector<Token> ids, Index start, Index count) {
    return residual_mass(1.0, p, 1.0, SparseRow<double>(ids, q, 100), start, count);
  };
  CHECK(mass({0, 1, 6, 7}, 0, 8) == 4 * 0.125 + 0.0625);
  CHECK(mass({2, 3, 4, 5}, 0, 8) == 4 * 0.125 + 0.0625);
  CHECK(mass({2, 3, 4, 5}, 3, 2) == 0.0625);
  CHECK(mass({2, 3, 8, 99}, 0, 8) == 6 * 0.125 + 0.0625);
  CHECK(mass({8, 9, 10, 11}, 0, 8) == 1);
}

TEST_CASE("two sparse rows are subtracted at the tokens that both list") {
  const std::vector<Token> p_ids{1, 3, 5, 7}, q_ids{0, 3, 4, 7, 9};
  const std::vector<double> p{0.25, 0.25, 0.25, 0.25}, q{0.25, 0.125, 0.125, 0.375, 0.125};
  const SparseRow<double> a(p_ids, p, 8), b(q_ids, q, 10);
  CHECK(residual_mass(1.0, a, 1.0, b) == 0.25 + 0.125 + 0.25);
  CHECK(residual_mass(2.0, a, 1.0, b) == 0.5 + 0.375 + 0.5 + 0.125);
  CHECK(residual_mass(1.0, a, 2.0, b) == 0.25 + 0.25);
  CHECK(residual_mass(1.0, a, 1.0, b, 2, 4) == 0.125 + 0.25);
  CHECK(residual_mass(1.0, b, 1.0, a, 0, 10) == 0.25 + 0.125 + 0.125 + 0.125);
}

TEST_CASE("a row is not asked for the mass of an empty stretch") {
  // The stretch would begin after the row's end.
  struct Row {
    DenseRow<double> row;
    Index vocab_size() const { return row.vocab_size(); }
    double probability(Token x) const { return row.probability(x); }
    auto sampler() const { return row.sampler(); }
    auto segment(Index start, Index count) const { return row.segment(start, count); }
    double sum(Index start, Index count) const {
      if (count == 0) throw std::logic_error("asked for nothing");
      return row.sum(start, count);
    }
  };
  const Eigen::RowVector4d numbers(0.25, 0.25, 0.25, 0.25);
  const auto q = distributions(numbers).row(0);
  const Row p{q};
  CHECK(residual_mass(1.0, p, 1.0, q) == 0);
  CHECK(residual_mass(1.0, p, 1.0, OneHotRow(3)) == 0.75);
  CHECK(residual_mass(1.0, p, 1.0, OneHotRow(0)) == 0.75);
}

}  // namespace test_rows_residual

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

using namespace specdec;
using support::RowMajor;

namespace {

template <class Scalar>
Eigen::Matrix<Scalar, 1, Eigen::Dynamic> random_row(Index size, std::mt19937_64& rng) {
  Eigen::Matrix<Scalar, 1, Eigen::Dynamic> row(size);
  for (Scalar& p : row) p = static_cast<Scalar>(uniform01(rng) < 0.3 ? 0.0 : uniform01(rng));
  row[size / 2] += Scalar{1};
  return row / row.sum();
}

}  // namespace

TEMPLATE_TEST_CASE("residual_mass agrees with a long double sum", "", float, double) {
  std::mt19937_64 rng{5};
  for (const Index size : {1, 3, 64, 1001, 70000}) {
    const auto p = random_row<TestType>(size, rng), q = random_row<TestType>(size, rng);
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

TEST_CASE("a one-hot draft goes through the same residual, row by row") {
  Eigen::RowVector4d p(0.1, 0.2, 0.3, 0.4);
  const auto row = distributions(p).row(0);
  const OneHotRow q(3);
  CHECK(residual_mass(1.0, row, 1.0, q, 0, 4) == Approx(0.6));
  CHECK(residual_mass(0.5, row, 1.0, q, 0, 4) == Approx(0.3));
  CHECK(residual_mass(3.0, row, 1.0, q, 0, 4) == Approx(1.8 + 0.2));
  CHECK(residual(3.0, row, 1.0, q, 3) == Approx(0.2));
  CHECK(residual(1.0, row, 1.0, q, 3) == 0.0);
}

TEST_CASE("ResidualRow is the normalised residual, and draws by it") {
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

TEST_CASE("residuals keep NaN in sight") {
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

// How residuals are summed depends on the kinds of the two rows; the definition does not.
template <class P, class Q>
void check_masses(double tolerance) {
  std::mt19937_64 rng{29};
  for (const Index size : {1, 2, 5, 300, 1024, 2600})
    for (const Index q_size :
         {size, size + 700, std::max<Index>(1, size / 2), std::max<Index>(1, size - 1)}) {
      const auto row = [&](auto& layout, Index n) {
        support::RowMajor<double> numbers = support::RowMajor<double>::Zero(1, n);
        for (Index x = 0; x < n; ++x)
          if (uniform01(rng) < 0.6) numbers(0, x) = std::ceil(uniform01(rng) * 15);
        numbers(0, n / 2) = 15;
        // Multiples of a power of two that come to no more than 1: exact in every scalar and every order.
        numbers *= std::exp2(-std::ceil(std::log2(numbers.sum())));
        layout.hold(numbers.template cast<typename std::remove_cvref_t<decltype(layout)>::Scalar>());
      };
      P p_layout;
      Q q_layout;
      row(p_layout, size);
      row(q_layout, q_size);
      const auto p_rows = distributions(std::as_const(p_layout).view());
      const auto q_rows = distributions(std::as_const(q_layout).view());
      const auto p = p_rows.row(0);
      const auto q = q_rows.row(0);
      for (const double a : {1.0, 0.3, 2.5})
        for (const double b : {1.0, 0.25}) {
          const auto by_definition = [&](Index start, Index count) {
            long double sum = 0;
            for (Index x = start; x < start + count; ++x) {
              const auto t = static_cast<Token>(x);
              const double q_x = x < q_size ? static_cast<double>(q.probability(t)) : 0.0;
              sum += std::max<long double>(
                  0, static_cast<long double>(a) * p.probability(t) - static_cast<long double>(b) * q_x);
            }
            return static_cast<double>(sum);
          };
          const double mass = residual_mass(a, p, b, q);
          REQUIRE(std::abs(mass - by_definition(0, size)) < tolerance);
          const ResidualRow rest(a, p, b, q);
          REQUIRE(rest.mass() == mass);
          for (const auto& [start, count] : {std::pair<Index, Index>{0, size / 2},
                                             {size / 3, size - size / 3},
                                             {size / 2, 1},
                                             {size / 2, 0},
                                             {size, 0}}) {
            const double part = by_definition(start, count);
            REQUIRE(std::abs(residual_mass(a, p, b, q, start, count) - part) < tolerance);
            if (mass > 1e-3) REQUIRE(std::abs(rest.sum(start, count) - part / mass) < tolerance / 1e-3);
          }
          if (mass < 1e-3) continue;
          auto sampler = rest.sampler();
          for (int n = 0; n < 20; ++n) REQUIRE(rest.probability(sampler(uniform01(rng))) > 0);
        }
    }
}

}  // namespace

TEST_CASE("a residual between rows of any two kinds is summed right, whole and in parts") {
  using namespace support;
  constexpr double exact = 1e-13, in_float = 1e-6;
  check_masses<AsRowMajor<double>, AsColMajor<double>>(exact);
  check_masses<AsPointers<float>, AsStridedPointers<double>>(exact);
  check_masses<AsNarrow<Eigen::half>, AsNarrow<Eigen::bfloat16>>(exact);
  check_masses<AsSparse<double>, AsSparse<float, std::int64_t>>(exact);
  check_masses<AsSparse<float>, AsRowMajor<double>>(exact);
  check_masses<AsSparse<float>, AsLogits<double>>(exact);
  check_masses<AsColMajor<double>, AsSparse<double>>(exact);
  check_masses<AsLogits<double>, AsSparse<float>>(exact);
  check_masses<AsLogits<double>, AsLogits<double, 70>>(exact);
  check_masses<AsNormalisedLogits<double>, AsRowMajor<double>>(exact);
  check_masses<AsNarrow<Eigen::bfloat16>, AsLogits<double>>(exact);
  check_masses<AsLogits<float>, AsNormalisedLogits<float>>(in_float);
  check_masses<AsRowMajor<float>, AsLogits<float>>(in_float);
}

namespace {

// Over the vocabulary of a large model: probabilities from logits l(x) by a long double softmax.
constexpr Index large = 256000;
// Where p and q all but cancel, what is left of rows of float has their resolution, not its own.
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

struct LargePair {
  std::vector<long double> p, q;

  template <class P, class Q>
  void check(const P& target, const Q& draft) const {
    const auto p_rows = distributions(target);
    const auto q_rows = distributions(draft);
    const auto row = p_rows.row(0);
    const auto q_row = q_rows.row(0);
    CHECK(row.sum(0, large) == Approx(1).epsilon(1e-6));
    CHECK(row.sum(1000, 200000) == Approx(static_cast<double>(sum(1000, 200000))).epsilon(1e-6));
    // A list of one token leaves two long stretches of p to be summed.
    const double listed = static_cast<double>(p[large / 3]);
    CHECK(residual_mass(1.0, row, 1.0, OneHotRow(large / 3)) == Approx(1 - listed).epsilon(1e-6));
    for (const double a : {1.0, 0.7, 3.0})
      CHECK(residual_mass(a, row, 1.0, q_row) ==
            Approx(static_cast<double>(residual(a))).epsilon(1e-6).margin(a * resolution));
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
      const Eigen::VectorXd p_logits = logits_of(p_peaked, 1), q_logits = logits_of(q_peaked, 2);
      const LargePair pair{softmax(p_logits), softmax(q_logits)};
      const auto p_double = matrix_of<double>(pair.p), q_double = matrix_of<double>(pair.q);
      const auto p_float = matrix_of<float>(pair.p), q_float = matrix_of<float>(pair.q);
      const support::RowMajor<float> p_l = p_logits.transpose().cast<float>(),
                                     q_l = q_logits.transpose().cast<float>();
      const support::RowMajor<double> p_ld = p_logits.transpose(), q_ld = q_logits.transpose();
      pair.check(p_double, q_double);
      pair.check(p_float, q_float);
      pair.check(Logits{p_l}, Logits{q_l});
      pair.check(Logits{p_ld}, Logits{q_ld});
      pair.check(Logits{p_l}, q_float);
      pair.check(p_float, Logits{q_l});
      const std::vector<double> p_normaliser{Logits{p_l}.row(0).log_sum_exp().value},
          q_normaliser{Logits{q_ld}.row(0).log_sum_exp().value};
      pair.check(Logits{p_l, {.log_sum_exp = p_normaliser}}, Logits{q_ld, {.log_sum_exp = q_normaliser}});
      std::vector<std::int64_t> ids;
      for (Index x = 0; x < large; ++x) ids.push_back(x);
      using Row = SparseRow<double, std::int64_t>;
      const Row p_list[] = {{ids, std::span<const double>(p_double.data(), large), large}};
      const Row q_list[] = {{ids, std::span<const double>(q_double.data(), large), large}};
      const RowSpan<Row> p_sparse(p_list, large), q_sparse(q_list, large);
      pair.check(p_sparse, q_sparse);
      pair.check(p_sparse, Logits{q_l});
      pair.check(Logits{p_ld}, q_sparse);
      pair.check(p_float, q_sparse);
    }
}

TEST_CASE("a sparse row is subtracted where its tokens are, and nowhere else") {
  // Stretches between the listed tokens are sums of p: the first and the last of them, and empty ones.
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

TEST_CASE("two sparse rows share what both list") {
  const std::vector<Token> p_ids{1, 3, 5, 7}, q_ids{0, 3, 4, 7, 9};
  const std::vector<double> p{0.25, 0.25, 0.25, 0.25}, q{0.25, 0.125, 0.125, 0.375, 0.125};
  const SparseRow<double> a(p_ids, p, 8), b(q_ids, q, 10);
  CHECK(residual_mass(1.0, a, 1.0, b) == 0.25 + 0.125 + 0.25);
  CHECK(residual_mass(2.0, a, 1.0, b) == 0.5 + 0.375 + 0.5 + 0.125);
  CHECK(residual_mass(1.0, a, 2.0, b) == 0.25 + 0.25);
  CHECK(residual_mass(1.0, a, 1.0, b, 2, 4) == 0.125 + 0.25);
  CHECK(residual_mass(1.0, b, 1.0, a, 0, 10) == 0.25 + 0.125 + 0.125 + 0.125);
}

TEST_CASE("a row is not asked for the mass of a stretch without tokens") {
  // It would have to answer for a stretch that begins behind its end.
  struct Row {
    DenseRow<double> row;
    Index vocab_size() const { return row.vocab_size(); }
    double probability(Token x) const { return row.probability(x); }
    auto sampler() const { return row.sampler(); }
    auto block(Index start, Index count) const { return row.block(start, count); }
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

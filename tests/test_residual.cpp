#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "catch.hpp"
#include "support.hpp"

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

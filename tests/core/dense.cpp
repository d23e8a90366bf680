#include <cmath>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"

using namespace specdec;
using namespace support;

static_assert(NumberMatrix<Eigen::MatrixXd>);
static_assert(NumberMatrix<RowMajor<float>>);
static_assert(NumberMatrix<Eigen::Map<const Eigen::MatrixXf, 0, Eigen::Stride<-1, -1>>>);
static_assert(NumberMatrix<Eigen::Ref<const Eigen::MatrixXd>>);
static_assert(NumberMatrix<Eigen::Block<Eigen::MatrixXd>>);
static_assert(NumberMatrix<Eigen::ArrayXXd>);
static_assert(!NumberMatrix<decltype(Eigen::MatrixXd() + Eigen::MatrixXd())>, "would have to be computed");
static_assert(!NumberMatrix<Eigen::MatrixXi>, "integers are no probabilities");
static_assert(SizedDistributionMatrix<DenseRows<NumbersOf<Eigen::MatrixXd>>>);
static_assert(Distribution<DenseRow<float>>);

TEMPLATE_TEST_CASE("a dense view reads every layout", "", AsRowMajor<float>, AsColMajor<float>,
                   AsStridedMap<float>, AsRefOfBlock<float>, AsColMajorBlock<float>, AsRowMajor<double>,
                   AsColMajor<double>, AsStridedMap<double>, AsRefOfBlock<double>, AsColMajorBlock<double>,
                   AsPointers<float>, AsStridedPointers<double>, AsNarrow<Eigen::half>,
                   AsNarrow<Eigen::bfloat16>) {
  using Scalar = typename TestType::Scalar;
  RowMajor<Scalar> m(3, 4);
  m << Scalar(0.5), Scalar(0.25), Scalar(0.125), Scalar(0.125), 0, 0, 1, 0, Scalar(0.25), Scalar(0.25),
      Scalar(0.25), Scalar(0.25);
  TestType layout;
  layout.hold(m);
  const auto& view = std::as_const(layout).view();
  const auto rows = distributions(view);
  REQUIRE(rows.rows() == 3);
  REQUIRE(rows.vocab_size() == 4);
  for (Index i = 0; i < 3; ++i) {
    const auto row = rows.row(i);
    CHECK(row.vocab_size() == 4);
    for (Token x = 0; x < 4; ++x) CHECK(row.probability(x) == static_cast<double>(m(i, x)));
    CHECK(row.sum(1, 2) == static_cast<double>(m(i, 1) + m(i, 2)));
    auto sampler = row.sampler();
    double below = 0;  // the inverse distribution function, at the edges of every step
    for (Token x = 0; x < 4; ++x) {
      const double p = row.probability(x);
      if (p == 0) continue;
      CHECK(sampler(below) == x);
      CHECK(sampler(below + p / 2) == x);
      CHECK(sampler(std::nextafter(below + p, 0.0)) == x);
      below += p;
    }
  }
  CHECK(rows.row(0).argmax() == 0);
  CHECK(rows.row(1).argmax() == 2);
  CHECK(rows.row(2).argmax() == 0);  // ties: the lowest id
}

TEST_CASE("argmax takes the lowest id among equals wherever they stand") {
  for (const Index size : {1, 2, 7, 8, 9, 33, 1000, 1024, 1025, 3000}) {
    for (Index first = 0; first < size; first += std::max<Index>(1, size / 5)) {
      Eigen::RowVectorXf row = Eigen::RowVectorXf::Constant(size, 0.001f);
      row.tail(size - first).setConstant(0.5f);
      CHECK(distributions(row).row(0).argmax() == first);
    }
  }
}

TEST_CASE("argmax refuses NaN and rows without mass") {
  Eigen::RowVectorXd row(3);
  row << 0.5, std::numeric_limits<double>::quiet_NaN(), 0.5;
  CHECK_THROWS_AS(distributions(row).row(0).argmax(), InvalidDistribution);
  row.setZero();
  CHECK_THROWS_AS(distributions(row).row(0).argmax(), InvalidDistribution);
  for (const Index at : {0, 1023, 1024, 2999}) {
    Eigen::RowVectorXf large = Eigen::RowVectorXf::Constant(3000, 0.25f);
    large[at] = std::numeric_limits<float>::quiet_NaN();
    CHECK_THROWS_AS(distributions(large).row(0).argmax(), InvalidDistribution);
  }
}

// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"

namespace test_rows_dense {

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
static_assert(DistributionMatrix<DenseRows<NumbersOf<Eigen::MatrixXd>>> &&
              has_vocab_size<DenseRows<NumbersOf<Eigen::MatrixXd>>>);
static_assert(Distribution<DenseRow<float>>);

namespace {

// Three rows over four tokens.
const double numbers_held[3][4] = {{0.5, 0.25, 0.125, 0.125}, {0, 0, 1, 0}, {0.25, 0.25, 0.25, 0.25}};

struct Answers {
  std::string layout;
  Index rows, vocab_size;
  struct Row {
    Token argmax;
    double p[4], sum;
    std::vector<Token> drawn;  // at the edges of every step, and within it
  };
  std::vector<Row> row;
};

template <class Layout>
Answers answers(const char* name) {
  using Scalar = typename Layout::Scalar;
  RowMajor<Scalar> m(3, 4);
  for (Index i = 0; i < 3; ++i)
    for (Index x = 0; x < 4; ++x) m(i, x) = static_cast<Scalar>(numbers_held[i][x]);
  Layout layout;
  layout.hold(m);
  const auto& view = std::as_const(layout).view();
  const auto rows = distributions(view);
  Answers out{name, rows.rows(), rows.vocab_size(), {}};
  for (Index i = 0; i < rows.rows(); ++i) {
    const auto row = rows.row(i);
    Answers::Row answer{row.argmax(), {}, static_cast<double>(row.sum(1, 2)), {}};
    auto sampler = row.sampler();
    double below = 0;
    for (Token x = 0; x < 4; ++x) {
      answer.p[x] = row.probability(x);
      if (answer.p[x] == 0) continue;
      for (const double u : {below, below + answer.p[x] / 2, std::nextafter(below + answer.p[x], 0.0)})
        answer.drawn.push_back(sampler(u));
      below += answer.p[x];
    }
    out.row.push_back(answer);
  }
  return out;
}

void check(const Answers& got) {
  INFO(got.layout);
  REQUIRE(got.rows == 3);
  REQUIRE(got.vocab_size == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<Token> steps;  // of the inverse distribution function
    for (Token x = 0; x < 4; ++x) {
      CHECK(got.row[i].p[x] == numbers_held[i][x]);
      if (numbers_held[i][x] > 0) steps.insert(steps.end(), 3, x);
    }
    CHECK(got.row[i].sum == numbers_held[i][1] + numbers_held[i][2]);
    CHECK(got.row[i].drawn == steps);
  }
  CHECK(got.row[0].argmax == 0);
  CHECK(got.row[1].argmax == 2);
  CHECK(got.row[2].argmax == 0);  // a tie: the lowest id wins
}

}  // namespace

TEST_CASE("a dense view reads every layout") {
  check(answers<AsRowMajor<float>>("row-major"));
  check(answers<AsColMajor<float>>("column-major"));
  check(answers<AsStridedMap<float>>("a map with strides"));
  check(answers<AsRefOfBlock<float>>("Ref of a block"));
  check(answers<AsColMajorBlock<float>>("a block of a column-major matrix"));
  check(answers<AsPointers<float>>("pointers"));
  check(answers<AsStridedPointers<float>>("pointers to entries apart"));
  check(answers<AsRowMajor<double>>("doubles"));
  check(answers<AsColMajor<double>>("doubles apart"));
  check(answers<AsNarrow<Eigen::bfloat16>>("bfloat16"));
}

TEST_CASE("argmax takes the lowest id among equals, at every place") {
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

}  // namespace test_rows_dense

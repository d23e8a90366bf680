// Oracle: the sum itself, token by token in long double.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <random>
#include <specdec/more/rows/entropy.hpp>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"

namespace test_more_rows_entropy {

using namespace specdec;
using namespace support;

namespace {

double expected(const RowMajor<double>& row) {
  long double sum = 0;
  for (Index x = 0; x < row.cols(); ++x)
    if (row(0, x) > 0)
      sum -= static_cast<long double>(row(0, x)) * std::log(static_cast<long double>(row(0, x)));
  return static_cast<double>(sum);
}

// A row with zeros, longer than a segment.
RowMajor<double> some_row(Index vocab_size, std::mt19937_64& rng) {
  RowMajor<double> row(1, vocab_size);
  for (Index x = 0; x < vocab_size; ++x) row(0, x) = uniform01(rng) < 0.3 ? 0 : std::pow(uniform01(rng), 6.0);
  row(0, vocab_size / 2) += 0.1;
  return row / row.sum();
}

template <class Layout>
double entropy_as(const RowMajor<double>& row) {
  Layout layout;
  layout.hold(row.cast<typename Layout::Scalar>());
  return entropy(distributions(std::as_const(layout).view()).row(0));
}

}  // namespace

TEST_CASE("entropy of rows of any kind is right over several segments") {
  std::mt19937_64 rng{1};
  for (const Index vocab_size : {1, 2, 7, 1024, 1025, 5000}) {
    const auto row = some_row(vocab_size, rng);
    const double h = expected(row);
    CHECK(std::abs(entropy_as<AsRowMajor<double>>(row) - h) < 1e-12);
    CHECK(std::abs(entropy_as<AsSparse<double>>(row) - h) < 1e-12);
    CHECK(std::abs(entropy_as<AsStridedMap<float>>(row) - h) < 1e-5 * h + 1e-6);
  }
}

TEST_CASE("entropy is 0 for one certain token, log V for a uniform row, and NaN for a row with NaN") {
  const std::vector<Token> token{3};
  CHECK(entropy(OneHotRows(token).row(0)) == 0);
  const Eigen::MatrixXd uniform = Eigen::MatrixXd::Constant(1, 2000, 1.0 / 2000);
  CHECK(entropy(distributions(uniform).row(0)) == Approx(std::log(2000)).epsilon(1e-12));
  Eigen::MatrixXd broken = uniform;
  broken(0, 1500) = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(entropy(distributions(broken).row(0))));
}

namespace {

struct Plain {  // a row with nothing but a vocabulary and probabilities
  std::vector<double> p;
  Index vocab_size() const { return std::ssize(p); }
  double probability(Token x) const { return p[static_cast<std::size_t>(x)]; }
  struct Sampler {
    Token operator()(double) { return 0; }
  };
  Sampler sampler() const { return {}; }
};

}  // namespace

TEST_CASE("entropy of a row that offers only probabilities is right") {
  CHECK(entropy(Plain{{0.5, 0, 0.25, 0.25}}) == Approx(1.5 * std::log(2)).epsilon(1e-14));
}

}  // namespace test_more_rows_entropy

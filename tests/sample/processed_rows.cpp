// Rows with a chain of steps: each row is what the chain makes of it, computed once and only when needed.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/processed_rows.hpp>
#include <specdec/sample/steps/min_p.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"

namespace test_sample_processed_rows {

using namespace specdec;
using namespace support;

static_assert(
    DistributionMatrix<decltype(ProcessedRows(std::declval<const Eigen::MatrixXf&>(), MinP(0.1)))> &&
    has_vocab_size<decltype(ProcessedRows(std::declval<const Eigen::MatrixXf&>(), MinP(0.1)))>);
static_assert(ArgmaxRow<ProcessedRow<float, 1, MinP>> && SummableRow<ProcessedRow<float, 1, MinP>> &&
              SegmentedRow<ProcessedRow<float, 1, MinP>>);

namespace {

// A step that counts its runs.
struct Counting {
  int* runs;
  template <class Row>
  Row operator()(const Row& row) const {
    ++*runs;
    return row;
  }
};

// All answers of a row, as numbers.
template <class Row>
std::vector<double> answers(const Row& row) {
  std::vector<double> out{static_cast<double>(row.vocab_size()), static_cast<double>(row.argmax()),
                          row.sum(0, 900), row.sum(3, 500)};
  for (Token x = 0; x < 900; ++x) out.push_back(row.probability(x));
  const auto block = row.segment(5, 300).eval();
  for (Index k = 0; k < 300; ++k) out.push_back(static_cast<double>(block[k]));
  auto sampler = row.sampler();
  for (int k = 0; k < 100; ++k) out.push_back(sampler(k * 0.01));
  return out;
}

template <class Layout>
void check_rows() {
  using S = typename Layout::Scalar;
  std::mt19937_64 rng{1};
  std::normal_distribution<float> normal;
  RowMajor<S> m(3, 900);
  for (S& l : m.reshaped()) l = static_cast<S>(normal(rng));
  Layout layout;
  layout.hold(m);
  const auto& view = std::as_const(layout).view();
  const Chain chain{Temperature(0.8), MinP(0.05)};
  const ProcessedRows rows(view, chain);
  REQUIRE(rows.rows() == 3);
  REQUIRE(rows.vocab_size() == 900);
  for (Index i = 0; i < 3; ++i) {
    const auto row = rows.row(i);
    const auto expected = chain(LogitsRow(numbers(view).row(i)));
    CHECK(row.possible(7));
    CHECK(answers(row) == answers(expected));
    CHECK(std::abs(row.sum(0, 900) - 1) < 1e-12);
    std::vector<S> copy(900);
    row.logits().copy_to(copy.data());
    for (const auto& original : {rows.row(i), row})  // before and after its chain has run
      CHECK(original.over(copy.data()).probability(row.argmax()) == expected.probability(row.argmax()));
  }
}

}  // namespace

TEST_CASE("a processed row is what the chain makes of the row") {
  check_rows<AsRowMajor<double>>();
  check_rows<AsColMajor<double>>();
}

TEST_CASE("the chain of a row runs once, and only when a question needs it") {
  int runs = 0;
  const Eigen::RowVectorXd bad = Eigen::RowVectorXd::Constant(3, std::numeric_limits<double>::quiet_NaN());
  const ProcessedRows unread(bad, Chain{Temperature(0.0), MinP(0.5)});
  (void)unread.row(0);  // not an error until it is read
  CHECK_THROWS_AS(unread.row(0).probability(0), InvalidDistribution);
  Eigen::RowVectorXd logits(3);
  logits << 1, -std::numeric_limits<double>::infinity(), 2;
  const ProcessedRows rows(logits, Counting{&runs});
  const auto row = rows.row(0);
  CHECK(row.possible(0));
  CHECK(!row.possible(1));
  CHECK(row.argmax() == 2);
  CHECK(runs == 0);
  CHECK(std::abs(row.probability(0) - 1 / (1 + std::exp(1.0))) < 1e-12);
  CHECK(std::abs(row.sum(0, 3) - 1) < 1e-12);
  CHECK(row.sampler()(0.9) == 2);
  CHECK(runs == 1);
}

}  // namespace test_sample_processed_rows

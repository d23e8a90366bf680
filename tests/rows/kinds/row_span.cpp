// SPDX-License-Identifier: MIT
#include <cmath>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_rows_row_span {

using namespace specdec;
using support::message_of;

static_assert(DistributionMatrix<RowSpan<DenseRow<float>>> && has_vocab_size<RowSpan<DenseRow<float>>>);
static_assert(DistributionMatrix<RowSpan<LogitsRow<float>>> && has_vocab_size<RowSpan<LogitsRow<float>>>);
static_assert(std::is_same_v<RowOf<RowSpan<SparseRow<float>>>, SparseRow<float>>);

TEST_CASE("a span of rows is a matrix of them, in their order") {
  const std::vector<double> p{0.5, 0.5}, q{0.25, 0.75};
  const std::vector<Token> ids{1, 3};
  const std::vector<SparseRow<double>> rows{{ids, p, 5}, {ids, q, 5}};
  const RowSpan matrix(rows, 5);
  CHECK(matrix.rows() == 2);
  CHECK(matrix.vocab_size() == 5);
  CHECK(matrix.row(0).probability(3) == 0.5);
  CHECK(matrix.row(1).probability(3) == 0.75);
  CHECK(&matrix.row(1) == &rows[1]);
  CHECK(RowSpan(std::span(rows).first(1), 5).rows() == 1);
  CHECK(RowSpan(std::span(rows).first(0), 5).rows() == 0);
}

TEST_CASE("a row may have a smaller vocabulary than the matrix, but not a larger one") {
  const std::vector<double> p{0.5, 0.5};
  const std::vector<Token> ids{1, 3};
  const std::vector<SparseRow<double>> rows{{ids, p, 4}, {ids, p, 5}};
  CHECK(RowSpan(rows, 6).vocab_size() == 6);
  CHECK(RowSpan(rows, 5).vocab_size() == 5);
  CHECK(message_of([&] { RowSpan(rows, 4); }) ==
        "specdec: rows[1] is over 5 tokens, more than vocab_size = 4");
  CHECK_FALSE(message_of([&] { RowSpan(std::span(rows).first(1), 2); }).empty());
}

TEST_CASE("rows of a span may differ in everything but their kind") {
  // One temperature for each row: the first is one-hot, the second what its logits say, the third nearly uniform.
  const Eigen::RowVector3d logits(0, std::log(3.0), std::log(2.0));
  const NumberRow<double> numbers(logits.data(), 3);
  const std::vector<LogitsRow<double>> rows{LogitsRow(numbers, 0), LogitsRow(numbers, 1),
                                            LogitsRow(numbers, 1e9)};
  const RowSpan target(rows, 3);
  CHECK(target.row(0).probability(1) == 1);
  CHECK(target.row(1).probability(1) == Approx(0.5));
  CHECK(target.row(2).probability(1) == Approx(1.0 / 3));
  const std::vector<Token> tokens{1, 0};
  const Eigen::MatrixXd draft = Eigen::MatrixXd::Constant(2, 3, 1.0 / 3);
  int accepted = 0;
  std::mt19937_64 rng{1};
  BlockVerifier verifier;
  for (int n = 0; n < 3000; ++n) accepted += verifier(target, draft, tokens, rng).accepted >= 1;
  CHECK(accepted == 3000);  // w_1 = min(1, 1/(1/3)) = 1: the first token is never rejected
}

}  // namespace test_rows_row_span

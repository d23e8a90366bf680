// SPDX-License-Identifier: MIT
#include <array>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_row_vectors {

using namespace specdec;
using namespace support;

static_assert(NumberMatrix<RowVectors<std::vector<float>>>);
static_assert(!std::is_constructible_v<RowVectors<std::vector<float>>, std::vector<std::vector<float>>>);

TEMPLATE_TEST_CASE("rows given as vectors are read without a copy", "", float, double, Eigen::half,
                   Eigen::bfloat16) {
  std::vector<std::vector<TestType>> rows(3);
  for (int i = 0; i < 3; ++i)
    for (int x = 0; x < 4; ++x)
      rows[static_cast<std::size_t>(i)].push_back(static_cast<TestType>(static_cast<float>(10 * i + x)));
  const RowVectors matrix{rows};
  CHECK(matrix.rows() == 3);
  CHECK(matrix.cols() == 4);
  for (Index i = 0; i < 3; ++i) {
    CHECK(matrix.row(i).data() == rows[static_cast<std::size_t>(i)].data());
    for (Index x = 0; x < 4; ++x)
      CHECK(static_cast<double>(matrix.row(i)[x]) == static_cast<double>(10 * i + x));
  }
  CHECK(distributions(matrix).vocab_size() == 4);
  CHECK(RowVectors{std::span(rows).first(0)}.rows() == 0);
  const RowVectors copy{matrix};
  CHECK(copy.row(2).data() == rows[2].data());
}

TEST_CASE("rows may be arrays and spans, too") {
  const std::array<std::array<float, 2>, 2> arrays{{{0.25f, 0.75f}, {1.0f, 0.0f}}};
  const std::vector<std::span<const float>> spans{arrays[1], arrays[0]};
  CHECK(distributions(RowVectors{arrays}).row(0).probability(1) == 0.75);
  CHECK(distributions(RowVectors{spans}).row(0).probability(0) == 1);
}

TEST_CASE("rows of unequal length are named in the error") {
  const std::vector<std::vector<float>> rows{{1, 0, 0}, {0, 1, 0}, {0, 1}};
  CHECK(message_of([&] { RowVectors{rows}; }) == "specdec: rows[2] has 2 numbers, but rows[0] has 3");
}

TEST_CASE("rows given as vectors give the verdicts of a matrix with equal numbers") {
  const std::vector<std::vector<double>> p{{0.1, 0.6, 0.3}, {0.5, 0.2, 0.3}, {0.2, 0.2, 0.6}};
  const std::vector<std::vector<double>> q{{0.2, 0.5, 0.3}, {0.3, 0.3, 0.4}};
  RowMajor<double> target(3, 3), draft(2, 3);
  for (Index i = 0; i < 3; ++i)
    for (Index x = 0; x < 3; ++x) target(i, x) = p[static_cast<std::size_t>(i)][static_cast<std::size_t>(x)];
  for (Index i = 0; i < 2; ++i)
    for (Index x = 0; x < 3; ++x) draft(i, x) = q[static_cast<std::size_t>(i)][static_cast<std::size_t>(x)];
  const std::vector<Token> tokens{1, 2};
  std::mt19937_64 a{1}, b{1};
  BlockVerifier verifier;
  for (int n = 0; n < 100; ++n) {
    CHECK(verifier(RowVectors{p}, RowVectors{q}, tokens, a) == verifier(target, draft, tokens, b));
    CHECK(verifier(Logits{RowVectors{p}}, Logits{RowVectors{q}}, tokens, a) ==
          verifier(Logits{target}, Logits{draft}, tokens, b));
  }
  CHECK_NOTHROW(validate(RowVectors{p}));
  CHECK(ProcessedRows{RowVectors{p}, Chain{TopK{1}}}.row(0).probability(1) == 1);
}

}  // namespace test_rows_row_vectors

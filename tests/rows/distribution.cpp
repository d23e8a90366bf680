// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <specdec/specdec.hpp>

#include "support/catch.hpp"
#include "support/layouts.hpp"

namespace test_rows_distribution {

using namespace specdec;
using namespace support;

TEST_CASE("A log-probability is finite even if the probability underflows, and -inf for probability 0") {
  constexpr double none = -std::numeric_limits<double>::infinity();
  RowMajor<double> logits(1, 4);
  logits << 0, -1000, none, -3;
  const auto row = Logits(logits).row(0);
  CHECK(row.probability(1) == 0);
  CHECK(std::abs(log_probability(row, 1) - (-1000 - std::log1p(std::exp(-3)))) < 1e-9);
  CHECK(log_probability(row, 2) == none);
  CHECK(log_probability(row.above(-5), 1) == none);
  CHECK(log_probability(row.above(-5).unprocessed(), 1) > none);
  CHECK(log_probability(Logits(logits, {.temperature = 0}).row(0), 3) == none);
  const double uniform[] = {0.5, 0.5};
  CHECK(log_probability(DenseRow<double>(uniform, 2), 1) == std::log(0.5));
}

}  // namespace test_rows_distribution

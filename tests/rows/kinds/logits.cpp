// Matrices of logits: one temperature for all rows, and a log-sum-exp for each row.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_logits {

using namespace specdec;
using namespace support;

TEST_CASE("Logits takes a temperature, and a log-sum-exp for each row") {
  Eigen::MatrixXf logits(2, 2);
  logits << 0, 1, 2, 0;
  const std::vector<double> lse{std::log(1 + std::exp(2.0)), std::log(1 + std::exp(4.0))};
  const Logits plain(logits, {.temperature = 0.5}), handed(logits, {.temperature = 0.5, .log_sum_exp = lse});
  for (Index i = 0; i < 2; ++i)
    for (Token x = 0; x < 2; ++x)
      CHECK(plain.row(i).probability(x) == Approx(handed.row(i).probability(x)).epsilon(1e-6));
  CHECK_THROWS_AS(Logits(logits, {.temperature = -1}), std::invalid_argument);
  CHECK_THROWS_AS(Logits(logits, {.temperature = std::numeric_limits<double>::quiet_NaN()}),
                  std::invalid_argument);
  CHECK_THROWS_AS(Logits(logits, {.temperature = std::numeric_limits<double>::infinity()}),
                  std::invalid_argument);
  CHECK_THROWS_AS(Logits(logits, {.log_sum_exp = std::span(lse).first(1)}), std::invalid_argument);
}

}  // namespace test_rows_logits

// SPDX-License-Identifier: MIT
#include <cstdint>
#include <limits>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_rows_one_hot {

using namespace specdec;

static_assert(Distribution<OneHotRow>);
static_assert(DistributionMatrix<OneHotRows>);
static_assert(!has_vocab_size<OneHotRows>, "one-hot rows fit any vocabulary");

TEST_CASE("a one-hot row gives one token all the mass") {
  const OneHotRow row(3);
  CHECK(row.vocab_size() == 4);
  for (Token x = 0; x < 4; ++x) CHECK(row.probability(x) == (x == 3 ? 1.0 : 0.0));
  CHECK(row.argmax() == 3);
  CHECK(row.sampler()(0.0) == 3);
  CHECK(row.sampler()(0.999) == 3);
}

TEST_CASE("one-hot rows follow their tokens") {
  const std::vector<Token> tokens{2, 0, 7};
  const OneHotRows rows(tokens);
  REQUIRE(rows.rows() == 3);
  for (Index i = 0; i < 3; ++i) CHECK(rows.row(i).argmax() == tokens[static_cast<std::size_t>(i)]);
  CHECK(OneHotRows({}).rows() == 0);
}

TEST_CASE("a one-hot row is a list of one token, and a sum is 1 if it covers that token") {
  static_assert(ListedRow<OneHotRow> && SummableRow<OneHotRow> && ArgmaxRow<OneHotRow>);
  const OneHotRow row(3);
  CHECK(row.support_size() == 1);
  CHECK(row.support(0) == 3);
  CHECK(row.listed(0) == 1);
  CHECK(row.sum(0, 4) == 1);
  CHECK(row.sum(3, 1) == 1);
  CHECK(row.sum(0, 3) == 0);
  CHECK(row.sum(4, 9) == 0);
  CHECK(row.sum(3, 0) == 0);
  CHECK(OneHotRow(std::numeric_limits<Token>::max()).vocab_size() == Index{1} << 31);
}

TEST_CASE("one-hot rows follow tokens of 64 bits, too") {
  const std::vector<std::int64_t> tokens{2, 0, 7};
  const OneHotRows rows(tokens);
  REQUIRE(rows.rows() == 3);
  CHECK(rows.row(2).probability(7) == 1);
  CHECK(rows.row(1).argmax() == 0);
}

}  // namespace test_rows_one_hot

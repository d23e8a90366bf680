#include <specdec/specdec.hpp>
#include <vector>

#include "catch.hpp"

using namespace specdec;

static_assert(Distribution<OneHotRow>);
static_assert(DistributionMatrix<OneHotRows>);
static_assert(!SizedDistributionMatrix<OneHotRows>, "one-hot rows fit any vocabulary");

TEST_CASE("a one-hot row gives one token everything") {
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

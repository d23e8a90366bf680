// Dead ends among rows of every kind.
// SPDX-License-Identifier: MIT
#include "specdec/rows/read/dead_end.hpp"

#include <limits>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_rows_read_dead_end {

using namespace specdec;
using detail::is_dead_end;

TEST_CASE("a row is a dead end if no token has a positive probability") {
  std::vector<double> p(200, 0.0);
  const DenseRow dense(p.data(), 200);
  CHECK(is_dead_end(dense));
  CHECK(is_dead_end(detail::NamedRow(dense, "target", 3)));
  p.back() = 1;
  CHECK(!is_dead_end(dense));
  p.back() = std::numeric_limits<double>::quiet_NaN();
  CHECK(!is_dead_end(dense));

  std::vector<float> logits(200, -std::numeric_limits<float>::infinity());
  const auto softmax = [&] { return LogitsRow(NumberRow<float>(logits.data(), 200), 0.7); };
  CHECK(is_dead_end(softmax()));
  logits[150] = -1000;
  CHECK(!is_dead_end(softmax()));
  CHECK(!is_dead_end(OneHotRow(3)));
}

TEST_CASE("a list is a dead end if nothing on it has mass, and out of order it is an error") {
  std::vector<Token> ids{1, 3};
  std::vector<double> p{0, 0};
  const auto row = [&] { return SparseRow<double>(ids, p, 5); };
  CHECK(is_dead_end(row()));
  p[1] = std::numeric_limits<double>::quiet_NaN();
  CHECK(!is_dead_end(row()));
  p[1] = 1;
  CHECK(!is_dead_end(row()));
  ids = {3, 1};
  CHECK(support::message_of<InvalidDistribution>([&] { is_dead_end(row()); }).find("do not ascend") !=
        std::string::npos);
}

TEST_CASE("what is left of a row is a dead end if no mass is left") {
  const std::vector<double> p{0, 1, 0};
  const std::vector<Token> elders{1};
  const DenseRow row(p.data(), 3);
  CHECK(is_dead_end(PartOfRow<DenseRow<double>, WithoutTokens>(row, {elders})));
  CHECK(!is_dead_end(PartOfRow<DenseRow<double>, WithoutTokens>(row, {std::span(elders).first(0)})));
}

}  // namespace test_rows_read_dead_end

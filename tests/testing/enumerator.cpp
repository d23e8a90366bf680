// SPDX-License-Identifier: MIT
#include <map>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_testing_enumerator {

using namespace specdec;
using testing::Enumerator;

TEST_CASE("every outcome comes once, with its probability") {
  Eigen::RowVector3d row(0.5, 0.0, 0.5);
  std::map<std::string, double> seen;
  int runs = 0;
  testing::enumerate([&](Enumerator& chance) {
    std::string path;
    if (chance.coin(0.25)) {
      path = "heads";
    } else {
      path = "tails" + std::to_string(chance.draw(distributions(row).row(0)));
      if (path == "tails2") path += chance.coin(0.125) ? "+" : "-";
    }
    seen[path] += chance.probability();
    ++runs;
  });
  CHECK(runs == 4);
  CHECK(seen ==
        std::map<std::string, double>{
            {"heads", 0.25}, {"tails0", 0.375}, {"tails2+", 0.375 * 0.125}, {"tails2-", 0.375 * 0.875}});
}

TEST_CASE("choices of probability 0 or 1 make no branches") {
  int runs = 0;
  testing::enumerate([&](Enumerator& chance) {
    CHECK(chance.coin(1.0));
    CHECK_FALSE(chance.coin(0.0));
    CHECK(chance.draw(OneHotRow(4)) == 4);
    CHECK(chance.probability() == 1.0);
    ++runs;
  });
  CHECK(runs == 1);
}

TEST_CASE("a row without mass cannot be drawn from") {
  Eigen::RowVector2d row(0, 0);
  Enumerator chance;
  CHECK_THROWS_AS(chance.draw(distributions(row).row(0)), InvalidDistribution);
}

TEST_CASE("a choice that no generator can make is an error") {
  const auto said = [](const Eigen::RowVector2d& row) {
    return support::message_of<InvalidDistribution>(
        [&] { testing::enumerate([&](Enumerator& chance) { chance.draw(distributions(row).row(0)); }); });
  };
  CHECK(said({0.75, 0.5}) == "the outcomes of a choice have probabilities that sum to 1.25");
  CHECK(said({1.5, 0}) == "the outcomes of a choice have probabilities that sum to 1.5");
  CHECK(said({1, -0.25}) == "outcome 1 of a choice has the probability -0.25");
  CHECK(said({0.5, 0.5 + 0x1p-9}) == "");  // the rounding of bfloat16
}

TEST_CASE("after a run that throws, the next run works") {
  int runs = 0, thrown = 0;
  Enumerator chance;
  do {
    ++runs;
    try {
      if (chance.coin(0.5)) throw 1;
      chance.coin(0.5);
    } catch (int) {
      ++thrown;
    }
  } while (chance.next());
  CHECK(runs == 3);
  CHECK(thrown == 1);
}

TEST_CASE("a run that cannot be replayed is an error") {
  int runs = 0;
  Enumerator chance;
  const auto run = [&] {
    chance.coin(0.5);
    if (++runs == 1) chance.coin(0.5);
  };
  run();
  CHECK(chance.next());
  run();
  CHECK_THROWS_AS(chance.next(), InvalidCall);
}

}  // namespace test_testing_enumerator

#include <chrono>
#include <random>
#include <specdec/specdec.hpp>
#include <sstream>
#include <vector>

#include "catch.hpp"

using namespace specdec;

TEST_CASE("statistics add up steps") {
  Stats stats;
  CHECK(stats.block_efficiency() == 0);
  CHECK(stats.accepted_fraction() == 0);
  stats.add(4, 2, 3);
  stats.add(4, 4, 5);
  stats.add(0, 0, 1);
  stats.add(2, 0, 1);
  CHECK(stats.target_calls == 4);
  CHECK(stats.drafted == 10);
  CHECK(stats.accepted == 6);
  CHECK(stats.emitted == 10);
  CHECK(stats.block_efficiency() == 2.5);
  CHECK(stats.accepted_fraction() == 0.6);
  CHECK(stats.accepted_lengths == std::vector<Index>{2, 0, 1, 0, 1});
  CHECK(stats.drafted_by_position == std::vector<Index>{3, 3, 2, 2});
  CHECK(stats.accepted_by_position == std::vector<Index>{2, 2, 1, 1});
}

TEST_CASE("statistics print as a table, and leave the stream as it was") {
  Stats stats;
  stats.add(2, 1, 2);
  stats.add(2, 2, 3);
  stats.draft_time = std::chrono::microseconds{1500};
  stats.target_time = std::chrono::milliseconds{20};
  std::ostringstream out;
  out << stats << 0.123456789;
  CHECK(out.str() ==
        "target calls       2\n"
        "emitted            5\n"
        "drafted, accepted  4, 3\n"
        "block efficiency   2.500 tokens per target call\n"
        "accepted fraction  0.750\n"
        "accepted lengths   0 1 1\n"
        "accepted at        1.000 0.500\n"
        "time (ms)          draft 1.500, target 20.000, verify 0.000\n"
        "0.123457");
}

TEST_CASE("a generation's statistics are consistent, times included") {
  std::mt19937_64 rng{1};
  auto target = testing::TableModel<>::random(5, 2, rng);
  SpecDec decoder{target, ModelDrafter{testing::TableModel<>::random(5, 2, rng)}};
  const Stats s = decoder.generate(std::vector<Token>{0}, {.max_new_tokens = 200, .gamma = 5}, rng).stats;
  CHECK(s.emitted == 200);
  CHECK(s.emitted == s.accepted + s.target_calls);
  Index steps = 0, accepted = 0, drafted = 0, by_position = 0;
  for (std::size_t k = 0; k < s.accepted_lengths.size(); ++k) {
    steps += s.accepted_lengths[k];
    accepted += static_cast<Index>(k) * s.accepted_lengths[k];
  }
  for (std::size_t i = 0; i < s.drafted_by_position.size(); ++i) {
    drafted += s.drafted_by_position[i];
    by_position += s.accepted_by_position[i];
    CHECK(s.accepted_by_position[i] <= s.drafted_by_position[i]);
  }
  CHECK(steps == s.target_calls);
  CHECK(accepted == s.accepted);
  CHECK(drafted == s.drafted);
  CHECK(by_position == s.accepted);
  CHECK(s.draft_time.count() > 0);
  CHECK(s.target_time.count() > 0);
  CHECK(s.verify_time.count() > 0);
}

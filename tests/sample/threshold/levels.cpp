// Levels of numbers, and what stretches tell of a cut.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <specdec/kernels/exponentials.hpp>
#include <specdec/rows/kinds/logits_row.hpp>
#include <specdec/sample/threshold/levels.hpp>
#include <specdec/sample/threshold/likely_cut.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/sorted.hpp"

namespace test_sample_levels {

using namespace specdec;
using namespace support;
using detail::KeyRange;
using detail::LevelOf;
using detail::ordered_key;

namespace {

constexpr float lowest = std::numeric_limits<float>::lowest(),
                infinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("a level is a range of numbers, and larger numbers are on earlier levels") {
  const KeyRange<float> all{ordered_key(lowest), ordered_key(-lowest)};
  constexpr auto last = LevelOf<float>::levels;
  std::mt19937_64 rng{1};
  for (const float unit : {1e-3f, 1.0f, 1e30f}) {
    std::vector<float> numbers(detail::chunk_size);
    for (float& x : numbers) x = unit * std::normal_distribution<float>{}(rng);
    std::ranges::sort(numbers, std::greater<>());
    const float low = numbers[400], high = numbers[20];
    const LevelOf<float> level(low, high);
    const auto levels = detail::run_wide<LevelOf<float>>(static_cast<const float*>(numbers.data()), level);
    CHECK(std::ranges::is_sorted(levels));
    CHECK((levels[19] == 0 && levels[20] == 1 && levels[400] == last && levels.back() == last));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CAPTURE(unit, i);
      REQUIRE(levels[i] == level(numbers[i]));
      if (levels[i] == 0) continue;
      const auto range = level.keys_on(levels[i], all);
      CHECK((range.low <= ordered_key(numbers[i]) && ordered_key(numbers[i]) <= range.high));
      CHECK(level(detail::from_ordered_key<float>(range.low)) == levels[i]);
      CHECK((levels[i] == last ? range.low == all.low
                               : level(detail::from_ordered_key<float>(range.low - 1)) > levels[i]));
      if (levels[i] > 1) CHECK(level(detail::from_ordered_key<float>(range.high + 1)) < levels[i]);
    }
  }
  CHECK(LevelOf<float>(lowest, -lowest)(-infinity) == last);
  CHECK(LevelOf<float>(0, 1)(infinity) == 0);
  // A range of one number, and one of two zeros.
  for (const LevelOf<float>& one : {LevelOf<float>(2, 2), LevelOf<float>(0.0f, -0.0f)}) {
    const float x = one(1) == 0 ? 0.0f : 2.0f;
    CHECK((one(x) == 1 && one(x + 1) == 0));
    CHECK((one(x - 1) == last && one(-infinity) == last));
  }
}

// What decides how long a search takes, never what it finds. So the law of large numbers is test enough.
TEST_CASE("stretches of rows in no order and in order tell where the mass is reached") {
  constexpr double room = 2560;
  std::mt19937_64 rng{2};
  int enough = 0, few = 0, rows = 0;
  for (const Index size : {4096, 32'000, 100'000})
    for (const bool in_order : {false, true})
      for (int n = 0; n < 4; ++n) {
        std::vector<float> logits(static_cast<std::size_t>(size));
        for (std::size_t x = 0; x < logits.size(); ++x)
          logits[x] =
              -1.6f * std::log(static_cast<float>(x + 1)) + 0.7f * std::normal_distribution<float>{}(rng);
        if (!in_order) std::ranges::shuffle(logits, rng);
        const auto row = row_of(logits);
        const auto stretches = row.peaks_and_normaliser();
        const double total = 1 / row.scale();
        for (const double share : {0.5, 0.9, 0.95}) {
          const float cut = detail::likely_cut(stretches, row.exponentials(), share * total, total, 2560);
          double kept = 0, above = 0;
          for (Token x = 0; x < static_cast<Token>(size); ++x)
            if (row.logits()[x] >= cut) kept += row.probability(x), above += 1;
          ++rows;
          enough += cut > -infinity && kept >= share;
          few += above <= room;
        }
      }
  CHECK(5 * enough > 4 * rows);
  CHECK(few == rows);
}

TEST_CASE(
    "stretches tell nothing if as many tokens as do not fit may share the mass, or if they have no sums") {
  std::mt19937_64 rng{3};
  std::vector<float> logits(32'000);
  for (float& l : logits) l = std::normal_distribution<float>{}(rng);
  const auto row = row_of(logits);
  const auto stretches = row.peaks_and_normaliser();
  const double total = 1 / row.scale();
  CHECK(detail::likely_cut(stretches, row.exponentials(), 0.9 * total, total, 2560) == -infinity);
  CHECK(detail::likely_cut(row.peaks(), row.exponentials(), 0.5 * total, total, 32'000) == -infinity);
  const float few = detail::likely_cut(row.peaks(), row.exponentials(), 0.001 * total, total, 2560);
  CHECK(few > 2);
}

}  // namespace test_sample_levels

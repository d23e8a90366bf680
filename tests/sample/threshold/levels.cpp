// Levels of numbers, and of the peaks of a row.
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
#include <specdec/sample/threshold/peak_levels.hpp>
#include <utility>
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

TEST_CASE("levels of peaks say from where on some peaks lie, or have a mass") {
  std::mt19937_64 rng{2};
  for (const Index size : {300, 4096, 100'000})
    for (const double temperature : {0.3, 1.0, 4.0}) {
      std::vector<float> logits(static_cast<std::size_t>(size));
      for (float& l : logits) l = 3 * std::normal_distribution<float>{}(rng);
      const LogitsRow<float> row(row_of(logits).logits(), temperature);
      const auto peaks = row.peaks_and_normaliser();
      const auto e = row.exponentials();
      const detail::PeakLevels<float> levels(peaks, e);
      const auto from = [&](float low) {
        double count = 0, mass = 0;
        for (Index s = 0; s < peaks.size(); ++s) {
          if (peaks[s] < low) continue;
          count += 1;
          mass += std::exp((static_cast<double>(peaks[s]) - static_cast<double>(e.shift)) / temperature);
        }
        return std::pair{count, mass};
      };
      const float height = 0.2501f * static_cast<float>(temperature);
      for (const Index n : {Index{1}, Index{5}, peaks.size() / 2}) {
        CAPTURE(size, temperature, n);
        const float low = levels.of_count(n);
        if (low == -infinity) continue;  // too far below the largest
        CHECK(from(low).first >= static_cast<double>(n));
        CHECK(from(low + height).first < static_cast<double>(n));
      }
      const double all = from(lowest).second;
      for (const double mass : {0.3 * all, 0.9 * all}) {
        CAPTURE(size, temperature, mass);
        CHECK(from(levels.of_mass(mass)).second >= mass * (1 - 1e-6));
        CHECK(from(levels.of_mass(mass) + height).second < mass);
      }
      CHECK(levels.of_count(peaks.size() + 1) == -infinity);
      CHECK(levels.of_mass(1.01 * all) == -infinity);
    }
}

TEST_CASE("peaks without a finite logit have no levels") {
  const std::vector<float> logits(100, -infinity);
  const detail::PeakLevels<float> levels(row_of(logits).peaks(), detail::Exponentials<float>{0, 1});
  CHECK(levels.of_count(1) == -infinity);
  CHECK(levels.of_mass(1e-9) == -infinity);
}

}  // namespace test_sample_levels

// What a sample says of a row with a cut that is known from sorting.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <specdec/sample/threshold/row_sample.hpp>
#include <specdec/sample/threshold/token_weight.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/sorted.hpp"

namespace test_sample_row_sample {

using namespace specdec;
using namespace support;
using detail::KeyRange;
using detail::ordered_key;
using detail::TokenCount;
using detail::WeighedNumbers;
using Sample = detail::RowSample<float, 1, TokenCount<float>>;

namespace {

constexpr float lowest = std::numeric_limits<float>::lowest();
const KeyRange<float> all{ordered_key(lowest), ordered_key(-lowest)};

std::vector<float> normal_logits(std::size_t size, std::mt19937_64& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> logits(size);
  for (float& l : logits) l = normal(rng);
  return logits;
}

NumberRow<float> row_over(const std::vector<float>& logits) {
  return NumberRow<float>(logits.data(), std::ssize(logits));
}

// The bracket around the cut that leaves `count` logits, by the sample.
KeyRange<float> bracket(const std::vector<float>& logits, double count, double deviations) {
  WeighedNumbers<float> near;
  Sample sample(row_over(logits), near);
  REQUIRE(sample.take(lowest, TokenCount<float>{}));
  return sample.bracket({count / sample.stride(), false, deviations, false}, all);
}

}  // namespace

TEST_CASE("long rows are sampled, at logits not below the floor") {
  std::mt19937_64 rng{1};
  const auto logits = normal_logits(96'000, rng);
  WeighedNumbers<float> near;
  Sample sample(row_over(logits), near);
  CHECK(sample.take(lowest, TokenCount<float>{}));
  CHECK(sample.stride() == 64);
  CHECK(sample.weight() == 1500);  // each has a weight of one unit
  CHECK(sample.take(0.0f, TokenCount<float>{}));
  CHECK(sample.weight() > 670);
  CHECK(sample.weight() < 830);
  CHECK_FALSE(sample.take(100.0f, TokenCount<float>{}));
  const auto few = normal_logits(2048, rng);
  CHECK_FALSE(Sample(row_over(few), near).take(lowest, TokenCount<float>{}));
}

TEST_CASE("nine of ten brackets hold the row's cut, and these brackets are narrow") {
  std::mt19937_64 rng{2};
  int inside = 0;
  const int rows = bound(100);
  for (int n = 0; n < rows; ++n) {
    auto logits = normal_logits(100'000, rng);
    if (n % 2 == 0) std::ranges::sort(logits);
    const KeyRange<float> range = bracket(logits, 30'000, 2.5);
    CHECK(range.low <= range.high);
    std::ranges::sort(logits, std::greater<>());
    const auto cut = ordered_key(logits[29'999]);
    inside += range.low <= cut && cut <= range.high ? 1 : 0;
    CHECK(std::ranges::count_if(logits, [&](float l) {
            return ordered_key(l) >= range.low && ordered_key(l) <= range.high;
          }) < 20'000);
  }
  CHECK(10 * inside >= 9 * rows);
}

TEST_CASE("a bracket for few tokens is open above") {
  std::mt19937_64 rng{3};
  const auto logits = normal_logits(100'000, rng);
  for (const double few : {40.0, 1000.0}) CHECK(bracket(logits, few, 2.5).high == all.high);
  CHECK(bracket(logits, 30'000, 2.5).high < all.high);
}

TEST_CASE("an aim that is NaN gives a valid bracket") {
  std::mt19937_64 rng{4};
  const auto logits = normal_logits(10'000, rng);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double aim : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
    const KeyRange<float> range = bracket(logits, aim, 2.5);
    CHECK(range.low >= all.low);
    CHECK(range.high <= all.high);
  }
}

}  // namespace test_sample_row_sample

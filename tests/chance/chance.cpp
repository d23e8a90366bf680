// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_chance_chance {

using namespace specdec;

static_assert(Chance<RandomChance<std::mt19937>>);
static_assert(Chance<testing::Enumerator>);
static_assert(RandomSource<std::minstd_rand>);
static_assert(RandomSource<testing::Enumerator>);
static_assert(!RandomSource<int>);

namespace {

// A generator that counts its calls.
struct Counting {
  using result_type = std::uint64_t;
  std::mt19937_64 inner{1};
  int calls = 0;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<std::uint64_t>::max(); }
  result_type operator()() {
    ++calls;
    return inner();
  }
};

}  // namespace

TEST_CASE("coins of probability 0 or 1 use no random number, other coins use one") {
  Counting generator;
  RandomChance chance{generator};
  CHECK(chance.coin(1.0));
  CHECK(chance.coin(7.0));
  CHECK_FALSE(chance.coin(0.0));
  CHECK_FALSE(chance.coin(-1.0));
  CHECK(generator.calls == 0);
  chance.coin(0.5);
  CHECK(generator.calls == 1);
}

TEST_CASE("a coin falls exactly if u < h") {
  struct Constant {
    using result_type = std::uint64_t;
    std::uint64_t value;
    static constexpr result_type min() { return 0; }
    static constexpr result_type max() { return std::numeric_limits<std::uint64_t>::max(); }
    result_type operator()() { return value; }
  };
  Constant half{std::uint64_t{1} << 63}, ones{std::numeric_limits<std::uint64_t>::max()};
  RandomChance at_half{half}, near_one{ones};
  CHECK_FALSE(at_half.coin(0.5));
  CHECK(at_half.coin(std::nextafter(0.5, 1.0)));
  CHECK_FALSE(near_one.coin(std::nextafter(1.0, 0.0)));
}

TEST_CASE("a coin with probability NaN is an error") {
  std::mt19937_64 generator;
  RandomChance chance{generator};
  testing::Enumerator enumerator;
  CHECK_THROWS_AS(chance.coin(std::numeric_limits<double>::quiet_NaN()), InvalidDistribution);
  CHECK_THROWS_AS(enumerator.coin(std::numeric_limits<double>::quiet_NaN()), InvalidDistribution);
}

TEST_CASE("a coin falls as often as its probability says") {
  std::mt19937_64 generator{9};
  RandomChance chance{generator};
  int heads = 0;
  for (int i = 0; i < 100000; ++i) heads += chance.coin(0.3);
  CHECK(std::abs(heads - 30000) < 5 * 145);
}

TEST_CASE("as_chance wraps generators and passes chance through") {
  Counting generator;
  RandomChance chance{generator};
  static_assert(std::is_same_v<decltype(as_chance(generator)), RandomChance<Counting>>);
  static_assert(std::is_same_v<decltype(as_chance(chance)), RandomChance<Counting>&>);
  CHECK(&as_chance(chance) == &chance);
}

TEST_CASE("a coin with probability NaN is the library's error, also in a race") {
  Counting generator;
  RandomChance chance{generator};
  testing::Enumerator enumerator;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto complaint = [](auto&& f) { return support::message_of<InvalidDistribution>(f); };
  CHECK(complaint([&] { chance.coin(nan); }) == "specdec: a coin has probability nan");
  CHECK(complaint([&] { enumerator.coin(nan); }) == "specdec: a coin has probability nan");
  CHECK(complaint([&] { chance.race(nan, OneHotRow(1)); }) == "specdec: a coin has probability nan");
}

}  // namespace test_chance_chance

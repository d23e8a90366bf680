// Oracle for uniform01 and the draws: a second implementation, including the generators (the C++ standard fixes their
// sequences). The generation's text is a recorded one. All values must be equal under every standard library.
// SPDX-License-Identifier: MIT
#include <cstdint>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_chance_random {

using namespace specdec;

namespace {

// Counts up over 0..last and starts again: a generator with known bits.
template <std::uint64_t last>
struct Counter {
  using result_type = std::uint64_t;
  std::uint64_t value = 0;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return last; }
  result_type operator()() { return value++ % (last + 1); }
};

struct Constant {
  using result_type = std::uint64_t;
  std::uint64_t value;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<std::uint64_t>::max(); }
  result_type operator()() { return value; }
};

}  // namespace

TEST_CASE("SplitMix64 gives the sequence of its published implementation") {
  SplitMix64 generator{1234567};
  for (const std::uint64_t expected :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u})
    CHECK(generator() == expected);
  static_assert(RandomBitGenerator<SplitMix64> && RandomBitGenerator<std::mt19937> &&
                RandomBitGenerator<std::minstd_rand> && !RandomBitGenerator<int>);
}

TEST_CASE("random_bits64 passes a 64-bit generator through") {
  std::mt19937_64 a{42}, b{42};
  for (int i = 0; i < 100; ++i) CHECK(random_bits64(a) == b());
}

TEST_CASE("random_bits64 joins two 32-bit words, the first one high") {
  std::mt19937 a{42}, b{42};
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t high = b(), low = b();
    CHECK(random_bits64(a) == (high << 32 | low));
  }
}

TEST_CASE("random_bits64 rejects numbers beyond the largest power of two") {
  Counter<4> five;  // 0 1 2 3 4 0 1 2 3 4 ...: two bits a number; 4 is rejected
  std::uint64_t expected = 0;
  for (int i = 0; i < 32; ++i) expected = expected << 2 | static_cast<std::uint64_t>(i % 4);
  CHECK(random_bits64(five) == expected);

  // Min 1, max 2^31 − 2: thirty bits a number, so 90 bits are joined and the last 64 are kept.
  std::minstd_rand0 odd{1};
  std::minstd_rand0 raw{1};
  std::uint64_t bits = 0;
  for (int i = 0; i < 3; ++i) {
    std::uint64_t word = raw() - 1;
    while (word >= (std::uint64_t{1} << 30)) word = raw() - 1;
    bits = bits << 30 | word;
  }
  CHECK(random_bits64(odd) == bits);
}

TEST_CASE("uniform01 uses the high 53 bits and never reaches 1") {
  Constant zero{0}, ones{std::numeric_limits<std::uint64_t>::max()}, half{std::uint64_t{1} << 63};
  Constant low{(std::uint64_t{1} << 11) - 1}, least{std::uint64_t{1} << 11};
  CHECK(uniform01(zero) == 0.0);
  CHECK(uniform01(low) == 0.0);
  CHECK(uniform01(least) == 0x1p-53);
  CHECK(uniform01(half) == 0.5);
  CHECK(uniform01(ones) == 1 - 0x1p-53);
}

TEST_CASE("uniform01 gives fixed known values") {
  std::mt19937_64 rng{42};
  CHECK(uniform01(rng) == 0x1.82a3befaddcbcp-1);
  CHECK(uniform01(rng) == 0x1.472f1f73724a0p-1);
  CHECK(uniform01(rng) == 0x1.81192cfe1cbcfp-1);
  std::mt19937 narrow{42};
  CHECK(uniform01(narrow) == 0x1.7f87719b2fa8ep-2);
}

TEST_CASE("draws from a row, and a whole generation, give fixed known values") {
  Eigen::RowVectorXf row(5);
  row << 0.1f, 0.2f, 0.3f, 0.25f, 0.15f;
  std::mt19937_64 rng{42};
  RandomChance chance{rng};
  std::vector<Token> drawn(12);
  for (Token& x : drawn) x = chance.draw(distributions(row).row(0));
  CHECK(drawn == std::vector<Token>{3, 3, 3, 1, 4, 0, 2, 2, 1, 2, 0, 2});

  std::mt19937_64 seed{7};
  auto target = testing::TableModel<float>::random(6, 2, seed);
  SpecDec decoder{target, ModelDrafter{testing::TableModel<float>::random(6, 2, seed)}, BlockVerifier{}};
  const Result r = decoder.generate(std::vector<Token>{0}, {.max_new_tokens = 24, .gamma = 3}, rng);
  CHECK(r.tokens ==
        std::vector<Token>{1, 0, 2, 3, 5, 0, 3, 3, 0, 5, 4, 1, 2, 3, 3, 5, 0, 3, 3, 5, 0, 0, 5, 0});
}

}  // namespace test_chance_random

// AnyGenerator gives the bits of the generator that it holds, and takes numbers back.
// SPDX-License-Identifier: MIT
#include "specdec/chance/any_generator.hpp"

#include <concepts>
#include <cstdint>
#include <functional>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_chance_any_generator {

using namespace specdec;

static_assert(!std::copyable<AnyGenerator> && std::movable<AnyGenerator>);

namespace {

// Compares numbers and draws of a held generator with those of an equal generator that is not held.
template <class Generator>
void check_held(const Generator& generator) {
  Generator itself = generator;
  AnyGenerator held{Generator(generator)};
  RandomChance by_itself(itself);
  RandomChance by_held(held);
  const std::vector<double> p{0.2, 0.5, 0.3};
  const DenseRow row(p.data(), 3);
  for (int n = 0; n < 20; ++n) {
    CHECK(random_bits64(held) == random_bits64(itself));
    CHECK(uniform01(held) == uniform01(itself));
    CHECK(by_held.coin(0.4) == by_itself.coin(0.4));
    CHECK(by_held.draw(row) == by_itself.draw(row));
  }
}

// A generator without operator==.
struct Incomparable {
  std::mt19937_64 rng{1};
  using result_type = std::uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() { return rng(); }
};

// Numbers come again after rewind() and not after mark(), also those that a second try did not need.
void check_taken_back(AnyGenerator tested) {
  std::mt19937_64 rng{1};
  std::vector<std::uint64_t> bits;
  for (int n = 0; n < 6; ++n) bits.push_back(rng());
  const auto expect = [&](std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) CHECK(tested() == bits[i]);
  };
  expect(0, 4);
  tested.rewind();
  expect(0, 1);
  tested.rewind();
  expect(0, 2);
  tested.mark();
  expect(2, 3);
  tested.rewind();
  expect(2, 5);
  tested.mark();
  tested.rewind();
  expect(5, 6);
}

}  // namespace

TEST_CASE("a held generator of any kind gives the numbers that it gives by itself") {
  check_held(std::mt19937{1});      // 32 bits a call
  check_held(std::mt19937_64{2});   // 64 bits a call
  check_held(std::minstd_rand{3});  // fewer than 31 bits a call, never 0
  check_held(std::ranlux48_base{4});
}

TEST_CASE("a generator that is referred to goes on where it is") {
  Philox rng{3}, itself{3};
  AnyGenerator held(std::ref(rng));
  for (int n = 0; n < 5; ++n) CHECK(held() == itself());
  CHECK(rng.offset() == 5);
}

TEST_CASE("after rewind() the numbers since the last mark() come again") {
  check_taken_back(std::mt19937_64{1});
  std::mt19937_64 rng{1};
  check_taken_back(std::ref(rng));
  Incomparable incomparable;
  check_taken_back(std::ref(incomparable));
}

TEST_CASE("a generator that is referred to goes back, unless somebody else has drawn from it") {
  Philox rng{3};
  AnyGenerator first(std::ref(rng));
  first();
  first.mark();
  const auto bits = first();
  first();
  CHECK(rng.offset() == 3);
  first.rewind();
  CHECK(rng.offset() == 1);
  CHECK(first() == bits);

  // Two texts draw from one generator. What the second has used must not come again.
  AnyGenerator second(std::ref(rng));
  const auto used = second();
  second.mark();
  first.rewind();
  CHECK(rng.offset() == 3);
  CHECK(first() == bits);
  CHECK(first() != used);
}

}  // namespace test_chance_any_generator

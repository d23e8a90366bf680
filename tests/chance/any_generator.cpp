// AnyGenerator gives the bits of the generator that it holds.
#include "specdec/chance/any_generator.hpp"

#include <functional>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_chance_any_generator {

using namespace specdec;

namespace {

// Compares numbers and draws of a held generator with those of an equal generator that is not held.
template <class Generator>
void check_held(const Generator& generator) {
  Generator itself = generator;
  AnyGenerator held(generator);
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

TEST_CASE("a copy of a held generator goes on independently") {
  AnyGenerator first{std::mt19937{5}}, second = first;
  const auto bits = first();
  first();
  CHECK(second() == bits);
}

}  // namespace test_chance_any_generator

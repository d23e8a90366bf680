// RewindableGenerator repeats the numbers since the last mark.
#include "specdec/chance/rewindable_generator.hpp"

#include <cstdint>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace test_chance_rewindable_generator {

using namespace specdec;

TEST_CASE(
    "after rewind() the numbers since the last mark() come again, even those that a second try did not "
    "need") {
  std::mt19937_64 rng{1};
  RewindableGenerator tested{AnyGenerator{rng}};
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
  tested.mark();  // the second try needed fewer numbers
  expect(2, 3);
  tested.rewind();
  expect(2, 5);
  tested.mark();
  tested.rewind();
  expect(5, 6);
}

}  // namespace test_chance_rewindable_generator

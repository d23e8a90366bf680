// Picking by flags: every flagged number once, without gaps, and no more excess writes than promised.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <random>
#include <specdec/sample/threshold/flags.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_sample_flags {

using specdec::detail::both;
using specdec::detail::Flags;

namespace {

// The picked numbers, in the order of k.
std::vector<std::size_t> picked(const std::vector<bool>& flagged, std::size_t first) {
  Flags flags;
  for (std::size_t i = 0; i < Flags::size; ++i) flags[i] = flagged[i] ? 1 : 0;
  constexpr std::size_t nothing = 1'000'000;
  std::vector<std::size_t> put(first + Flags::size + Flags::excess, nothing);
  std::size_t highest = 0;
  const std::size_t end = flags.pick(first, [&](std::size_t k, std::size_t i) {
    highest = std::max(highest, k);
    REQUIRE(k >= first);
    REQUIRE(k < put.size());
    REQUIRE(i < Flags::size);  // excess numbers must be valid too: memory is read there
    put[k] = i;
  });
  REQUIRE(end >= first);
  REQUIRE(highest < end + Flags::excess);
  return {put.begin() + static_cast<std::ptrdiff_t>(first), put.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

TEST_CASE("flags pick what is flagged, each number once") {
  std::mt19937 rng{1};
  for (const unsigned share : {0u, 1u, 10u, 50u, 90u, 100u})
    for (const std::size_t first : {0u, 7u}) {
      std::vector<bool> flagged(Flags::size);
      std::vector<std::size_t> expected;
      for (std::size_t i = 0; i < Flags::size; ++i) {
        flagged[i] = rng() % 100 < share;
        if (flagged[i]) expected.push_back(i);
      }
      auto got = picked(flagged, first);
      std::ranges::sort(got);
      CAPTURE(share, first);
      CHECK(got == expected);
    }
}

TEST_CASE("a single flag is found at every place") {
  for (std::size_t i = 0; i < Flags::size; ++i) {
    std::vector<bool> flagged(Flags::size);
    flagged[i] = true;
    REQUIRE(picked(flagged, 0) == std::vector{i});
  }
}

TEST_CASE("both() of two flags is their conjunction") {
  CHECK(both(true, true) == 1);
  CHECK(both(true, false) == 0);
  CHECK(both(false, true) == 0);
  CHECK(both(false, false) == 0);
}

}  // namespace test_sample_flags

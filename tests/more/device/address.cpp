// Numbers by address: the published generator. (.ci/gpu compiles them without Eigen.)
// SPDX-License-Identifier: MIT
#include "specdec/more/device/address.hpp"

#include <cmath>
#include <set>
#include <utility>

#include "support/catch.hpp"

namespace test_more_device_address {

using namespace specdec;

static_assert(numbers_at(1, {2, 3, 4}) == numbers_at(1, {2, 3, 4}),
              "it may be used in a constant expression");
static_assert(detail::lost_below(0.25) == 0.75 && detail::lost_below(1) == 0 && detail::lost_below(3) == 0);
static_assert(detail::won_below(0.5, 0.5, 0.125) == 0.75, "1/2 is lost, and half of the rest is won");
static_assert(detail::won_below(2, 0.5, 0.25) == 0.25);
static_assert(detail::won_below(1, 0, 0) == 0 && detail::won_below(0x1p-1000, 0x1p-1000, 0) < 1.5);

TEST_CASE("the numbers of an address are halves of a block of Philox, under a key of their own") {
  const std::uint64_t seed = 0x1122334455667788, step = 0x99aabbccddeeff00;
  const Philox::Block words =
      Philox::block({0xddeeff00, 0x99aabbcc, 7, 9}, {0x55667788 ^ 0x85a308d3, 0x11223344 ^ 0x243f6a88});
  const auto [draw, coin] = numbers_at(seed, {step, 7, 9});
  CHECK(draw == std::ldexp(static_cast<double>((words[0] | std::uint64_t{words[1]} << 32) >> 11), -53));
  CHECK(coin == std::ldexp(static_cast<double>((words[2] | std::uint64_t{words[3]} << 32) >> 11), -53));
}

TEST_CASE("each part of an address, and the seed, gives other numbers") {
  std::set<double> seen;
  int count = 0;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32, 1ull << 63})
    for (const std::uint64_t step : {0ull, 1ull, 1ull << 32, 1ull << 63})
      for (const std::uint32_t question : {0u, 1u, 1u << 31})
        for (const std::uint32_t round : {0u, 1u, 1u << 31}) {
          const auto [draw, coin] = numbers_at(seed, {step, question, round});
          seen.insert({draw, coin});
          count += 2;
        }
  CHECK(static_cast<int>(seen.size()) == count);
}

}  // namespace test_more_device_address

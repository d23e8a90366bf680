// Keys of floating-point numbers: integers with the numbers' order, and back.
// SPDX-License-Identifier: MIT
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <specdec/sample/threshold/ordered_key.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace test_sample_ordered_key {

using specdec::detail::from_ordered_key;
using specdec::detail::ordered_key;
using specdec::detail::OrderedKey;

static_assert(std::is_same_v<OrderedKey<float>, std::int32_t> &&
              std::is_same_v<OrderedKey<double>, std::int64_t>);

namespace {

// From −inf to inf, ascending, with the limits of normal and of subnormal numbers.
template <class F>
std::vector<F> ascending() {
  using Limits = std::numeric_limits<F>;
  const F denormal = Limits::denorm_min(), normal = Limits::min();
  const F positive[] = {denormal,
                        2 * denormal,
                        std::nextafter(normal, F{0}),
                        normal,
                        F(0.5),
                        std::nextafter(F{1}, F{0}),
                        F{1},
                        F{2},
                        F(1e30),
                        Limits::max(),
                        Limits::infinity()};
  std::vector<F> out;
  for (const F x : positive) out.insert(out.begin(), -x);
  out.push_back(0);
  out.insert(out.end(), std::begin(positive), std::end(positive));
  return out;
}

template <class F>
bool order_is_kept() {
  const std::vector<F> numbers = ascending<F>();
  for (const F x : numbers)
    for (const F y : numbers)
      if ((x < y) != (ordered_key(x) < ordered_key(y))) return false;
  return true;
}

template <class F>
bool numbers_come_back() {
  for (const F x : ascending<F>())
    if (from_ordered_key<F>(ordered_key(x)) != x) return false;
  return true;
}

// Keys have no gaps: the next key belongs to the next number.
template <class F>
bool neighbours_are_neighbours() {
  for (const F x : ascending<F>())
    if (x < std::numeric_limits<F>::infinity() &&
        from_ordered_key<F>(ordered_key(x) + 1) != std::nextafter(x, std::numeric_limits<F>::infinity()))
      return false;
  return true;
}

}  // namespace

TEST_CASE("keys have the order of their numbers") {
  CHECK(order_is_kept<float>());
  CHECK(order_is_kept<double>());
}

TEST_CASE("the two zeros have one key, between the smallest numbers") {
  CHECK(ordered_key(-0.0) == ordered_key(0.0));
  CHECK(ordered_key(-0.0f) == ordered_key(0.0f));
  CHECK(ordered_key(std::numeric_limits<double>::denorm_min()) == ordered_key(0.0) + 1);
  CHECK(ordered_key(-std::numeric_limits<double>::denorm_min()) == ordered_key(0.0) - 1);
}

TEST_CASE("a number can be recovered from its key, and neighbouring keys are neighbouring numbers") {
  CHECK(numbers_come_back<float>());
  CHECK(numbers_come_back<double>());
  CHECK(neighbours_are_neighbours<float>());
  CHECK(neighbours_are_neighbours<double>());
}

TEST_CASE("keys of any bit patterns keep the order") {
  std::mt19937 rng{1};
  for (int n = 0; n < 10'000; ++n) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(rng())),
               y = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    if (std::isnan(x) || std::isnan(y)) continue;
    REQUIRE((x < y) == (ordered_key(x) < ordered_key(y)));
  }
}

}  // namespace test_sample_ordered_key

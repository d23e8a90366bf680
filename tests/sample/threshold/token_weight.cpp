// The weight of tokens in a search for a cut: their number, or their mass; as numbers and in whole units.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <specdec/sample/threshold/token_weight.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_sample_token_weight {

using namespace specdec;
using detail::chunk_size;
using detail::TokenCount;
using detail::TokenMass;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
// A chunk of these logits, padded with −inf.
std::vector<float> chunk(std::initializer_list<float> logits) {
  std::vector<float> out(chunk_size, -infinity);
  std::ranges::copy(logits, out.begin());
  return out;
}

}  // namespace

TEST_CASE("every token counts one, except tokens with logit -inf") {
  const TokenCount<float> count;
  constexpr float lowest = std::numeric_limits<float>::lowest();
  const auto logits = chunk({3, -infinity, 0, lowest, -2});
  CHECK(count.sum(logits.data(), lowest) == 4);
  CHECK(count.sum(logits.data(), 0) == 2);
  CHECK(count.unit(3) == 1);
  std::vector<TokenCount<float>::Weight> weights(chunk_size, 77), expected(chunk_size, 0);
  count.weigh(logits.data(), 3, weights.data());
  for (const std::size_t i : {0u, 2u, 3u, 4u}) expected[i] = 1;
  CHECK(weights == expected);
}

TEST_CASE("a token's weight is its exponential, relative to the shift and at the temperature") {
  const TokenMass<float> mass{1.0f, 2.0f};  // temperature 1/2
  const auto logits = chunk({1, 0, -infinity, 2});
  const double e = 1 + std::exp(-2.0) + std::exp(2.0);
  CHECK(std::abs(mass.sum(logits.data(), -100) - e) < 1e-6 * e);
  CHECK(std::abs(mass.sum(logits.data(), 1) - (1 + std::exp(2.0))) < 1e-6 * e);
}

TEST_CASE("weights in whole units differ from the exact ones by at most a part in 2^24 of the largest") {
  const TokenMass<float> mass{1.0f, 0.5f};
  const auto logits = chunk({3, 2, -infinity, 0.5f, -20});
  std::vector<TokenMass<float>::Weight> weights(chunk_size, 77);
  mass.weigh(logits.data(), 3.0f, weights.data());
  CHECK(weights[0] == TokenMass<float>::Weight{1} << TokenMass<float>::bits);
  CHECK(weights[2] == 0);
  CHECK(weights.back() == 0);
  const double unit = mass.unit(3.0f), largest = std::exp((3 - 1) * 0.5);
  for (const std::size_t x : {0u, 1u, 3u, 4u}) {
    const double w = std::exp((static_cast<double>(logits[x]) - 1) * 0.5);
    CHECK(std::abs(unit * static_cast<double>(weights[x]) - w) < 0x1p-22 * largest);
  }
}

TEST_CASE("a cut leaves at least one whole unit, whatever weight is asked for") {
  using detail::whole_units;
  CHECK(whole_units(1) == 1);
  CHECK(whole_units(12.5) == 12);
  CHECK(whole_units(-3) == 1);
  constexpr double large = std::numeric_limits<double>::infinity();
  CHECK(whole_units(large) == std::uint64_t{1} << 62);
  CHECK(whole_units(-large) == 1);
  CHECK(whole_units(std::numeric_limits<double>::quiet_NaN()) == 1);
}

TEST_CASE("gathered numbers are weighed by their keys, however many there are") {
  detail::WeighedNumbers<float> numbers;
  numbers.size = 1300;
  for (std::size_t i = 0; i < numbers.size; ++i)
    numbers.keys[i] = detail::ordered_key(i % 2 == 0 ? 2.0f : 1.0f);
  numbers.fill_up();
  const TokenMass<float> mass{0.0f, 1.0f};
  detail::weigh(numbers, mass, 2.0f);
  constexpr double largest = 1u << TokenMass<float>::bits;
  for (std::size_t i = 0; i < numbers.size; ++i)
    CHECK(std::abs(numbers.weights[i] / largest - (i % 2 == 0 ? 1 : std::exp(-1.0))) < 1e-6);
}

}  // namespace test_sample_token_weight

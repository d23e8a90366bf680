// What tokens weigh in a search for a cut: their number, their mass; in numbers and in whole units.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <specdec/sample/token_weight.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_sample_token_weight {

using namespace specdec;
using detail::Flags;
using detail::TokenCount;
using detail::TokenMass;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
using Row = Eigen::ArrayXf;

}  // namespace

TEST_CASE("every token counts one, but those of logit -inf") {
  const TokenCount<float> count;
  Row logits(5);
  logits << 3, -infinity, 0, std::numeric_limits<float>::lowest(), -2;
  CHECK(count.sum(logits) == 4);
  CHECK(count.unit(3) == 1);
  std::vector<TokenCount<float>::Weight> weights(5, 77);
  count.weigh(logits.data(), 4, 3, weights.data());
  CHECK(weights == std::vector<TokenCount<float>::Weight>{1, 1, 1, 1, 77});
}

TEST_CASE("tokens weigh their exponentials, relative to the shift and at the temperature") {
  const TokenMass<float> mass{1.0f, 2.0f};  // temperature 1/2
  Row logits(4);
  logits << 1, 0, -infinity, 2;
  const double e = 1 + std::exp(-2.0) + std::exp(2.0);
  CHECK(std::abs(mass.sum(logits) - e) < 1e-6 * e);
}

TEST_CASE("in whole units tokens weigh the same, to a part in 2^24 of the largest") {
  const TokenMass<float> mass{1.0f, 0.5f};
  Row logits(5);
  logits << 3, 2, -infinity, 0.5f, -20;
  std::vector<TokenMass<float>::Weight> weights(6, 77);
  mass.weigh(logits.data(), 5, 3.0f, weights.data());
  CHECK(weights[5] == 77);
  CHECK(weights[0] == TokenMass<float>::Weight{1} << TokenMass<float>::bits);
  CHECK(weights[2] == 0);
  const double unit = mass.unit(3.0f), largest = std::exp((3 - 1) * 0.5);
  for (const Index x : {0, 1, 3, 4}) {
    const double w = std::exp((static_cast<double>(logits[x]) - 1) * 0.5);
    CHECK(std::abs(unit * static_cast<double>(weights[static_cast<std::size_t>(x)]) - w) < 0x1p-22 * largest);
  }
}

TEST_CASE("the weight of a chunk, and of what lies above a number") {
  const TokenMass<float> mass{0.0f, 1.0f};
  Row logits = Row::Constant(static_cast<Index>(Flags::size), -infinity);
  logits[0] = 0;
  logits[100] = 1;
  logits[511] = 2;
  const auto [all, above] = mass.sums(logits.data(), 1.0f);
  CHECK(std::abs(all - (1 + std::exp(1.0) + std::exp(2.0))) < 1e-5);
  CHECK(std::abs(above - std::exp(2.0)) < 1e-5);  // not what equals it
}

TEST_CASE("a cut leaves one whole unit at least, whatever weight is asked for") {
  using detail::whole_units;
  CHECK(whole_units(1) == 1);
  CHECK(whole_units(12.5) == 12);
  CHECK(whole_units(-3) == 1);
  constexpr double large = std::numeric_limits<double>::infinity();
  CHECK(whole_units(large) == std::uint64_t{1} << 62);
  CHECK(whole_units(-large) == 1);
  CHECK(whole_units(std::numeric_limits<double>::quiet_NaN()) == 1);
}

TEST_CASE("gathered numbers are weighed by their keys, however many") {
  detail::Weighed<float> numbers;
  numbers.size = 1300;
  for (std::size_t i = 0; i < numbers.size; ++i)
    numbers.keys[i] = detail::ordered_key(i % 2 == 0 ? 2.0f : 1.0f);
  const TokenMass<float> mass{0.0f, 1.0f};
  detail::weigh(numbers, mass, 2.0f);
  constexpr double largest = 1u << TokenMass<float>::bits;
  for (std::size_t i = 0; i < numbers.size; ++i)
    CHECK(std::abs(numbers.weights[i] / largest - (i % 2 == 0 ? 1 : std::exp(-1.0))) < 1e-6);
}

}  // namespace test_sample_token_weight

// Exponential numbers against logarithms in long double, and first arrivals against a scan of every token.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <specdec/chance/random.hpp>
#include <specdec/kernels/arrivals.hpp>

#include "kernels/widths.hpp"
#include "support/catch.hpp"

namespace test_kernels_arrivals {

using namespace test_kernels;

namespace {

struct WriteExponentialNumbers {
  static SPECDEC_KERNEL bool run(const std::uint64_t* bits, double* out) {
    for (Index i = 0; i < lot; ++i) out[i] = exponential_of(bits[i]);
    return true;
  }
};

std::vector<double> exponentials(const std::vector<std::uint64_t>& bits, VectorWidth width) {
  std::vector<double> out(bits.size());
  for (std::size_t i = 0; i < bits.size(); i += lot)
    run_at<WriteExponentialNumbers>(width, bits.data() + i, out.data() + i);
  return out;
}

// Bit patterns of all orders of magnitude, from both ends.
std::vector<std::uint64_t> bits_of_all_sizes() {
  SplitMix64 random(3);
  std::vector<std::uint64_t> bits{0, 1, ~std::uint64_t{0}, ~std::uint64_t{1}};
  for (int i = 0; i < 30; ++i)
    for (int shift = 0; shift < 64; ++shift) {
      bits.push_back(random() >> shift);
      bits.push_back(~(random() >> shift));
    }
  bits.resize(bits.size() / lot * lot);
  return bits;
}

long double exact_exponential(std::uint64_t bits) {
  const long double u = (static_cast<long double>(bits) + 0.5L) * 0x1p-64L;
  if (u < 0.5L) return -std::log1p(-u);
  return -std::log((static_cast<long double>(~bits) + 0.5L) * 0x1p-64L);
}

// The documented arrivals, token by token.
template <class Scalar, class Tokens>
Arrival first_of(const std::vector<Scalar>& p, const Tokens& tokens, std::uint64_t key) {
  std::vector<std::uint64_t> bits(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    SplitMix64 numbers(key + static_cast<std::uint64_t>(tokens[static_cast<Index>(i)]) * splitmix_step);
    bits[i] = numbers();
  }
  const auto e = exponentials(bits, VectorWidth::portable);
  Arrival first;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0 && (first.token < 0 || e[i] / static_cast<double>(p[i]) < first.time))
      first = {e[i] / static_cast<double>(p[i]), tokens[static_cast<Index>(i)], false};
  return first;
}

// Small and large numbers, and many zeros, some of them negative. Every second row is one of probabilities, below 1.
template <class Scalar>
std::vector<Scalar> some_row(std::size_t size, std::mt19937_64& rng) {
  std::vector<Scalar> p(size);
  std::normal_distribution<double> normal(0, 4);
  const bool large = rng() % 2 == 0;
  const double factor = large ? 1 : std::ldexp(1e-8, -static_cast<int>(rng() % 100));
  for (Scalar& x : p) {
    x = rng() % 3 == 0 ? Scalar{0} : static_cast<Scalar>(factor * std::exp(normal(rng)));
    if (large && rng() % 8 == 0) x = -Scalar{0};
  }
  return p;
}

template <class Scalar, class Tokens>
bool finds_the_first(const std::vector<Scalar>& p, const Tokens& tokens, std::uint64_t key) {
  const Arrival expected = first_of(p, tokens, key);
  for (const VectorWidth width : widths()) {
    const Arrival found =
        run_at<FirstArrival<Scalar, Tokens>>(width, p.data(), std::ssize(p), tokens, key, Arrival{});
    if (found.token != expected.token || !same(found.time, expected.time) || found.has_bad_row) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("exponential numbers have all their bits, even the smallest ones, at every width") {
  const auto bits = bits_of_all_sizes();
  const auto numbers = exponentials(bits, VectorWidth::portable);
  for (const VectorWidth width : widths()) REQUIRE(exponentials(bits, width) == numbers);
  double worst = 0;
  for (std::size_t i = 0; i < bits.size(); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(numbers[i] / exact_exponential(bits[i]) - 1)));
  CHECK(worst < 0x1p-50);
  CHECK(numbers[0] == 0x1p-65);
}

TEST_CASE("the first arrival is found at every width, at every place") {
  std::mt19937_64 rng{6};
  bool found = true;
  for (int i = 0; i < 200; ++i) {
    const auto size = static_cast<std::size_t>(lot * (1 + static_cast<Index>(rng() % 6)));
    const auto p = some_row<double>(size, rng);
    const auto q = some_row<float>(size, rng);
    std::vector<Token> ids(size);
    for (Token& id : ids) id = static_cast<Token>(rng() % 100000);
    const ConsecutiveTokens stretch{static_cast<Index>(rng() % 100000)};
    found = found && finds_the_first(p, stretch, rng()) && finds_the_first(q, stretch, rng()) &&
            finds_the_first(p, ListedTokens{ids.data()}, rng());
  }
  CHECK(found);
}

// Of tokens that are equally probable, the one with the least u is first. Its first 31 bits are compared as a float.
TEST_CASE("no token is passed over by the first bits of its number") {
  bool found = true;
  for (std::uint64_t key = 0; key < 500; ++key) {
    const std::vector<float> p(std::size_t{100} * lot, std::ldexp(1.0f, -static_cast<int>(key % 120)));
    found = found && finds_the_first(p, ConsecutiveTokens{7}, key);
  }
  CHECK(found);
}

TEST_CASE(
    "among equal arrivals the earlier one stays first; zeros never arrive, and bad numbers are noticed") {
  std::vector<double> p(lot, 0.25);
  std::vector<Token> ids(lot, 7);
  const auto run = [&](Arrival before) {
    return run_wide<FirstArrival<double, ListedTokens>>(static_cast<const double*>(p.data()), lot,
                                                        ListedTokens{ids.data()}, std::uint64_t{1}, before);
  };
  const double time = run({}).time;
  CHECK(run({time, 3, false}).token == 3);
  CHECK(run({std::nextafter(time, 9.0), 3, false}).token == 7);
  std::fill(p.begin(), p.end(), 0.0);
  CHECK(run({}).token == -1);
  p[20] = std::numeric_limits<double>::denorm_min();  // so small that the arrival time overflows
  ids[20] = 9;
  CHECK(run({}).token == 9);
  for (const double bad :
       {std::nan(""), -std::nan(""), -0.1, -2.0, std::numeric_limits<double>::infinity()}) {
    p[63] = bad;
    CHECK(run({}).has_bad_row);
    const std::vector<float> floats(p.begin(), p.end());
    CHECK(run_wide<FirstArrival<float, ConsecutiveTokens>>(floats.data(), lot, ConsecutiveTokens{0},
                                                           std::uint64_t{1}, Arrival{})
              .has_bad_row);
  }
}

}  // namespace test_kernels_arrivals

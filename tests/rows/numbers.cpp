// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_numbers {

using namespace specdec;
using namespace support;

using Half = Eigen::half;
using BFloat = Eigen::bfloat16;

static_assert(Real<float> && Real<double> && Real<long double> && Real<Half> && Real<BFloat>);
static_assert(!Real<int> && !Real<bool>);
static_assert(std::is_same_v<Arithmetic<double>, double> && std::is_same_v<Arithmetic<Half>, float> &&
              std::is_same_v<Arithmetic<BFloat>, float>);
static_assert(NumberMatrix<RowPointers<float>> && NumberMatrix<const RowPointers<Half, Eigen::Dynamic>&>);
static_assert(NumberMatrix<RowMajor<Half>> && NumberMatrix<RowMajor<BFloat>>);
static_assert(!NumberMatrix<std::vector<const float*>> && !NumberMatrix<NumberRow<float>>);
static_assert(std::is_same_v<NumbersOf<RowMajor<float>>::Row, NumberRow<float, 1>>,
              "neighbours in a row-major row are known to be neighbours");
static_assert(std::is_same_v<NumbersOf<ColMajor<float>>::Row, NumberRow<float, Eigen::Dynamic>>);

namespace {

template <class Scalar>
Scalar of(int n) {
  return static_cast<Scalar>(static_cast<float>(n));
}

}  // namespace

TEMPLATE_TEST_CASE("a row of numbers may have any stride", "", float, double, Half, BFloat) {
  std::vector<TestType> memory;
  for (int k = 0; k < 60; ++k) memory.push_back(of<TestType>(k));
  const NumberRow<TestType> packed(memory.data() + 2, 10);
  const NumberRow<TestType, Eigen::Dynamic> strided(memory.data() + 1, 10, 5);
  std::vector<TestType> copy(10);
  for (Index x = 0; x < 10; ++x) {
    CHECK(static_cast<double>(packed[x]) == static_cast<double>(2 + x));
    CHECK(static_cast<double>(strided[x]) == static_cast<double>(1 + 5 * x));
  }
  CHECK(static_cast<double>(packed.segment(3, 4).sum()) == 5 + 6 + 7 + 8);
  CHECK(static_cast<double>(strided.segment(3, 4).sum()) == 16 + 21 + 26 + 31);
  CHECK(static_cast<double>(strided.max(2, 5)) == 31);
  packed.copy_to(copy.data());
  for (Index x = 0; x < 10; ++x)
    CHECK(copy[static_cast<std::size_t>(x)] == of<TestType>(static_cast<int>(2 + x)));
  strided.copy_to(copy.data());
  for (Index x = 0; x < 10; ++x)
    CHECK(copy[static_cast<std::size_t>(x)] == of<TestType>(static_cast<int>(1 + 5 * x)));
}

TEMPLATE_TEST_CASE("a row that is read in several pieces is read in any stride", "", float, double, Half,
                   BFloat) {
  constexpr int size = 2 * static_cast<int>(max_segment_size) + 5;
  for (const int stride : {1, 3})
    for (const int largest : {0, size / 2, size - 1}) {
      std::vector<TestType> memory(static_cast<std::size_t>(size * stride), of<TestType>(9));
      for (int x = 0; x < size; ++x)
        memory[static_cast<std::size_t>(x * stride)] = of<TestType>(x == largest ? 8 : x % 7 - 3);
      const NumberRow<TestType, Eigen::Dynamic> strided(memory.data(), size, stride);
      double sum = 0;
      std::vector<Arithmetic<TestType>> read(static_cast<std::size_t>(size));
      strided.read(0, size, read.data());
      for (int x = 0; x < size; ++x) {
        sum += x == largest ? 8 : x % 7 - 3;
        if (read[static_cast<std::size_t>(x)] != strided[x]) FAIL("number " << x << " is read as another");
      }
      CHECK(strided.sum(0, size) == sum);
      CHECK(strided.max(0, size) == 8);
      if (stride > 1) continue;
      const NumberRow<TestType> packed(memory.data(), size);
      CHECK(packed.sum(0, size) == sum);
      CHECK(packed.max(0, size) == 8);
    }
}

TEMPLATE_TEST_CASE("the first of the largest numbers is found at every place", "", float, double, Half,
                   BFloat) {
  const TestType least = -std::numeric_limits<TestType>::infinity();
  const TestType nan = std::numeric_limits<TestType>::quiet_NaN();
  std::mt19937_64 rng{5};
  for (const Index size : {1, 2, 9, 63, 64, 65, 255, 257, 1000, 1024, 1025, 2999})
    for (const Index stride : {1, 2})
      for (int round = 0; round < 40; ++round) {
        std::vector<TestType> memory(static_cast<std::size_t>(size * stride), of<TestType>(9));
        // Ties of negative numbers, of zeros of both signs, and of numbers that all are the least.
        const int values = round % 4 + 1, shift = round % 5 - 6;
        std::vector<double> row;
        const auto entry = [&](Index x) -> TestType& { return memory[static_cast<std::size_t>(x * stride)]; };
        for (Index x = 0; x < size; ++x) {
          const int value = static_cast<int>(rng() % static_cast<unsigned>(values)) + shift;
          entry(x) = round == 3                     ? least
                     : rng() % 2 == 0 && value == 0 ? -of<TestType>(0)
                                                    : of<TestType>(value);
          row.push_back(static_cast<double>(entry(x)));
        }
        const NumberRow<TestType, Eigen::Dynamic> strided(memory.data(), size, stride);
        const auto first = std::ranges::max_element(row);
        REQUIRE(strided.first_largest() == first - row.begin());
        REQUIRE(static_cast<double>(strided.max(0, size)) == *first);
        if (stride == 1)
          REQUIRE(NumberRow<TestType>(memory.data(), size).first_largest() == first - row.begin());
        entry(static_cast<Index>(rng() % static_cast<std::uint64_t>(size))) = round % 2 == 0 ? nan : -nan;
        REQUIRE(message_of([&] { strided.first_largest(); }) == "the largest entry is nan");
        REQUIRE(std::isnan(static_cast<double>(strided.max(0, size))));
      }
  CHECK(NumberRow<TestType>(nullptr, 0).first_largest() == 0);
}

TEST_CASE("rows by pointer are read without a copy") {
  std::vector<float> memory(40, 77.f);
  const std::vector<const float*> pointers{memory.data() + 20, memory.data()};
  for (Index x = 0; x < 4; ++x) {
    memory[static_cast<std::size_t>(20 + x)] = static_cast<float>(x);
    memory[static_cast<std::size_t>(3 * x)] = static_cast<float>(10 + x);
  }
  const RowPointers<float> packed(pointers, 4);
  CHECK(packed.rows() == 2);
  CHECK(packed.cols() == 4);
  CHECK(packed.row(0).data() == memory.data() + 20);
  CHECK(packed.row(1).data() == memory.data());
  for (Index x = 0; x < 4; ++x) CHECK(packed.row(0)[x] == static_cast<float>(x));
  const RowPointers<float, Eigen::Dynamic> strided(pointers, 4, 3);
  for (Index x = 0; x < 4; ++x) CHECK(strided.row(1)[x] == static_cast<float>(10 + x));
  CHECK(distributions(strided).rows() == 2);
  CHECK(distributions(strided).vocab_size() == 4);
  CHECK(RowPointers<float>({}, 4).rows() == 0);
}

TEST_CASE("a matrix without entries has rows without memory") {
  const ColMajor<float> no_tokens(3, 0);
  const RowMajor<double> no_rows(0, 3);
  CHECK(numbers(no_tokens).rows() == 3);
  CHECK(numbers(no_tokens).row(2).size() == 0);
  CHECK(numbers(no_tokens).row(2).data() == nullptr);
  CHECK(numbers(no_rows).rows() == 0);
  CHECK(numbers(no_rows).row(0).data() == nullptr);
}

TEST_CASE("rows by pointer of an impossible shape are named in the error") {
  const float number = 1;
  const std::vector<const float*> pointers{&number};
  CHECK(message_of([&] { RowPointers<float>(pointers, -1); }) ==
        "specdec: rows by pointer cannot have -1 entries 1 apart");
  CHECK(message_of([&] { RowPointers<float>(pointers, 1, 2); }) ==
        "specdec: rows by pointer cannot have 1 entries 2 apart");
  CHECK(message_of([&] { RowPointers<float, Eigen::Dynamic>(pointers, 1, 0); }) ==
        "specdec: rows by pointer cannot have 1 entries 0 apart");
  CHECK_NOTHROW(RowPointers<float, Eigen::Dynamic>(pointers, 1, 2));
}

TEMPLATE_TEST_CASE("narrow scalars are widened as they are read", "", Half, BFloat) {
  // Sums in the narrow scalar would stop growing at 2048·2^-12 (half) or 256·2^-12 (bfloat16).
  const Index size = 4096;
  const RowMajor<TestType> m = RowMajor<TestType>::Constant(2, size, static_cast<TestType>(0x1p-12f));
  const auto row = distributions(m).row(0);
  CHECK(row.sum(0, size) == 1.0);
  CHECK(row.probability(77) == 0x1p-12);
  auto sampler = row.sampler();
  for (const double u : {0.0, 0.3, 0.75, 1 - 0x1p-20}) CHECK(sampler(u) == static_cast<Token>(u * 4096));
  CHECK_NOTHROW(validate(m));
}

TEMPLATE_TEST_CASE("narrow rows have an argmax, refuse NaN, and can be drawn from", "", Half, BFloat) {
  RowMajor<TestType> m(1, 4);
  m << static_cast<TestType>(0.125f), static_cast<TestType>(0.375f), static_cast<TestType>(0.375f),
      static_cast<TestType>(0.125f);
  const auto row = distributions(m).row(0);
  CHECK(row.argmax() == 1);
  auto sampler = row.sampler();
  CHECK(sampler(0.1) == 0);
  CHECK(sampler(0.125) == 1);
  CHECK(sampler(0.5) == 2);
  CHECK(sampler(0.9) == 3);
  m(0, 2) = std::numeric_limits<TestType>::quiet_NaN();
  CHECK_THROWS_AS(distributions(m).row(0).argmax(), InvalidDistribution);
  CHECK_THROWS_AS(distributions(m).row(0).sampler()(0.5), InvalidDistribution);
}

TEST_CASE("null pointers, and rows too large for any memory, are named in the error") {
  const std::vector<float> row{0.5f, 0.5f};
  const std::vector<const float*> pointers{row.data(), nullptr};
  CHECK(message_of([&] { RowPointers(pointers, 2); }) == "specdec: pointers[1] is null");
  CHECK_NOTHROW(RowPointers(pointers, 0));
  CHECK(message_of([&] { RowPointers(pointers, unlimited); }) ==
        "specdec: rows by pointer cannot have 9223372036854775807 entries 1 apart");
  CHECK(message_of([&] { RowPointers(pointers, 2, unlimited / 4); }) ==
        "specdec: rows by pointer cannot have 2 entries 2305843009213693951 apart");
}

}  // namespace test_rows_numbers

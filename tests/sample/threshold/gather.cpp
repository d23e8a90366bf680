// One pass over a row, against a loop over its logits.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <specdec/sample/threshold/gather.hpp>
#include <specdec/sample/threshold/token_weight.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/sorted.hpp"

namespace test_sample_gather {

using namespace specdec;
using namespace support;
using detail::chunk_size;
using detail::KeyRange;
using detail::ordered_key;
using detail::WeighedNumbers;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Pass {
  bool fits;
  std::vector<float> gathered;
};

template <class S, int Stride>
Pass pass(const NumberRow<S, Stride>& row, float low, float high) {
  Pass out;
  WeighedNumbers<float> near;
  const KeyRange<float> bracket{ordered_key(low), ordered_key(high)};
  out.fits = detail::gather(row, detail::LiveStretches{}, bracket, near);
  for (std::size_t k = 0; k < near.size; ++k)
    out.gathered.push_back(detail::from_ordered_key<float>(near.keys[k]));
  std::ranges::sort(out.gathered);
  return out;
}

template <class S, int Stride>
void check(const NumberRow<S, Stride>& row, float low, float high) {
  CAPTURE(row.size(), low, high);
  std::vector<float> inside;
  for (Index x = 0; x < row.size(); ++x)
    if (row[x] >= low && row[x] <= high) inside.push_back(row[x]);
  std::ranges::sort(inside);
  const Pass got = pass(row, low, high);
  CHECK(got.fits);
  CHECK(got.gathered == inside);
}

}  // namespace

TEST_CASE("chunks give the row in order, and the last one is padded with -inf") {
  std::mt19937_64 rng{1};
  for (const std::size_t size : {0u, 1u, 511u, 512u, 513u, 2000u}) {
    const std::vector<double> logits = size == 0 ? std::vector<double>() : random_logits(size, rng);
    const auto held = as<float>(logits);
    const auto narrow = as<Eigen::half>(logits);
    const auto read = [](const auto& row) {
      std::vector<float> out;
      detail::each_chunk(row, detail::LiveStretches{},
                         [&](const float* chunk) { out.insert(out.end(), chunk, chunk + chunk_size); });
      return out;
    };
    std::vector<float> whole = read(NumberRow<float>(held.data(), std::ssize(held)));
    REQUIRE(whole.size() == (size + chunk_size - 1) / chunk_size * chunk_size);
    CHECK(std::all_of(whole.begin() + std::ssize(held), whole.end(), [](float l) { return l == -infinity; }));
    whole.resize(size);
    CHECK(whole == held);
    const std::vector<float> widened = read(NumberRow<Eigen::half>(narrow.data(), std::ssize(narrow)));
    for (std::size_t x = 0; x < size; ++x) CHECK(widened[x] == static_cast<float>(narrow[x]));
  }
}

TEST_CASE("a pass gathers the logits in the range") {
  std::mt19937_64 rng{2};
  for (int n = 0; n < 100; ++n) {
    const std::size_t size = n % 10 == 0 ? 2500 : 1 + rng() % 1500;
    const auto held = as<float>(random_logits(size, rng));
    const NumberRow<float> row(held.data(), std::ssize(held));
    const NumberRow<float, Eigen::Dynamic> every_third(held.data(), (std::ssize(held) + 2) / 3, 3);
    const float some = std::max(held[rng() % size], std::numeric_limits<float>::lowest());
    for (const float low : {some, -0.5f, std::numeric_limits<float>::lowest()})
      for (const float high : {some, 0.75f, std::numeric_limits<float>::max()}) {
        check(row, low, high);
        check(every_third, low, high);
      }
  }
}

TEST_CASE("if a range holds more logits than there is room for, the pass says so") {
  const std::vector<float> held(20'000, 0.0f);
  const Pass got = pass(NumberRow<float>(held.data(), std::ssize(held)), -1, 0.5f);
  CHECK_FALSE(got.fits);
  CHECK(got.gathered.size() <= WeighedNumbers<float>::capacity);
}

}  // namespace test_sample_gather

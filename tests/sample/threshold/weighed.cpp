// Numbers with weights, against a loop over them.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/sample/threshold/weighed.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"

namespace test_sample_weighed {

using namespace specdec;
using detail::from_ordered_key;
using detail::ordered_key;

namespace {

using WeighedNumbers = detail::WeighedNumbers<double>;
using Key = WeighedNumbers::Key;

struct Pair {
  Key key;
  std::uint64_t weight;
};

// Numbers with ties and weights up to the largest. After the last number is memory that must not be used.
std::vector<Pair> random_pairs(std::size_t size, double spread, std::mt19937_64& rng) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < size; ++i) {
    const double number = spread * (uniform01(rng) - 0.5);
    const bool tie = !pairs.empty() && uniform01(rng) < 0.3;
    const std::uint64_t bits = rng() % (WeighedNumbers::weight_bits + 1);
    pairs.push_back({tie ? pairs[rng() % pairs.size()].key : ordered_key(number),
                     (std::uint64_t{1} << bits) - rng() % 2});
  }
  return pairs;
}

void fill(WeighedNumbers& out, const std::vector<Pair>& pairs) {
  out.size = pairs.size();
  out.keys.fill(1);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    out.keys[i] = pairs[i].key;
    out.weights[i] = pairs[i].weight;
  }
  out.fill_up();
  std::fill(out.weights.data() + out.size, out.weights.data() + out.whole_lots(), 0u);
}

std::uint64_t weight_at_least(const std::vector<Pair>& pairs, Key cut) {
  std::uint64_t sum = 0;
  for (const Pair& pair : pairs) sum += pair.key >= cut ? pair.weight : 0;
  return sum;
}

// The largest key in [low, high] such that the weight at or above it reaches the target; low if there is none.
Key largest_cut(const std::vector<Pair>& pairs, Key low, Key high, std::uint64_t target) {
  if (weight_at_least(pairs, high) >= target) return high;
  Key best = low;
  for (const Pair& pair : pairs)
    if (pair.key >= low && pair.key <= high && weight_at_least(pairs, pair.key) >= target)
      best = std::max(best, pair.key);
  return best;
}

}  // namespace

TEST_CASE("weights are summed exactly, even the largest ones") {
  const auto weighed = std::make_unique<WeighedNumbers>();
  const std::uint64_t most = (std::uint64_t{1} << WeighedNumbers::weight_bits) - 1;
  fill(*weighed, std::vector<Pair>(WeighedNumbers::capacity, {ordered_key(1.0), most}));
  CHECK(weighed->at_least(ordered_key(1.0)) == most * WeighedNumbers::capacity);
  CHECK(weighed->at_least(ordered_key(1.0) + 1) == 0);
  CHECK(weighed->at_least(std::numeric_limits<Key>::min()) == most * WeighedNumbers::capacity);
}

TEST_CASE("every question gets the answer of a loop over the numbers") {
  const auto weighed = std::make_unique<WeighedNumbers>();
  std::mt19937_64 rng{1};
  for (const std::size_t size : {1u, 2u, 50u, 300u, 513u, 1536u})
    for (const double spread : {0.0, 1e-300, 2.0, 1e300}) {
      const auto pairs = random_pairs(size, spread, rng);
      fill(*weighed, pairs);
      std::vector<Key> keys;
      for (const Pair& pair : pairs) keys.push_back(pair.key);
      std::ranges::sort(keys);
      CAPTURE(size, spread);
      CHECK(weighed->smallest() == keys.front());
      CHECK(weighed->largest() == keys.back());
      for (int n = 0; n < (size > 1000 ? support::bound(2) : support::bound(8)); ++n) {
        const Key a = keys[rng() % size], b = keys[rng() % size];
        const Key low = std::min(a, b), high = std::max(a, b);
        CHECK(weighed->at_least(a) == weight_at_least(pairs, a));
        CHECK(weighed->count(low, high) == static_cast<std::size_t>(std::ranges::upper_bound(keys, high) -
                                                                    std::ranges::lower_bound(keys, low)));
        const std::uint64_t all = weight_at_least(pairs, keys.front()), some = rng() % (all + 2);
        for (const std::uint64_t target : {some, all, all + 1, std::uint64_t{1}, weight_at_least(pairs, a)}) {
          CHECK(weighed->largest_cut(keys.front(), keys.back(), target) ==
                largest_cut(pairs, keys.front(), keys.back(), target));
          CHECK(weighed->largest_cut(low, high, target) == largest_cut(pairs, low, high, target));
        }
      }
    }
}

}  // namespace test_sample_weighed

// Every kernel gives equal bits at every vector width that this machine can run.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <random>
#include <specdec/kernels/exponentials.hpp>
#include <specdec/kernels/keyed_weights.hpp>
#include <specdec/kernels/machine_width.hpp>
#include <specdec/kernels/reductions.hpp>
#include <type_traits>
#include <vector>

#include "kernels/widths.hpp"
#include "support/catch.hpp"

namespace test_kernels_machine_width {

using namespace test_kernels;

namespace {

/// A product and a difference, which must not be fused, and a choice.
struct Excess {
  SPECDEC_KERNEL double operator()(double p, double q) const {
    SPECDEC_UNFUSED
    const double difference = 0.7 * p - 1.3 * q;
    return difference < 0 ? 0 : difference;
  }
};

template <class Scalar>
void check_reductions(const std::vector<Scalar>& a, const std::vector<Scalar>& b) {
  const auto size = std::ssize(a);
  CHECK(same_at_all_widths([&](auto width) { return run_at<LargestNumber<Scalar>>(width, a.data(), size); }));
  CHECK(same_at_all_widths([&](auto width) { return run_at<SumOfNumbers<Scalar>>(width, a.data(), size); }));
  CHECK(same_at_all_widths([&](auto width) {
    return run_at<PairSum<Excess, Scalar, Scalar>>(width, Excess{}, a.data(), b.data(), size);
  }));
  CHECK(same_at_all_widths([&](auto width) {
    const std::vector<float> floats(b.begin(), b.end());
    return run_at<PairSum<Excess, Scalar, float>>(width, Excess{}, a.data(), floats.data(), size);
  }));
}

template <class Scalar>
void check_exponentials(const std::vector<Scalar>& l, const Exponentials<Scalar>& e) {
  const auto size = std::ssize(l);
  CHECK(same_at_all_widths(
      [&](auto width) { return run_at<SumOfExponentials<Scalar>>(width, l.data(), size, e); }));
  const auto written = [&](VectorWidth width) {
    std::vector<Scalar> out(l.size());
    run_at<WriteExponentials<Scalar>>(width, l.data(), size, e, Scalar(0.3), out.data());
    return out;
  };
  const auto expected = written(VectorWidth::portable);
  for (const VectorWidth width : widths()) CHECK(std::ranges::equal(written(width), expected, same<Scalar>));
}

template <class Key>
void check_keys(Index lots, std::mt19937_64& rng) {
  using Weight = std::make_unsigned_t<Key>;
  std::vector<Key> keys(static_cast<std::size_t>(lots * lot));
  std::vector<Weight> weights(keys.size());
  for (Key& key : keys) key = static_cast<Key>(rng());
  for (Weight& weight : weights) weight = static_cast<Weight>(rng()) >> 8;
  const Key low = std::min(keys[0], keys[1]), high = std::max(keys[0], keys[1]);
  const auto size = std::ssize(keys);
  for (const VectorWidth width : widths()) {
    CHECK(run_at<WeightAtLeast<Key, Weight>>(width, keys.data(), weights.data(), size, low) ==
          run_portable<WeightAtLeast<Key, Weight>>(keys.data(), weights.data(), size, low));
    CHECK(run_at<CountBetween<Key>>(width, keys.data(), size, low, high) ==
          std::ranges::count_if(keys, [=](Key key) { return key >= low && key <= high; }));
    CHECK(run_at<SmallestKey<Key>>(width, keys.data(), size) == *std::ranges::min_element(keys));
    CHECK(run_at<LargestKey<Key>>(width, keys.data(), size) == *std::ranges::max_element(keys));
  }
}

template <class Scalar>
void check_all() {
  std::mt19937_64 rng{1};
  for (Index lots = 1; lots < 30; ++lots)
    for (const bool with_nan : {false, true}) {
      const auto l = numbers<Scalar>(lots, with_nan, rng);
      check_reductions(l, numbers<Scalar>(lots, false, rng));
      for (const Scalar shift : {Scalar{30}, Scalar{0}, Scalar{-200}})
        for (const Scalar cut : {Exponentials<Scalar>::no_cut, Scalar{1}, Scalar{25}})
          for (const Scalar inverse : {Scalar{1}, Scalar(1.25), std::numeric_limits<Scalar>::max()}) {
            check_exponentials(l, {shift, inverse, cut, shift == 30});
          }
    }
}

}  // namespace

TEST_CASE("kernels on floats give equal bits at every width") { check_all<float>(); }

TEST_CASE("kernels on doubles give equal bits at every width") { check_all<double>(); }

TEST_CASE("kernels on keys give equal bits at every width, and the results of plain algorithms") {
  std::mt19937_64 rng{2};
  for (Index lots = 1; lots < 30; ++lots) {
    check_keys<std::int32_t>(lots, rng);
    check_keys<std::int64_t>(lots, rng);
  }
}

TEST_CASE("the machine's own width is used by default") {
  std::mt19937_64 rng{3};
  const auto l = numbers<float>(7, false, rng);
  CHECK(same(run_wide<LargestNumber<float>>(l.data(), std::ssize(l)), *std::ranges::max_element(l)));
  CHECK(widths().back() == machine_width());
}

}  // namespace test_kernels_machine_width

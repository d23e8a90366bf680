// The cut of a row against its definition by a sort, on numbers of half the width and on entries that lie apart and
// are read as copies. (The tests of top-k and top-p cut rows of contiguous floats.)
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <specdec/rows/kinds/logits_row.hpp>
#include <specdec/sample/threshold/threshold.hpp>
#include <specdec/sample/threshold/token_weight.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/sorted.hpp"

namespace test_sample_threshold {

using namespace specdec;
using namespace support;
using detail::ThresholdSearch;

namespace {

constexpr double lowest = static_cast<double>(std::numeric_limits<float>::lowest());

// The logits at which a cut may lie, the largest first.
std::vector<double> candidates(std::vector<double> logits, double floor) {
  std::erase_if(logits, [&](double l) { return !(l >= floor); });
  std::ranges::sort(logits, std::greater<>());
  return logits;
}

// Every third of the stored numbers is a logit.
float cut_by_count(const std::vector<double>& logits, double floor, double target) {
  std::vector<float> held(3 * logits.size(), 1e30f);
  for (std::size_t x = 0; x < logits.size(); ++x) held[3 * x] = static_cast<float>(logits[x]);
  const NumberRow<float, Eigen::Dynamic> row(held.data(), std::ssize(logits), 3);
  const auto peaks = LogitsRow(row).peaks();
  ThresholdSearch search(row, peaks, detail::TokenCount<float>{}, static_cast<float>(floor), target);
  search.try_from(peaks.of_rank(static_cast<Index>(target)));
  const float cut = search.cut();
  const auto above = [&](double l) { return l >= static_cast<double>(cut); };
  CHECK(search.weight() == static_cast<double>(std::ranges::count_if(logits, above)));
  CHECK(search.found() == (search.weight() >= target));
  if (const auto mass = search.mass(1.0f)) {
    double sum = 0;
    for (const double l : logits)
      if (l >= static_cast<double>(cut)) sum += std::exp(l - static_cast<double>(mass->shift));
    CHECK(mass->sum == Approx(sum).epsilon(1e-5));
  }
  return cut;
}

void check_count(const std::vector<double>& logits, double floor, Index target) {
  CAPTURE(logits.size(), floor, target);
  const auto above = [&](double cut) {
    return std::ranges::count_if(logits, [=](double l) { return l >= cut; });
  };
  const float cut = cut_by_count(logits, floor, static_cast<double>(target));
  const auto next = static_cast<double>(std::nextafter(cut, std::numeric_limits<float>::infinity()));
  if (static_cast<double>(cut) > floor) CHECK(above(static_cast<double>(cut)) >= target);
  CHECK(above(next) < target);
}

// The logits that a share of the mass leaves, at temperature 1. The search first looks from some logits on.
std::vector<double> kept_by_mass(const std::vector<double>& logits, double floor, double share,
                                 const std::vector<double>& tries = {}) {
  const auto held = as<Eigen::bfloat16>(logits);
  const auto top = static_cast<float>(std::ranges::max(logits));
  long double total = 0;
  for (const double l : candidates(logits, floor))
    total += std::exp(static_cast<long double>(l - double{top}));
  const NumberRow<Eigen::bfloat16> row(held.data(), std::ssize(held));
  const auto peaks = LogitsRow(row).peaks();
  ThresholdSearch search(row, peaks, detail::TokenMass<float>{top, 1.0f}, static_cast<float>(floor),
                         share * static_cast<double>(total));
  for (const double low : tries) search.try_from(static_cast<float>(low));
  const float cut = search.cut();
  const auto kept = candidates(logits, static_cast<double>(cut));
  long double mass = 0;
  for (const double l : kept) mass += std::exp(static_cast<long double>(l - double{top}));
  CHECK(search.weight() == Approx(static_cast<double>(mass)).epsilon(1e-5));
  return kept;
}

void check_mass(const std::vector<double>& logits, double floor, double share) {
  CAPTURE(logits.size(), floor, share);
  const auto all = candidates(logits, floor), kept = kept_by_mass(logits, floor, share);
  REQUIRE(!kept.empty());
  long double total = 0, mass = 0, without_last = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const long double w = std::exp(static_cast<long double>(all[i] - all[0]));
    total += w;
    if (i < kept.size()) mass += w;
    if (i < kept.size() && all[i] > kept.back()) without_last += w;
  }
  CHECK((mass / total > share - 3e-6L || kept.size() == all.size()));
  CHECK(without_last / total < share + 3e-6L);
}

}  // namespace

TEST_CASE("the cut is the largest that leaves as many tokens as asked for") {
  std::mt19937_64 rng{1};
  for (int n = 0; n < 200; ++n) {
    const auto logits = random_logits(n % 10 == 0 ? 20'000 : random_size(rng), rng);
    const Index size = std::ssize(logits);
    for (const Index target : {Index{1}, size / 3 + 1, size}) {
      check_count(logits, lowest, target);
      check_count(logits, -1.0, target);
    }
  }
  for (const auto& logits : hard_rows()) check_count(logits, lowest, std::ssize(logits) / 7 + 1);
}

TEST_CASE("the cut is the largest that leaves the mass asked for") {
  std::mt19937_64 rng{2};
  for (int n = 0; n < bound(200); ++n) {
    const auto logits =
        random_logits(n % 10 == 0 ? 20'000 : random_size(rng), rng, rounded_to<Eigen::bfloat16>);
    for (const double share : {1e-6, 0.3, 0.95, 0.9999}) {
      check_mass(logits, lowest, share);
      if (std::ranges::max(logits) >= -1) check_mass(logits, -1.0, share);
    }
  }
}

TEST_CASE("what is tried first does not change which tokens are kept") {
  std::mt19937_64 rng{4};
  for (int n = 0; n < bound(100); ++n) {
    const auto logits =
        random_logits(n % 5 == 0 ? 20'000 : random_size(rng), rng, rounded_to<Eigen::bfloat16>);
    const auto some = [&] { return logits[rng() % logits.size()]; };
    const double floor = n % 3 == 0 ? std::max(some(), lowest) : lowest;
    for (const double share : {0.3, 0.9, 0.9999}) {
      const auto kept = kept_by_mass(logits, floor, share);
      // Downwards, in no order, above all logits and at nothing.
      std::vector<double> tries{1e30, some(), some(), some(), -1e30, -HUGE_VAL};
      CAPTURE(n, share, tries);
      CHECK(kept_by_mass(logits, floor, share, tries) == kept);
      std::ranges::sort(tries, std::greater<>());
      CHECK(kept_by_mass(logits, floor, share, tries) == kept);
    }
  }
}

TEST_CASE("the cut is found among more numbers than there is room for, however near or far they are") {
  std::mt19937_64 rng{3};
  std::vector<double> logits(9000);
  const auto some = [&](double unit) { return unit * static_cast<double>(rng() % 4096); };
  const auto check = [&](const auto& logit) {
    for (double& l : logits) l = static_cast<double>(static_cast<float>(logit()));
    for (const Index target : {1, 100, 4500, 8999}) check_count(logits, lowest, target);
    check_count(logits, -1.0, 4500);
    for (double& l : logits) l = rounded_to<Eigen::bfloat16>(l);
    for (const double share : {1e-6, 0.3, 0.95}) check_mass(logits, lowest, share);
  };
  check([&] { return some(0x1p-7); });
  check([&] { return some(0x1p-22); });
  check([&] { return rng() % 8 == 0 ? some(0x1p-7) : 1.0; });
  check([&] { return rng() % 2 == 0 ? some(0x1p-9) : -1e9; });
  check([&] { return rng() % 2 == 0 ? 50.0 : some(0x1p-9); });
  check([&] { return (some(0x1p-11) - 1) * 3e38; });
  check([&] { return std::ldexp(1.0, static_cast<int>(rng() % 200) - 100); });
  // Numbers with a distance of the least there is: levels do not tell them apart.
  for (double& l : logits) l = some(0x1p-149);
  for (const Index target : {1, 100, 4500, 8999}) check_count(logits, lowest, target);
}

TEST_CASE("a search for a cut notices NaN and infinity anywhere") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const std::size_t size : {1u, 600u, 5000u})
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1})
      for (const double bad : {std::numeric_limits<double>::quiet_NaN(), infinity}) {
        std::vector<double> logits(size, 0.5);
        logits[at] = bad;
        CHECK_THROWS_AS(cut_by_count(logits, lowest, 1), InvalidDistribution);
        const auto held = as<Eigen::bfloat16>(logits);
        CHECK_THROWS_AS(row_of(held).peaks(), InvalidDistribution);
        CHECK_THROWS_AS(row_of(held).peaks_and_normaliser(), InvalidDistribution);
      }
}

}  // namespace test_sample_threshold

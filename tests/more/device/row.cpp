// Rows on a device, by the loop of a CPU: probabilities against the definition, draws and residuals over all u, faults.
// SPDX-License-Identifier: MIT
#include "specdec/more/device/row.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <specdec/more/device/draft_row.hpp>
#include <specdec/more/device/team.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"

namespace test_more_device_row {

using namespace specdec;
using namespace specdec::device;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// A row with its work space.
template <class Scalar = float>
struct Summed {
  std::vector<Scalar> logits;
  Settings settings = {};
  std::vector<SegmentSum> sums = {};
  std::vector<float> largest = {};
  std::vector<double> cumulative = {};

  Row<Scalar> row(std::size_t first = 0) {
    const auto size = static_cast<Index>(logits.size() - first);
    sums.resize(static_cast<std::size_t>(segments_of(size)));
    cumulative.resize(sums.size());
    largest.resize(sums.size() * lanes);
    const SummedRow<Scalar> all{logits.data() + first, size, sums.data(), largest.data(), cumulative.data()};
    for (Index s = 0; s < all.segments(); ++s) sum_segment(LoopTeam{}, all, s, scale_of(settings));
    LoopCrew<4> crew;
    return Row(all, scale_of(settings), finish_row(crew, all, settings));
  }
};

std::vector<double> softmax(const std::vector<float>& logits, Settings settings) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double sum = 0;
  for (const float l : logits) {
    const double here = std::exp((static_cast<double>(l) - largest) / settings.temperature);
    sum += p.emplace_back(here >= settings.min_p ? here : 0);
  }
  for (double& here : p) here /= sum;
  return p;
}

std::vector<float> random_logits(Index size, std::mt19937_64& rng, float spread = 3) {
  std::normal_distribution<float> normal;
  std::vector<float> logits;
  for (Index k = 0; k < size; ++k) logits.push_back(rng() % 16 == 0 ? -inf : spread * normal(rng));
  logits[static_cast<std::size_t>(size) / 2] = 2 * spread;  // at least one token
  return logits;
}

template <class Scalar>
double total_variation(const Row<Scalar>& row, const std::vector<double>& p) {
  double distance = 0;
  for (std::size_t x = 0; x < p.size(); ++x)
    distance += std::abs(row.probability(static_cast<Token>(x)) - p[x]) / 2;
  return distance;
}

// u goes in even steps from 0 to 1. A token is drawn by an interval of u, so it is drawn as often as its probability says, but for
// the two ends. Returns the worst difference.
template <class Probability, class Draw>
double worst_count(Index size, const Probability& probability, const Draw& draw, int steps) {
  std::vector<double> counts(static_cast<std::size_t>(size));
  double outside = 0;
  for (int k = 0; k < steps; ++k) {
    const Token y = draw((k + 0.5) / steps);
    if (y < 0 || y >= size) ++outside;
    else ++counts[static_cast<std::size_t>(y)];
  }
  double worst = outside * steps;
  for (Index x = 0; x < size; ++x) {
    const double p = probability(static_cast<Token>(x)), count = counts[static_cast<std::size_t>(x)];
    if (p == 0 && count > 0) worst = steps;
    worst = std::max(worst, std::abs(count - p * steps));
  }
  return worst;
}

}  // namespace

TEST_CASE("a device's row has the probabilities of its logits, at any size, temperature and min-p") {
  std::mt19937_64 rng{1};
  for (const Index size : {1, 2, 31, 255, 1023, 1024, 1025, 3001, 33 * 1024 + 5})
    for (const Settings settings : {Settings{1, 0}, {0.7F, 0}, {1.5F, 0.05F}, {1, 1}}) {
      const std::vector<float> logits = random_logits(size, rng);
      Summed<> summed{logits, settings};
      const Row row = summed.row();
      INFO(size << " at " << settings.temperature << ", " << settings.min_p);
      REQUIRE(row.fault() == FaultKind::none);
      CHECK(total_variation(row, softmax(logits, settings)) < 1e-6);
      CHECK(row.probability(-1) == 0);
      CHECK(row.probability(static_cast<Token>(size)) == 0);
    }
}

TEST_CASE("halves and bfloat16 have the probabilities of their numbers, aligned or not") {
  std::mt19937_64 rng{2};
  const Index size = 2500;
  Summed<Half> halves;
  Summed<Bfloat16> brains;
  std::vector<float> as_half, as_brain;
  for (Index k = 0; k < size; ++k) {
    halves.logits.push_back({static_cast<std::uint16_t>(rng() % 0x4600 | (rng() % 2) << 15)});  // up to 6
    brains.logits.push_back({static_cast<std::uint16_t>(rng() % 0x40c0 | (rng() % 2) << 15)});
    as_half.push_back(widen(halves.logits.back()));
    as_brain.push_back(widen(brains.logits.back()));
  }
  for (const std::size_t first : {0u, 1u}) {
    CHECK(total_variation(halves.row(first),
                          softmax({as_half.begin() + static_cast<int>(first), as_half.end()}, {})) < 1e-6);
    CHECK(total_variation(brains.row(first),
                          softmax({as_brain.begin() + static_cast<int>(first), as_brain.end()}, {})) < 1e-6);
  }
}

TEST_CASE("over all u, a device's row draws each token as often as its probability says") {
  std::mt19937_64 rng{3};
  for (const Index size : {1, 5, 1024, 1300, 35 * 1024})
    for (const Settings settings : {Settings{1, 0}, {1, 0.01F}, {0, 0}}) {
      Summed<> summed{random_logits(size, rng), settings};
      const Row row = summed.row();
      const int steps = support::bound(size < 2000 ? 5000 : 300);
      INFO(size << " at " << settings.temperature << ", " << settings.min_p);
      CHECK(worst_count(
                size, [&](Token x) { return row.probability(x); },
                [&](double u) { return row.draw(LoopTeam{}, u); }, steps) < 1.01);
    }
}

TEST_CASE("over all u, a segment's residual draws each token as often as its share says") {
  std::mt19937_64 rng{4};
  for (const Index size : {3, 700, 2100}) {
    Summed<> summed{random_logits(size, rng)};
    const Row row = summed.row();
    const std::vector<float> other = random_logits(size, rng);
    double sum = 0;
    for (const float l : other) sum += std::exp(static_cast<double>(l));
    const DenseDraft<float> draft(other.data(), size, 1, std::log(sum));
    for (const double w : {0.5, 1.0, 1.7})
      for (Index s = 0; s < segments_of(size); ++s) {
        double mass = 0;
        const auto residual = [&](Token x) {
          const bool here = x / segment_size == s;
          return here ? std::max(0.0, w * row.probability(x) - draft.probability(x)) : 0;
        };
        for (Token x = 0; x < size; ++x) mass += residual(x);
        CHECK(std::abs(row.residual_mass(LoopTeam{}, w, draft, s) - mass) < 1e-14);
        CHECK(worst_count(
                  size, [&](Token x) { return residual(x) / mass; },
                  [&](double u) { return row.draw_residual(LoopTeam{}, w, draft, s, u * mass); },
                  500) < 1.01);
      }
  }
}

TEST_CASE("the numbers at the ends of [0, 1) draw a token that has a probability") {
  Summed<> summed{std::vector<float>(3000, -inf)};
  summed.logits[1100] = summed.logits[1101] = summed.logits[1200] = 0;
  const Row row = summed.row();
  for (const double u : {0.0, 0x1p-1074, 0.5, 1 - 0x1p-53})
    CHECK(row.probability(row.draw(LoopTeam{}, u)) > 0);
  CHECK(row.probability(1100) + row.probability(1101) + row.probability(1200) == 1);
}

TEST_CASE("a token without probability is not drawn where rounded cumulative sums are not in order") {
  // Alone, 1.5 units of 2^-54 are lost beside 1. Two of them are not, if they are added to one another first: so the cumulative sum
  // grows once more after the last segment with mass.
  const float tiny = -53 + std::log2(0.75F);
  const double last = 1 - 0x1p-53;
  Summed<> segments{std::vector<float>(5 * 1024, -inf), {log2_of_e, 0}};
  segments.logits[0] = 0, segments.logits[1024] = segments.logits[3 * 1024] = tiny;
  const Row row = segments.row();
  REQUIRE(segments.cumulative[3] < segments.cumulative[4]);
  CHECK(row.draw(LoopTeam{}, last) == 3 * 1024);
  // The same in the lanes of a segment, beyond the end of [0, mass) by rounding.
  struct None {
    double probability(Token) const { return 0; }
  };
  Summed<> in_lanes{std::vector<float>(1024, -inf), {log2_of_e, 0}};
  in_lanes.logits[0] = 0, in_lanes.logits[8] = in_lanes.logits[24] = tiny;
  const Row one = in_lanes.row();
  CHECK(one.draw_residual(LoopTeam{}, 1, None{}, 0, 1.0) == 24);
  CHECK(one.draw_residual(LoopTeam{}, 1, None{}, 0, last) == 0);
}

TEST_CASE("a team of a CPU adds in the order of a warp's shuffles") {
  std::mt19937_64 rng{5};
  std::normal_distribution<float> normal;
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  for (int n = 0; n < 100; ++n) {
    LoopTeam::PerLane<float> numbers;
    LoopTeam::PerLane<double> doubles;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      numbers[lane] = std::ldexp(normal(rng), static_cast<int>(rng() % 24));
      doubles[lane] = std::ldexp(static_cast<double>(normal(rng)) / 3, static_cast<int>(rng() % 50));
    }
    // In each step each lane of a warp adds the number of the lane whose id differs by one bit (shfl.bfly), the highest bit first.
    auto butterfly = numbers;
    for (std::size_t mask = 16; mask > 0; mask /= 2) {
      const auto before = butterfly;
      for (std::size_t lane = 0; lane < lanes; ++lane) butterfly[lane] += before[lane ^ mask];
    }
    for (const float sum : butterfly) CHECK(bits(LoopTeam::sum(numbers)) == bits(sum));
    // In each step each lane adds the number of the lane 1, 2, 4, 8, 16 below (shfl.up), if there is one.
    auto scan = doubles;
    for (std::size_t step = 1; step < lanes; step *= 2) {
      const auto before = scan;
      for (std::size_t lane = step; lane < lanes; ++lane) scan[lane] += before[lane - step];
    }
    LoopTeam::add_up(doubles);
    for (std::size_t lane = 0; lane < lanes; ++lane) CHECK(bits(doubles[lane]) == bits(scan[lane]));
  }
}

TEST_CASE("the argmax of a device's row is the lowest of the likeliest ids, also at temperature 0") {
  Summed<> summed{std::vector<float>(5000, -1)};
  for (const std::size_t x : {4100u, 2070u, 2049u, 3000u}) summed.logits[x] = 2;
  CHECK(summed.row().argmax(LoopTeam{}) == 2049);
  summed.settings.temperature = 0;
  const Row row = summed.row();
  CHECK(row.probability(2049) == 1);
  CHECK(row.probability(2070) == 0);
  CHECK(row.draw(LoopTeam{}, 0.7) == 2049);
}

TEST_CASE("what is wrong with a row is told by its kind") {
  const float NaN = std::numeric_limits<float>::quiet_NaN();
  const auto fault = [](std::size_t size, std::size_t at, float value, float rest, Settings settings = {}) {
    Summed<> summed{std::vector<float>(size, rest), settings};
    summed.logits[at] = value;
    return summed.row().fault();
  };
  for (const std::size_t size : {1u, 40u, 1024u, 3000u, 40000u})
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      CHECK(fault(size, at, NaN, 1) == FaultKind::target_is_nan);
      CHECK(fault(size, at, -NaN, -inf) == FaultKind::target_is_nan);
      CHECK(fault(size, at, inf, 1) == FaultKind::target_is_infinite);
      CHECK(fault(size, at, -inf, -inf) == FaultKind::target_has_no_mass);
      CHECK(fault(size, at, 0, -inf) == FaultKind::none);
      CHECK(fault(size, at, 0, std::numeric_limits<float>::lowest()) == FaultKind::none);
      CHECK(fault(size, at, 3e4F, -3e4F) == FaultKind::none);
    }
  for (const Settings settings : {Settings{NaN, 0},
                                  {-1, 0},
                                  {inf, 0},
                                  {1e-40F, 0},
                                  {1, NaN},
                                  {1, -0.1F},
                                  {1, 1.5F},
                                  {1, 0, -1},
                                  {1, 0, 0, 0.0F},
                                  {1, 0, 0, 1.5F},
                                  {1, 0, 0, NaN}})
    CHECK(fault(40, 3, 1, 0, settings) == FaultKind::bad_setting);
}

TEST_CASE("draft rows answer by logits with their sum, by a list, or for one token") {
  const std::vector<float> logits{1, -inf, 3};
  const double sum = std::log(std::exp(0.5) + std::exp(1.5));
  const DenseDraft<float> dense(logits.data(), 3, 2, sum);
  CHECK(std::abs(dense.probability(0) - std::exp(0.5 - sum)) < 1e-15);
  CHECK(dense.probability(1) == 0);
  CHECK(std::abs(dense.probability(2) - std::exp(1.5 - sum)) < 1e-15);
  CHECK(dense.probability(3) == 0);
  CHECK(dense.probability(-1) == 0);
  CHECK(DenseDraft<float>(logits.data(), 3, 2, 0.1).probability(2) > 1.1);
  const DenseDraft<float> cut(logits.data(), 3, 2, 1.5, 3);  // top-1
  CHECK(cut.probability(2) == 1);
  CHECK(cut.probability(0) == 0);
  CHECK(cut.fault_of(2) == FaultKind::none);
  CHECK(cut.fault_of(0) == FaultKind::token_was_not_drawn);
  const std::vector<std::int32_t> ids{5, 2, -1};
  const std::vector<float> numbers{0.25F, 0.75F, 0};
  const ListedDraft listed{ids.data(), numbers.data(), 3};
  CHECK(listed.probability(5) == 0.25);
  CHECK(listed.probability(2) == 0.75);
  CHECK(listed.probability(3) == 0);
  CHECK(ChosenDraft{4}.probability(4) == 1);
  CHECK(ChosenDraft{4}.probability(5) == 0);
}

}  // namespace test_more_device_row

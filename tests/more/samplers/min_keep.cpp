// MinKeep against sorting: a sorted list is cut where the step allows it and enough tokens are before the place.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/more/samplers/min_keep.hpp>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/steps/min_p.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <specdec/sample/steps/top_k.hpp>
#include <specdec/sample/steps/top_p.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/sorted.hpp"

namespace test_sample_min_keep {

using namespace specdec;
using namespace support;

static_assert(RowStep<MinKeep<TopP>>);
static_assert(RowStep<MinKeep<Chain<TopP, MinKeep<MinP>>>>);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The logits of tokens that can come, the largest first.
std::vector<double> sorted(const std::vector<double>& logits) {
  std::vector<double> out;
  std::ranges::copy_if(logits, std::back_inserter(out), [](double l) { return l > -infinity; });
  std::ranges::sort(out, std::greater<>());
  return out;
}

// The last logit that stays: the first one with at least min_keep logits up to it where `enough` says so.
double last_kept(const std::vector<double>& list, Index min_keep, const auto& enough) {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (enough(i) && static_cast<Index>(i) + 1 >= min_keep) return list[i];
  return list.back();
}

// Whether the mass up to each place is at least p. `margin` is how near a decision is to rounding.
double of_top_p(const std::vector<double>& list, double p, Index min_keep, double& margin) {
  long double total = 0, mass = 0;
  for (const double l : list) total += std::exp(static_cast<long double>(l - list[0]));
  margin = infinity;
  return last_kept(list, min_keep, [&](std::size_t i) {
    mass += std::exp(static_cast<long double>(list[i] - list[0])) / total;
    margin = std::min(margin, std::abs(static_cast<double>(mass) - p));
    return mass >= static_cast<long double>(p);
  });
}

// Whether the next logit is too small.
double of_min_p(const std::vector<double>& list, double p, Index min_keep, double& margin) {
  margin = infinity;
  return last_kept(list, min_keep, [&](std::size_t i) {
    if (i + 1 == list.size()) return true;
    const double share = std::exp(list[i + 1] - list[0]);
    margin = std::min(margin, std::abs(share - p));
    return share < p;
  });
}

// The largest difference of a probability from that of the softmax of the logits from `last` on at a temperature; 1 if other
// tokens are kept.
double difference(const Processed& row, const std::vector<double>& logits, double last, double temperature) {
  const double largest = std::ranges::max(logits);
  const auto weight = [&](double l) { return l >= last ? std::exp((l - largest) / temperature) : 0.0; };
  double total = 0, worst = 0;
  for (const double l : logits) total += weight(l);
  for (std::size_t x = 0; x < logits.size(); ++x) {
    if ((row.p[x] > 0) != (weight(logits[x]) > 0)) return 1;
    worst = std::max(worst, std::abs(row.p[x] - weight(logits[x]) / total));
  }
  return worst;
}

}  // namespace

TEST_CASE("with min_keep, top-p and min-p keep what sorting keeps") {
  std::mt19937_64 rng{1};
  double worst = 0;
  int compared = 0, lowered = 0;
  for (int n = 0; n < 4000; ++n) {
    const auto logits = random_logits(random_size(rng), rng);
    const auto list = sorted(logits);
    const double p = n % 3 == 0 ? 1e-3 : uniform01(rng), temperature = n % 2 == 0 ? 1.0 : 0.6;
    const auto min_keep = static_cast<Index>(rng() % (n % 5 == 0 ? 4000 : 12));
    const Temperature after{temperature};
    double margin = 0, alone = 0;
    const bool top_p = n % 4 < 2;
    const double last = top_p ? of_top_p(list, p, min_keep, margin) : of_min_p(list, p, min_keep, margin);
    if (margin < 1e-5) continue;
    ++compared;
    const double without = top_p ? of_top_p(list, p, 0, alone) : of_min_p(list, p, 0, alone);
    lowered += last < without ? 1 : 0;
    const Processed row = top_p ? process<float>(Chain{MinKeep{min_keep, TopP{p}}, after}, logits)
                                : process<float>(Chain{MinKeep{min_keep, MinP{p}}, after}, logits);
    worst = std::max(worst, difference(row, logits, last, temperature));
  }
  CHECK(worst < 1e-6);
  CHECK(compared > 3000);
  CHECK(lowered > 700);
}

TEST_CASE("MinKeep counts the tokens that earlier steps have kept, and brings none back") {
  const std::vector<float> logits{3, 2, 1, 0, -1};
  const auto kept = [&](const auto& step) {
    const auto p = read(step(row_of(logits))).p;
    return 5 - std::ranges::count(p, 0.0);
  };
  CHECK(kept(MinKeep{3, TopP{0.1}}) == 3);
  CHECK(kept(MinKeep{5, TopP{0.1}}) == 5);
  CHECK(kept(MinKeep{9, MinP{1}}) == 5);
  CHECK(kept(MinKeep{0, MinP{1}}) == 1);
  CHECK(kept(MinKeep{2, MinP{0}}) == 5);
  CHECK(kept(Chain{TopK{2}, MinKeep{4, TopP{0.1}}}) == 2);
  CHECK(kept(Chain{TopK{4}, MinKeep{3, TopP{0.1}}, MinKeep{2, MinP{1}}}) == 2);
  CHECK(kept(MinKeep{3, Temperature{0}}) == 1);
}

TEST_CASE("MinKeep leaves a temperature of its step as it is") {
  const std::vector<float> logits{3, 2, 1, 0, -1};
  const MinKeep step{3, Chain{Temperature{0.5}, TopP{0.1}}};
  CHECK(difference(read(step(row_of(logits))), {3, 2, 1, 0, -1}, 1, 0.5) < 1e-6);
  CHECK(difference(read(step(row_of(logits).tempered(0.8))), {3, 2, 1, 0, -1}, 1, 0.4) < 1e-6);
}

TEST_CASE("MinKeep notices rows that are not distributions, and refuses a negative number") {
  std::vector<double> logits(3000, 0.5);
  logits[7] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(process<float>(MinKeep(3, MinP(0.5)), logits), InvalidDistribution);
  CHECK(process<float>(MinKeep(3, TopP(0.5)), std::vector<double>(30, -infinity)).p ==
        std::vector<double>(30, 0.0));
  CHECK(message_of([] { MinKeep(-1, MinP(0.5)); }) == "specdec: MinKeep: n = -1 is negative");
}

}  // namespace test_sample_min_keep

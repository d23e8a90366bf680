// Cuts on a device, by the loop of a CPU: the tokens that the host's own steps keep, with a crew of any size.
// SPDX-License-Identifier: MIT
#include "specdec/more/device/cut.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <specdec/more/device/row.hpp>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/steps/min_p.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <specdec/sample/steps/top_k.hpp>
#include <specdec/sample/steps/top_p.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"

namespace test_more_device_cut {

using namespace specdec;
using namespace specdec::device;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// The cut of a row, and its sum.
template <int teams>
RowSummary summary_of(const std::vector<float>& logits, const Settings& settings) {
  const auto size = static_cast<Index>(logits.size());
  std::vector<SegmentSum> sums(static_cast<std::size_t>(segments_of(size)));
  std::vector<float> largest(sums.size() * lanes);
  std::vector<double> cumulative(sums.size());
  const SummedRow<float> row{logits.data(), size, sums.data(), largest.data(), cumulative.data()};
  for (Index s = 0; s < row.segments(); ++s) sum_segment(LoopTeam{}, row, s, scale_of(settings));
  LoopCrew<teams> crew;
  return finish_row(crew, row, settings);
}

float cut_on_host(const std::vector<float>& logits, const Settings& settings) {
  const Chain chain(Temperature{settings.temperature}, TopK{settings.top_k}, TopP{settings.top_p},
                    MinP{settings.min_p});
  return chain(LogitsRow<float>({logits.data(), static_cast<Index>(logits.size())})).cut();
}

// Logits with equals among them, and with tokens that are masked.
std::vector<float> random_logits(std::mt19937_64& rng, Index size, bool rough) {
  std::normal_distribution<float> normal;
  std::vector<float> logits;
  for (Index x = 0; x < size; ++x) {
    const float l = 3 * normal(rng);
    logits.push_back(rng() % 16 == 0 ? -inf : rough ? std::round(4 * l) / 4 : l);
  }
  logits[static_cast<std::size_t>(size) / 2] = 5;
  return logits;
}

}  // namespace

TEST_CASE("a device keeps the tokens that the host's chain of temperature, top-k, top-p and min-p keeps") {
  std::mt19937_64 rng{61};
  long rows = 0, differing = 0, kept = 0;
  for (int n = 0; n < support::bound(250, 3000); ++n) {
    const Index sizes[] = {1, 2, 33, 300, 1024, 1025, 2500, 9000, 40 * 1024 + 7};
    const Index size = sizes[rng() % (n % 16 == 0 ? 9 : 8)];
    const std::vector<float> logits = random_logits(rng, size, rng() % 2 == 0);
    const Settings settings{0.5F + 0.25F * static_cast<float>(rng() % 4), rng() % 3 == 0 ? 0.03F : 0.0F,
                            static_cast<std::int32_t>(rng() % 2 * (1 + rng() % 60)),
                            rng() % 3 == 0 ? 1.0F : static_cast<float>(1 + rng() % 98) / 99.0F};
    const RowSummary summary = summary_of<8>(logits, settings);
    const float host = cut_on_host(logits, settings);
    bool same = true;
    for (const float l : logits) {
      if (l == -inf) continue;
      same = same && (l >= summary.cut) == (l >= host);
      kept += l >= host;
    }
    ++rows;
    differing += !same;
    CHECK(summary.fault == FaultKind::none);
    CHECK(summary_of<3>(logits, settings).cut == summary.cut);
    CHECK(summary_of<3>(logits, settings).total == summary.total);
  }
  INFO(rows << " rows, " << kept << " tokens kept");
  CHECK(differing == 0);
}

TEST_CASE("cuts at the ends: equal logits, more wanted than there is, one token, a tiny share") {
  const std::vector<float> equal(3000, 0.0F);
  CHECK(summary_of<2>(equal, {1, 0, 1}).total == 3000);
  CHECK(summary_of<2>(equal, {1, 0, 0, 0.01F}).total == 3000);
  CHECK(summary_of<2>(equal, {1, 1}).total == 3000);
  std::vector<float> few(3000, -inf);
  few[7] = 0, few[1030] = -1, few[2999] = -2;
  CHECK(summary_of<2>(few, {1, 0, 5}).cut == -inf);
  CHECK(summary_of<2>(few, {1, 0, 3}).cut == -2);
  CHECK(summary_of<2>(few, {1, 0, 2}).cut == -1);
  CHECK(summary_of<2>(few, {1, 0, 0, 1e-30F}).cut == 0);
  CHECK(summary_of<2>(few, {1, 0, 3, 0.8F}).cut == -1);
  CHECK(summary_of<2>(few, {1, 1}).cut == 0);
  CHECK(summary_of<2>(few, {1, 0.2F}).cut > -2);
  CHECK(summary_of<2>(few, {1, 0.1F}).cut < -2);
  // Of both zeros, none is larger.
  few[7] = 0, few[1030] = -0.0F, few[2999] = -1e-40F;
  CHECK(summary_of<2>(few, {1, 0, 1}).total == 2);
  CHECK(summary_of<2>(few, {1, 0, 3}).total == 3);
}

}  // namespace test_more_device_cut

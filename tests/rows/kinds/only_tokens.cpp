#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/any_rows.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_only_tokens {

using namespace specdec;
using namespace support;

static_assert(SegmentedRow<OnlyTokensRow<DenseRow<float>>> && SummableRow<OnlyTokensRow<LogitsRow<float>>>);
static_assert(ListedRow<OnlyTokensRow<SparseRow<float>>> && !SegmentedRow<OnlyTokensRow<SparseRow<float>>>);
static_assert(!ListedRow<OnlyTokensRow<AnyRow>> && !SegmentedRow<OnlyTokensRow<AnyRow>>);
static_assert(
    !std::is_constructible_v<OnlyTokensRow<DenseRow<float>>, DenseRow<float>, std::vector<std::uint8_t>>);

namespace {

// The largest difference from the definition, of anything that the row says.
template <class Row>
double deviation(const Row& row, const std::vector<std::uint8_t>& kept) {
  const Index size = row.vocab_size();
  std::vector<double> left(static_cast<std::size_t>(size), 0.0);
  double mass = 0;
  for (std::size_t x = 0; x < left.size(); ++x)
    if (x < kept.size() && kept[x] != 0)
      mass += left[x] = static_cast<double>(row.probability(static_cast<Token>(x)));
  const OnlyTokensRow<Row> only(row, kept);
  double worst = std::abs(only.mass() - mass);
  if (mass == 0) return std::max(worst, only.sum(0, size));
  for (double& p : left) p /= mass;
  std::vector<double> walked = left, drawn = left;
  for (Index start = 0; start < size; start += 1 + size / 7)
    for (Index count = 0; count <= size - start; count += 1 + size / 5) {
      double sum = 0;
      for (Index x = start; x < start + count; ++x) sum += left[static_cast<std::size_t>(x)];
      worst = std::max(worst, std::abs(only.sum(start, count) - sum));
    }
  detail::walk(only, [&](const auto& ids, const auto& q) {
    for (Index k = 0; k < q.size(); ++k)
      walked[static_cast<std::size_t>(ids(k))] -= static_cast<double>(q[k]);
  });
  constexpr int draws = 2000;
  auto draw = only.sampler();
  for (int n = 0; n < draws; ++n) {
    const auto x = static_cast<std::size_t>(draw((n + 0.5) / draws));
    if (left[x] == 0) return 1;
    drawn[x] -= 1.0 / draws;
  }
  for (std::size_t x = 0; x < left.size(); ++x) {
    worst = std::max({worst, std::abs(only.probability(static_cast<Token>(x)) - left[x]), std::abs(walked[x]),
                      std::abs(drawn[x]) - 1.01 / draws});
    if (left[x] > 0 && !only.possible(static_cast<Token>(x))) return 1;
  }
  return worst;
}

template <class Layout>
double worst_deviation() {
  std::mt19937_64 rng{3};
  double worst = 0;
  for (const Index size : {1, 2, 5, 9, 2100}) {
    RowMajor<double> p(1, size);
    for (int n = 0; n < 10; ++n) {
      for (double& x : p.reshaped()) x = uniform01(rng) < 0.3 ? 0.0 : uniform01(rng);
      p(0, size - 1) += 0.1;
      p /= p.sum();
      Layout layout;
      layout.hold(p.template cast<typename Layout::Scalar>());
      const auto rows = distributions(std::as_const(layout).view());
      std::vector<std::uint8_t> kept;  // what lies beyond it is not kept
      while (std::ssize(kept) < size - (n % 3 == 0 ? 1 : 0)) kept.push_back(uniform01(rng) < 0.5 ? 1 : 0);
      worst = std::max(worst, deviation(rows.row(0), kept));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("what is kept of a row is the distribution given that it is one of those, for rows of every kind") {
  CHECK(worst_deviation<AsRowMajor<double>>() < 1e-12);
  CHECK(worst_deviation<AsLogits<double>>() < 1e-12);
  CHECK(worst_deviation<AsSparse<double>>() < 1e-12);
}

TEST_CASE("what is kept of a row may be nothing, or no number") {
  const std::vector<double> p{0.5, 0, 0.5}, wrong{0.5, std::numeric_limits<double>::quiet_NaN(), 0.5};
  const std::vector<std::uint8_t> middle{0, 1, 0};
  const OnlyTokensRow nothing(DenseRow<double>(p.data(), 3), middle);
  CHECK(nothing.mass() == 0);
  CHECK(nothing.probability(1) == 0);
  CHECK(message_of<InvalidDistribution>([&] { nothing.sampler()(0.3); }) == "the probabilities sum to 0");
  CHECK(message_of<InvalidDistribution>([&] { OnlyTokensRow(DenseRow<double>(wrong.data(), 3), middle); }) ==
        "the probabilities of the tokens that are kept sum to nan");
}

}  // namespace test_rows_only_tokens

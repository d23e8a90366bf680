// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"

namespace test_rows_row_copy {

using namespace specdec;
using namespace support;

static_assert(std::is_same_v<RowCopy<DenseRow<float>>::View, DenseRow<float>>);
static_assert(std::is_same_v<RowCopy<DenseRow<double, Eigen::Dynamic>>::View, DenseRow<double>>,
              "a copy is packed");
static_assert(std::is_same_v<RowCopy<LogitsRow<float>>::View, LogitsRow<float>>);
static_assert(std::is_same_v<RowCopy<LogitsRow<Eigen::half, Eigen::Dynamic>>::View, LogitsRow<Eigen::half>>);
static_assert(std::is_same_v<RowCopy<SparseRow<float, std::int64_t>>::View, SparseRow<double>>);

namespace {

// Answers look-ups only, as a row on another machine might.
struct RemoteRow {
  DenseRow<double> row;
  Index vocab_size() const { return row.vocab_size(); }
  double probability(Token x) const { return row.probability(x); }
  auto sampler() const { return row.sampler(); }
};

// What a row answers, and what its copy answers after the row's memory has been overwritten.
struct Copied {
  std::vector<double> expected, p, drawn;
  double sum;
};

template <class Layout>
Copied copied(Index size, bool read_before) {
  using Scalar = typename Layout::Scalar;
  std::mt19937_64 rng{3};
  Layout layout;
  RowMajor<Scalar> numbers = RowMajor<Scalar>::Zero(1, size), other = numbers;
  for (Index x = 0; x < size; ++x)
    if (uniform01(rng) < 0.7) numbers(0, x) = static_cast<Scalar>(uniform01(rng));
  numbers(0, size / 2) = 1;
  numbers /= numbers.sum();
  other(0, 0) = 1;
  layout.hold(numbers);
  Copied out{{}, {}, {}, 0};
  RowCopy<RowOf<decltype(distributions(std::as_const(layout).view()))>> copy;
  const auto view = [&] {
    const auto rows = distributions(std::as_const(layout).view());
    const auto row = rows.row(0);
    const auto same = rows.row(0);
    for (Index x = 0; x < size; ++x) out.expected.push_back(same.probability(static_cast<Token>(x)));
    if (read_before) row.probability(0);  // the copy keeps what the row has computed
    return copy.assign(row);
  }();
  layout.hold(other);
  for (Index x = 0; x < view.vocab_size(); ++x) out.p.push_back(view.probability(static_cast<Token>(x)));
  out.sum = view.sum(0, size);
  auto sampler = view.sampler();
  for (int n = 0; n < bound(100); ++n) out.drawn.push_back(view.probability(sampler(uniform01(rng))));
  return out;
}

void check_copy(Copied (*copied)(Index size, bool read_before)) {
  // One segment, the edges of segments, many segments.
  for (const int size : {1, 5, 1024, 1025, std::max(bound(5000), 2100)})
    for (const bool read_before : {false, true}) {
      CAPTURE(size, read_before);
      const Copied row = copied(size, read_before);
      REQUIRE(row.p.size() == static_cast<std::size_t>(size));
      double worst = 0;
      for (std::size_t x = 0; x < row.p.size(); ++x)
        worst = std::max(worst, std::abs(row.p[x] - row.expected[x]) / std::max(row.expected[x], 1e-30));
      CHECK(worst < 1e-6);
      CHECK(std::abs(row.sum - 1) < 1e-3);  // a row of bfloat16 may be off by so much
      for (const double p : row.drawn) REQUIRE(p > 0);
    }
}

}  // namespace

TEST_CASE("a copy of a row outlives the memory of the row") {
  check_copy(copied<AsColMajor<double>>);
  check_copy(copied<AsNarrow<Eigen::bfloat16>>);
  check_copy(copied<AsLogits<double, 70>>);
  check_copy(copied<AsNormalisedLogits<double>>);
  check_copy(copied<AsSparse<float, std::int64_t>>);
}

TEST_CASE("a row that answers look-ups only can be copied, too") {
  Eigen::RowVector3d numbers(0.5, 0.125, 0.375);
  RowCopy<RemoteRow> copy;
  const auto view = copy.assign(RemoteRow{distributions(numbers).row(0)});
  const Eigen::RowVector3d kept = numbers;
  numbers.setZero();
  for (Token x = 0; x < 3; ++x) CHECK(view.probability(x) == kept[x]);
  CHECK(view.argmax() == 0);
}

TEST_CASE("a copy of a row that a hook has changed knows what it was before") {
  std::vector<float> raw{0, 1, 2, 3}, changed{0, 1, 2, -INFINITY};
  using Logits = NumberRow<float>;
  const detail::ChangedRow row(ProcessedRow(Logits(changed.data(), 4), Chain(Temperature{0.5})),
                               Logits(raw.data(), 4));
  RowCopy<std::remove_cvref_t<decltype(row)>> copy;
  const auto check = [&](const auto& copied, double p, double before) {
    std::fill(raw.begin(), raw.end(), 0.0F);
    std::fill(changed.begin(), changed.end(), 0.0F);
    CHECK(copied.probability(2) == Approx(p));
    CHECK(copied.unprocessed().probability(3) == Approx(before));
  };
  const double before = std::exp(3.0) / (1 + std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  check(copy.assign(row), std::exp(4.0) / (1 + std::exp(2.0) + std::exp(4.0)), before);
  raw = {0, 1, 2, 3};
  check(copy.uniform(row), 0.25, before);
}

TEST_CASE("one copy's memory serves rows of any length, one after another") {
  RowCopy<DenseRow<double>> copy;
  const Eigen::RowVector3d three(0.5, 0.25, 0.25);
  const Eigen::RowVector2d two(0.25, 0.75);
  CHECK(copy.assign(distributions(three).row(0)).probability(2) == 0.25);
  const auto view = copy.assign(distributions(two).row(0));
  CHECK(view.vocab_size() == 2);
  CHECK(view.probability(1) == 0.75);
  RowCopy<SparseRow<double>> lists;
  const std::vector<Token> ids{1, 4}, id{2};
  const std::vector<double> p{0.5, 0.5}, certain{1};
  CHECK(lists.assign(SparseRow<double>(ids, p, 6)).support_size() == 2);
  const auto list = lists.assign(SparseRow<double>(id, certain, 7));
  CHECK(list.support_size() == 1);
  CHECK(list.vocab_size() == 7);
  CHECK(list.probability(2) == 1);
}

}  // namespace test_rows_row_copy

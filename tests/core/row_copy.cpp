#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"

using namespace specdec;
using namespace support;

static_assert(std::is_same_v<RowCopy<DenseRow<float>>::View, DenseRow<float>>);
static_assert(std::is_same_v<RowCopy<DenseRow<double, Eigen::Dynamic>>::View, DenseRow<double>>,
              "a copy is packed");
static_assert(std::is_same_v<RowCopy<LogitsRow<float>>::View, LogitsRow<float>>);
static_assert(std::is_same_v<RowCopy<LogitsRow<Eigen::half, Eigen::Dynamic>>::View, LogitsRow<Eigen::half>>);
static_assert(std::is_same_v<RowCopy<SparseRow<float, std::int64_t>>::View, SparseRow<double>>);

namespace {

// Answers look-ups only: what a row on another machine might be.
struct RemoteRow {
  DenseRow<double> row;
  Index vocab_size() const { return row.vocab_size(); }
  double probability(Token x) const { return row.probability(x); }
  auto sampler() const { return row.sampler(); }
};

// Copies a row, then overwrites what it was made on, and looks at the copy.
template <class Layout>
void check_copy(Index size) {
  std::mt19937_64 rng{3};
  Layout layout;
  RowMajor<typename Layout::Scalar> numbers = RowMajor<typename Layout::Scalar>::Zero(1, size),
                                    other = numbers;
  for (Index x = 0; x < size; ++x)
    if (uniform01(rng) < 0.7) numbers(0, x) = static_cast<typename Layout::Scalar>(uniform01(rng));
  numbers(0, size / 2) = 1;
  numbers /= numbers.sum();
  other(0, 0) = 1;
  for (const bool read_before : {false, true}) {
    layout.hold(numbers);
    std::vector<double> expected;
    RowCopy<RowOf<decltype(distributions(std::as_const(layout).view()))>> copy;
    const auto view = [&] {
      const auto rows = distributions(std::as_const(layout).view());
      const auto row = rows.row(0);
      const auto same = rows.row(0);
      for (Index x = 0; x < size; ++x) expected.push_back(same.probability(static_cast<Token>(x)));
      if (read_before) row.probability(0);  // what a row has learnt goes with the copy
      return copy.assign(row);
    }();
    layout.hold(other);
    REQUIRE(view.vocab_size() == size);
    for (Index x = 0; x < size; ++x)
      REQUIRE(view.probability(static_cast<Token>(x)) ==
              Approx(expected[static_cast<std::size_t>(x)]).epsilon(1e-6));
    CHECK(view.sum(0, size) == Approx(1).epsilon(1e-3));  // what bfloat16 may make of 1
    auto sampler = view.sampler();
    for (int n = 0; n < 100; ++n) CHECK(view.probability(sampler(uniform01(rng))) > 0);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("a copy of a row outlives what the row was made on", "", AsRowMajor<float>,
                   AsColMajor<double>, AsStridedMap<float>, AsStridedPointers<double>, AsNarrow<Eigen::half>,
                   AsNarrow<Eigen::bfloat16>, AsLogits<double>, (AsLogits<float, 70>), AsLogits<Eigen::half>,
                   AsNormalisedLogits<double>, AsNormalisedLogits<float>, AsSparse<double>,
                   (AsSparse<float, std::int64_t>)) {
  // One block, the edges of blocks, many.
  for (const Index size : {1, 5, 1024, 1025, 5000}) check_copy<TestType>(size);
}

TEST_CASE("a row that only answers look-ups is copied, too") {
  Eigen::RowVector3d numbers(0.5, 0.125, 0.375);
  RowCopy<RemoteRow> copy;
  const auto view = copy.assign(RemoteRow{distributions(numbers).row(0)});
  const Eigen::RowVector3d kept = numbers;
  numbers.setZero();
  for (Token x = 0; x < 3; ++x) CHECK(view.probability(x) == kept[x]);
  CHECK(view.argmax() == 0);
}

TEST_CASE("one memory serves rows of any length, one after the other") {
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

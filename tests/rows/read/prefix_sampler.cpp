// SPDX-License-Identifier: MIT
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_rows_prefix_sampler {

using namespace specdec;

namespace {

// The definition: the first token whose running sum passes u.
Token by_definition(const Eigen::RowVectorXd& row, double u) {
  double sum = 0;
  for (Index x = 0; x < row.size(); ++x) {
    sum += row[x];
    if (sum > u) return static_cast<Token>(x);
  }
  return -1;
}

// What was read of a row: how far it was summed, and how many entries were read again to find a token in a segment of
// known sum.
struct Reading {
  Index summed = 0, searched = 0;
};
struct CountingRow {
  DenseRow<double> row;
  Reading* reading;
  Index vocab_size() const { return row.vocab_size(); }
  double probability(Token x) const {
    ++reading->searched;
    return row.probability(x);
  }
  double sum(Index start, Index count) const {
    if (start == reading->summed) reading->summed += count;
    else if (start < reading->summed) reading->searched += count;
    else throw std::logic_error("a block was passed over");
    return row.sum(start, count);
  }
};

}  // namespace

TEST_CASE("PrefixSampler is the inverse distribution function") {
  std::mt19937_64 rng{3};
  for (const Index size : {1, 2, 255, 256, 257, 512, 1000, 5000, 140000}) {
    // Multiples of 2^-40, so that sums are exact in any order.
    Eigen::RowVectorXd row(size);
    for (double& p : row) p = uniform01(rng) < 0.3 ? 0.0 : std::floor(uniform01(rng) * 1024);
    row[size / 2] += 1;
    row *= 0x1p-40;
    row[0] += 1 - row.sum();
    auto sampler = distributions(row).row(0).sampler();
    for (int i = 0; i < 200; ++i) {
      const double u =
          uniform01(rng) < 0.5 ? uniform01(rng) : 1 - uniform01(rng) * row.tail(size - 1).sum() - 0x1p-53;
      INFO("size " << size << ", u " << u);
      CHECK(sampler(u) == by_definition(row, u));
    }
    CHECK(sampler(0.0) == by_definition(row, 0.0));
    CHECK(sampler(1 - 0x1p-53) == by_definition(row, 1 - 0x1p-53));
  }
}

TEST_CASE("PrefixSampler gives u at the edge between two tokens to the second token") {
  Eigen::RowVector2d row(0.5, 0.5);
  auto sampler = distributions(row).row(0).sampler();
  CHECK(sampler(std::nextafter(0.5, 0.0)) == 0);
  CHECK(sampler(0.5) == 1);
}

TEST_CASE("PrefixSampler skips tokens without mass, even if a segment's sum is too large") {
  // The sums disagree with the entries, as from rounding but more. The answer must be the last token with mass.
  struct OverstatedRow {
    Index vocab_size() const { return 4; }
    double probability(Token x) const { return x == 1 ? 0.25 : 0.0; }
    double sum(Index, Index) const { return 0.5; }
  };
  PrefixSampler<OverstatedRow> sampler(OverstatedRow{});
  CHECK(sampler(0.1) == 1);
  CHECK(sampler(0.4) == 1);
}

TEST_CASE("PrefixSampler reads a row only as far as a draw needs, and sums nothing twice") {
  Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(10000, 0.1 / 9999);
  row[0] = 0.9;
  Reading reading;
  PrefixSampler<CountingRow> sampler(CountingRow{distributions(row).row(0), &reading});
  // What one draw reads again in its token's segment: sums of stretches of 64, and the tokens of one stretch.
  const auto draw = [&](double u) {
    reading.searched = 0;
    const Token x = sampler(u);
    CHECK(reading.searched <= 256 + 64);
    return x;
  };
  CHECK(draw(0.5) == 0);
  CHECK(reading.summed == 256);
  CHECK(reading.searched <= 64 + 1);  // the first stretch, and its first token
  CHECK(draw(0.8) == 0);
  CHECK(reading.summed == 256);
  draw(0.95);
  const Index half = reading.summed;
  CHECK(half > 4500);
  CHECK(half < 6000);
  draw(0.94);
  CHECK(reading.summed == half);
  draw(1 - 0x1p-53);
  CHECK(reading.summed == 10000);
  draw(0.0);
  draw(0.97);
  CHECK(reading.summed == 10000);
}

TEST_CASE("PrefixSampler uses the segment size that it is given, if that is larger than its own") {
  const Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(4096, 1.0 / 4096);
  Reading reading;
  PrefixSampler<CountingRow> wide(CountingRow{distributions(row).row(0), &reading}, 2048);
  CHECK(wide(0.25) == 1024);
  CHECK(reading.summed == 2048);
  CHECK(wide(0.75) == 3072);
  reading = {};
  PrefixSampler<CountingRow> narrow(CountingRow{distributions(row).row(0), &reading}, 8);
  CHECK(narrow(0.0) == 0);
  CHECK(reading.summed == 256);
}

TEST_CASE("PrefixSampler finds its token in every stretch of a segment, and at the edges") {
  // Powers of two on a few tokens: sums are exact, and every u below is an edge in the definition.
  for (const Index size : {64, 65, 128, 200, 256, 320}) {
    Eigen::RowVectorXd row = Eigen::RowVectorXd::Zero(size);
    for (const Index x : {Index{0}, Index{63}, Index{64}, Index{127}, Index{128}, size - 1})
      if (x < size) row[x] += 0.125;
    row[size / 2] += 1 - row.sum();
    auto sampler = distributions(row).row(0).sampler();
    for (double u = 0; u < 1; u += 0.0625) CHECK(sampler(u) == by_definition(row, u));
  }
}

TEST_CASE("PrefixSampler gives a valid token where the sums of stretches and of tokens disagree") {
  // The stretches sum to less than their segment, as rounding may do. So the draw falls after all stretches, where no
  // token has mass. The answer must be the segment's last token with mass.
  struct Row {
    Index vocab_size() const { return 256; }
    double probability(Token x) const { return x == 70 ? 0.5 : 0.0; }
    double sum(Index start, Index count) const {
      if (count == 256) return 1.0;
      return start <= 70 && 70 < start + count ? 0.5 : 0.0;
    }
  };
  PrefixSampler<Row> sampler(Row{});
  CHECK(sampler(0.25) == 70);
  CHECK(sampler(0.75) == 70);
}

TEST_CASE("PrefixSampler draws from a row that sums to less than 1 as if it were normalised") {
  Eigen::RowVector3d row(0.25, 0.0, 0.25);
  auto sampler = distributions(row).row(0).sampler();
  CHECK(sampler(0.1) == 0);
  CHECK(sampler(0.3) == 2);
  // u in [0.5, 1) is spread over [0, 0.5): each half goes to one of the two tokens.
  CHECK(sampler(0.5) == 0);
  CHECK(sampler(0.74) == 0);
  CHECK(sampler(0.76) == 2);
  CHECK(sampler(1 - 0x1p-53) == 2);
}

TEST_CASE("PrefixSampler never returns a token of probability 0") {
  Eigen::RowVectorXf row = Eigen::RowVectorXf::Zero(1000);
  row[300] = 0.5f;
  row[301] = 0.49999f;  // rounding leaves something at the end
  auto sampler = distributions(row).row(0).sampler();
  for (double u = 0; u < 1; u += 0x1p-10) CHECK(row[sampler(u)] > 0);
  CHECK(row[sampler(1 - 0x1p-53)] > 0);
}

TEST_CASE("PrefixSampler refuses rows that are not distributions") {
  Eigen::RowVectorXd row = Eigen::RowVectorXd::Zero(600);
  const auto draw = [&](double u) { return distributions(row).row(0).sampler()(u); };
  CHECK(support::message_of([&] { draw(0.5); }) == "the probabilities sum to 0");
  row[500] = std::numeric_limits<double>::quiet_NaN();
  CHECK(support::message_of([&] { draw(0.5); }) == "probabilities of tokens 256..511 sum to nan");
  row[0] = 1;  // this draw reads only what precedes the NaN
  CHECK(draw(0.5) == 0);
  row[1] = -3;
  CHECK(support::message_of([&] { draw(0.5); }) == "probabilities of tokens 0..255 sum to -2");
  row[1] = std::numeric_limits<double>::infinity();
  CHECK(support::message_of([&] { draw(0.5); }) == "probabilities of tokens 0..255 sum to inf");
  CHECK_THROWS_AS((PrefixSampler<DenseRow<double>>(DenseRow<double>(row.data(), 0))(0.5)),
                  InvalidDistribution);
}

TEST_CASE("PrefixSampler refuses a row whose mass is far more than 1") {
  Eigen::RowVector2d row(1, 1);
  CHECK(support::message_of([&] { distributions(row).row(0).sampler()(0.2); }) ==
        "probabilities of tokens 0..1 sum to 2, which is more than 1");
}

TEST_CASE("PrefixSampler tolerates the rounding of the row's scalar, and nothing more") {
  // bfloat16 has eight bits, so a sum of rounded numbers is off by less than a hundredth.
  const auto told = [](double sum) {
    const Eigen::RowVector2d row(0.5, sum - 0.5);
    return support::message_of<InvalidDistribution>([&] { distributions(row).row(0).sampler()(0.9); });
  };
  CHECK(told(1.005).empty());
  CHECK(told(1.02) == "probabilities of tokens 0..1 sum to 1.02, which is more than 1");
}

TEMPLATE_TEST_CASE("uniform rows of narrow scalars can be drawn from, at any length", "", Eigen::half,
                   Eigen::bfloat16) {
  // 1/338 900 and 1/532 000 are just above the middle between two neighbouring halves.
  for (const Index size : {Index{32'000}, Index{338'900}, Index{400'000}, Index{532'000}}) {
    const std::vector<TestType> p(static_cast<std::size_t>(size),
                                  static_cast<TestType>(1.0f / static_cast<float>(size)));
    auto sampler = DenseRow<TestType>(p.data(), size).sampler();
    for (const double u : {0.0, 0.5, 0.999, 1 - 0x1p-53}) CHECK_NOTHROW(sampler(u));
    std::vector<Token> ids(p.size());
    std::iota(ids.begin(), ids.end(), 0);
    auto listed = SparseRow<TestType>(ids, p, size).sampler();
    CHECK_NOTHROW(listed(1 - 0x1p-53));
  }
}

TEST_CASE("rows of half may hold many small numbers that were rounded up") {
  // Each number is a little more than half of the smallest half, and is rounded up to it: 0.012 of mass becomes 0.024.
  const Index size = 400'000;
  std::vector<Eigen::half> p(static_cast<std::size_t>(size), static_cast<Eigen::half>(0x1.01p-25f));
  p.back() = static_cast<Eigen::half>(1 - 0x1.01p-25f * static_cast<float>(size));
  CHECK(DenseRow<Eigen::half>(p.data(), size).sampler()(0.5) == size - 1);
  const std::vector<float> as_floats(p.begin(), p.end());
  CHECK_THROWS_AS(DenseRow<float>(as_floats.data(), size).sampler()(0.5), InvalidDistribution);
}

TEST_CASE("a row with more mass than rounding can explain is refused in every scalar") {
  const auto told = [](auto zero, float sum) {
    using Scalar = decltype(zero);
    std::vector<Scalar> p(32'000, zero);
    p[300] = static_cast<Scalar>(0.75f);
    p[310] = static_cast<Scalar>(sum - 0.75f);
    return support::message_of<InvalidDistribution>(
        [&] { DenseRow<Scalar>(p.data(), std::ssize(p)).sampler()(0.9); });
  };
  const std::string expected = "probabilities of tokens 0..511 sum to 1.5, which is more than 1";
  CHECK(told(0.0f, 1.5f) == expected);
  CHECK(told(0.0, 1.5f) == expected);
  CHECK(told(Eigen::half(0.0f), 1.5f) == expected);
  CHECK(told(Eigen::bfloat16(0.0f), 1.5f) == expected);
  for (const float sum : {1.005f, 1.02f}) {
    CHECK(told(0.0f, sum).empty() == (sum < 1.01f));
    CHECK(told(Eigen::bfloat16(0.0f), sum).empty() == (sum < 1.01f));
  }
}

TEST_CASE("a copied PrefixSampler goes on where the original stands") {
  Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(3000, 1.0 / 3000);
  auto sampler = distributions(row).row(0).sampler();
  const Token x = sampler(0.5);
  auto copy = sampler;
  CHECK(copy(0.5) == x);
  CHECK(copy(0.9) == sampler(0.9));
}

TEST_CASE("a number outside [0, 1), or NaN, draws nothing, and the sampler can go on") {
  const Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(600, 1.0 / 600), nothing(0);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto complaint = [](auto& sampler, double u) { return support::message_of([&] { sampler(u); }); };
  for (const double before : {0.0, 0.9955}) {
    auto sampler = distributions(row).row(0).sampler();
    if (before > 0) CHECK(sampler(before) == 597);
    CHECK(complaint(sampler, std::nan("")) == "specdec: u = nan is outside [0, 1)");
    CHECK(complaint(sampler, -0.5) == "specdec: u = -0.5 is outside [0, 1)");
    CHECK(complaint(sampler, -infinity) == "specdec: u = -inf is outside [0, 1)");
    CHECK(complaint(sampler, infinity) == "specdec: u = inf is outside [0, 1)");
    CHECK(sampler(0.9955) == 597);
  }
  auto sampler = distributions(nothing).row(0).sampler();
  CHECK(complaint(sampler, -1) == "specdec: u = -1 is outside [0, 1)");
  CHECK(complaint(sampler, 0) == "the probabilities sum to 0");
}

}  // namespace test_rows_prefix_sampler

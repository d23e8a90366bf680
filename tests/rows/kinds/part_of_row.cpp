// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/any_rows.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_part_of_row {

using namespace specdec;
using namespace support;

namespace {

template <class R>
using Without = PartOfRow<R, WithoutTokens>;
template <class R>
using Only = PartOfRow<R, OnlyTokens>;

template <class Dense, class Logits, class Sparse, class Any>
constexpr bool offers_what_the_row_does() {
  static_assert(Distribution<Dense> && SegmentedRow<Dense> && SummableRow<Logits>);
  static_assert(ListedRow<Sparse>);
  static_assert(!ListedRow<Any> && !SegmentedRow<Any>);
  static_assert(constant_time_probability<Dense> && !constant_time_probability<Logits>);
  return true;
}
static_assert(offers_what_the_row_does<Without<DenseRow<float>>, Without<LogitsRow<float>>,
                                       Without<SparseRow<float>>, Without<AnyRow>>());
static_assert(offers_what_the_row_does<Only<DenseRow<float>>, Only<LogitsRow<float>>, Only<SparseRow<float>>,
                                       Only<AnyRow>>());
static_assert(!std::is_constructible_v<WithoutTokens, std::vector<Token>> &&
              !std::is_constructible_v<OnlyTokens, std::vector<std::uint8_t>>);

// The largest difference of any answer of a part of a row from the expected one.
struct Deviations {
  double mass = 0, probability = 0, sum = 0, segments = 0, draws = 0;
  bool has_others = false;
};

// `left` holds the row's probabilities of the tokens in the part.
template <class Part>
Deviations deviations(const Part& part, const std::vector<double>& left) {
  const Index size = part.vocab_size();
  Deviations out;
  const double mass = std::accumulate(left.begin(), left.end(), 0.0);
  out.mass = std::abs(part.mass() - mass);
  const auto at = [&](Index x) { return left[static_cast<std::size_t>(x)] / mass; };
  std::vector<double> read(left.size(), 0.0), drawn(left.size(), 0.0);
  for (Token x = 0; x < size; ++x) {
    out.probability = std::max(out.probability, std::abs(part.probability(x) - at(x)));
    if (at(x) > 0 && !part.possible(x)) out.has_others = true;
  }
  for (Index start = 0; start < size; start += 1 + size / 7)
    for (Index count = 0; count <= size - start; count += 1 + size / 5) {
      double sum = 0;
      for (Index x = start; x < start + count; ++x) sum += at(x);
      out.sum = std::max(out.sum, std::abs(part.sum(start, count) - sum));
    }
  detail::each_segment(part, [&](const auto& ids, const auto& q) {
    for (Index k = 0; k < q.size(); ++k) read[static_cast<std::size_t>(ids(k))] = static_cast<double>(q[k]);
  });
  constexpr int draws = 2000;
  auto draw = part.sampler();
  for (int n = 0; n < draws; ++n) {
    const Token x = draw((n + 0.5) / draws);
    if (!(at(x) > 0)) out.has_others = true;
    drawn[static_cast<std::size_t>(x)] += 1.0 / draws;
  }
  for (Index x = 0; x < size; ++x) {
    out.segments = std::max(out.segments, std::abs(read[static_cast<std::size_t>(x)] - at(x)));
    out.draws = std::max(out.draws, std::abs(drawn[static_cast<std::size_t>(x)] - at(x)));
  }
  return out;
}

template <class Row, class Tokens, class IsLeft>
void check_part(const Row& row, const Tokens& tokens, const IsLeft& is_left, double tolerance) {
  const PartOfRow<Row, Tokens> part(row, tokens);
  std::vector<double> left;
  for (Token x = 0; x < row.vocab_size(); ++x)
    left.push_back(is_left(x) ? static_cast<double>(row.probability(x)) : 0.0);
  if (std::ranges::count(left, 0.0) == row.vocab_size()) {
    CHECK(part.mass() == 0);
    CHECK(part.probability(0) == 0);
    CHECK(part.sum(0, row.vocab_size()) == 0);
    CHECK(message_of<InvalidDistribution>([&] { part.sampler()(0.3); }) == "the probabilities sum to 0");
    return;
  }
  if constexpr (ArgmaxRow<Row>)
    CHECK(left[static_cast<std::size_t>(part.argmax())] == std::ranges::max(left));
  const Deviations found = deviations(part, left);
  CHECK(found.mass < tolerance);
  CHECK(found.probability < tolerance);
  CHECK(found.sum < tolerance);
  CHECK(found.segments < tolerance);
  CHECK(found.draws < 1.0 / 1999);
  CHECK(!found.has_others);
}

template <class Row>
void check(const Row& row, const std::vector<Token>& gone, double tolerance) {
  INFO("without " << specdec::testing::to_string(gone) << " of " << row.vocab_size());
  check_part(
      row, WithoutTokens{gone}, [&](Token x) { return std::ranges::find(gone, x) == gone.end(); }, tolerance);
}

template <class Row>
void check(const Row& row, const std::vector<std::uint8_t>& kept, double tolerance) {
  INFO("only some of " << row.vocab_size());
  check_part(
      row, OnlyTokens{kept},
      [&](Token x) { return x < std::ssize(kept) && kept[static_cast<std::size_t>(x)] != 0; }, tolerance);
}

template <class Layout>
void check_layout(double tolerance) {
  std::mt19937_64 rng{3};
  using Table = specdec::testing::TableModel<typename Layout::Scalar>;
  for (const Index size : {1, 2, 3, 5, 9}) {
    Layout layout;
    for (int n = 0; n < 10; ++n) {
      auto table = Table::random(size, 0, rng);
      layout.hold(table.forward(std::vector<Token>{0}, 1));
      const auto rows = distributions(std::as_const(layout).view());
      std::vector<Token> gone;
      check(rows.row(0), gone, tolerance);
      for (int k = 0; k < 4; ++k) {
        // One id may be outside the row.
        gone.push_back(static_cast<Token>(rng() % static_cast<std::size_t>(size + 1)));
        check(rows.row(0), gone, tolerance);
      }
      std::vector<std::uint8_t> kept;  // tokens beyond its size are not kept
      while (std::ssize(kept) < size - (n % 3 == 0 ? 1 : 0)) kept.push_back(uniform01(rng) < 0.5 ? 1 : 0);
      check(rows.row(0), kept, tolerance);
    }
  }
}

}  // namespace

TEST_CASE("the argmax of a part is the lowest id among the most probable tokens that are left") {
  const std::vector<double> p{0.125, 0.5, 0.1875, 0.1875};
  const DenseRow<double> row(p.data(), 4);
  const std::vector<Token> gone{1};
  const std::vector<std::uint8_t> first{1}, none(4, 0);
  CHECK(PartOfRow(row, WithoutTokens{gone}).argmax() == 2);
  CHECK(PartOfRow(row, OnlyTokens{first}).argmax() == 0);
  CHECK(message_of<InvalidDistribution>([&] { PartOfRow(row, OnlyTokens{none}).argmax(); }) ==
        "no token has positive probability");
}

TEST_CASE("a part of a row is the row given that the token is one of the part's, for rows of every kind") {
  check_layout<AsRowMajor<double>>(1e-14);
  check_layout<AsStridedMap<float>>(1e-6);
  check_layout<AsLogits<double, 70>>(1e-12);
  check_layout<AsLogits<float>>(1e-5);
  check_layout<AsSparse<double>>(1e-14);
}

TEST_CASE("rows longer than a segment") {
  std::mt19937_64 rng{4};
  const Index size = 2 * max_segment_size + 300;
  Eigen::RowVectorXd p(size);
  for (double& p_x : p) p_x = rng() % 3 == 0 ? 0.0 : uniform01(rng);
  p[5] = 4.0 * static_cast<double>(size);  // most of the mass
  p /= p.sum();
  const DenseRow<double> row(p.data(), size);
  std::vector<Token> tokens;
  for (int k = 0; k < 40; ++k) {
    check(row, tokens, 1e-13);
    tokens.push_back(k == 20 ? 5 : static_cast<Token>(rng() % static_cast<std::size_t>(size)));
  }
  check(AnyRow(row), tokens, 1e-13);
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(size) - 7);
  for (std::uint8_t& is_kept : kept) is_kept = uniform01(rng) < 0.5 ? 1 : 0;
  check(row, kept, 1e-12);
  check(AnyRow(row), kept, 1e-12);
  // Logits have sums of their own.
  const Eigen::RowVectorXd logits = (p.array() + 1e-9).log();
  const LogitsRow<double> of_logits(NumberRow<double>(logits.data(), size));
  check(of_logits, std::vector<Token>{}, 1e-13);
  check(of_logits, std::vector<Token>{1024, 17, 3, 2047, 5}, 1e-12);
  check(of_logits, kept, 1e-12);
}

TEST_CASE("no rounding of the removed tokens is left when next to nothing else is") {
  // Subtracting the removed tokens from the row's sum would leave rounding errors as large as the rest.
  const std::vector<float> p{0.7f, 1e-12f, 0.3f, 0, 3e-12f};
  const DenseRow<float> row(p.data(), 5);
  const std::vector<Token> tokens{2, 0};
  const PartOfRow rest(row, WithoutTokens{tokens});
  CHECK(rest.mass() == Approx(4e-12));
  CHECK(rest.probability(1) == Approx(0.25));
  auto draw = rest.sampler();
  CHECK(draw(0.2) == 1);
  CHECK(draw(0.3) == 4);
  const std::vector<Token> all{2, 0, 1, 4};
  CHECK(PartOfRow(row, WithoutTokens{all}).mass() == 0);
}

TEST_CASE("a part is drawn from correctly even if the row sums to a little more or less than 1") {
  for (const double total : {1.004, 0.996}) {
    const std::vector<double> p{0.25 * total, 0.25 * total, 0.25 * total, 0.25 * total};
    const DenseRow<double> row(p.data(), 4);
    const std::vector<Token> tokens{1};
    auto draw = PartOfRow(row, WithoutTokens{tokens}).sampler();
    std::vector<int> drawn(4, 0);
    for (int n = 0; n < 3000; ++n) ++drawn[static_cast<std::size_t>(draw((n + 0.5) / 3000))];
    CHECK(drawn[1] == 0);
    for (const Token x : {0, 2, 3}) CHECK(std::abs(drawn[static_cast<std::size_t>(x)] - 1000) < 20);
  }
}

TEST_CASE("a part of a dead end is a dead end, and has no mass") {
  const Eigen::Array3f zeros = Eigen::Array3f::Zero();
  const Eigen::Array3f forbidden = Eigen::Array3f::Constant(-std::numeric_limits<float>::infinity());
  const std::vector<Token> none, one{1}, all{0, 1, 2};
  const std::vector<std::uint8_t> kept{1, 0, 1};
  const auto check = [](const auto& part) {
    CHECK(part.mass() == 0);
    CHECK(part.is_dead_end());
    CHECK(part.probability(0) == 0);
  };
  for (const auto* gone : {&none, &one, &all}) {
    check(Without<DenseRow<float>>(DenseRow<float>(zeros.data(), 3), WithoutTokens{*gone}));
    check(Without<LogitsRow<float>>(LogitsRow<float>(NumberRow<float>(forbidden.data(), 3)),
                                    WithoutTokens{*gone}));
  }
  check(Only<DenseRow<float>>(DenseRow<float>(zeros.data(), 3), OnlyTokens{kept}));
}

TEST_CASE("a part of a row that is not a distribution is named in the error") {
  const std::vector<double> p{0.9, std::numeric_limits<double>::quiet_NaN(), 0.1};
  const DenseRow<double> row(p.data(), 3);
  const std::vector<Token> tokens{0};
  CHECK(message_of<InvalidDistribution>([&] { PartOfRow(row, WithoutTokens{tokens}); }) ==
        "the probabilities of the other tokens sum to nan");
  const std::vector<std::uint8_t> kept{0, 1, 0};
  CHECK(message_of<InvalidDistribution>([&] { PartOfRow(row, OnlyTokens{kept}); }) ==
        "the probabilities of the tokens that are kept sum to nan");
}

}  // namespace test_rows_part_of_row

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
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

namespace test_rows_without_tokens {

using namespace specdec;
using namespace support;

static_assert(Distribution<WithoutTokensRow<DenseRow<float>>>);
static_assert(SegmentedRow<WithoutTokensRow<DenseRow<float>>>);
static_assert(SummableRow<WithoutTokensRow<LogitsRow<float>>>);
static_assert(ListedRow<WithoutTokensRow<SparseRow<float>>> &&
              !SegmentedRow<WithoutTokensRow<SparseRow<float>>>);
static_assert(!ListedRow<WithoutTokensRow<AnyRow>> && !SegmentedRow<WithoutTokensRow<AnyRow>>);
static_assert(constant_time_probability<WithoutTokensRow<DenseRow<float>>>);
static_assert(!constant_time_probability<WithoutTokensRow<LogitsRow<float>>>);
static_assert(
    !std::is_constructible_v<WithoutTokensRow<DenseRow<float>>, DenseRow<float>, std::vector<Token>>);

namespace {

// What is left, by the definition; empty where nothing is.
template <class Row>
std::vector<double> expected(const Row& row, const std::vector<Token>& tokens) {
  std::vector<double> left;
  long double mass = 0;
  for (Token x = 0; x < row.vocab_size(); ++x) {
    const bool gone = std::ranges::find(tokens, x) != tokens.end();
    left.push_back(gone ? 0.0 : static_cast<double>(row.probability(x)));
    mass += static_cast<long double>(left.back());
  }
  if (mass == 0) return {};
  for (double& p : left) p = static_cast<double>(static_cast<long double>(p) / mass);
  return left;
}

// The largest difference of anything that the row says from what it has to.
struct Deviations {
  double probability = 0, sum = 0, walk = 0, draws = 0;
  bool drew_a_gap = false;
};

template <class Row>
Deviations deviations(const Row& row, const std::vector<Token>& tokens) {
  const WithoutTokensRow<Row> rest(row, tokens);
  const std::vector<double> p = expected(row, tokens);
  const Index size = row.vocab_size();
  Deviations out;
  const auto at = [&](Index x) { return p[static_cast<std::size_t>(x)]; };
  std::vector<double> walked(p.size(), 0.0), drawn(p.size(), 0.0);
  for (Token x = 0; x < size; ++x)
    out.probability = std::max(out.probability, std::abs(rest.probability(x) - at(x)));
  for (Index start = 0; start < size; start += 1 + size / 7)
    for (Index count = 0; count <= size - start; count += 1 + size / 5) {
      double sum = 0;
      for (Index x = start; x < start + count; ++x) sum += at(x);
      out.sum = std::max(out.sum, std::abs(rest.sum(start, count) - sum));
    }
  detail::walk(rest, [&](const auto& ids, const auto& q) {
    for (Index k = 0; k < q.size(); ++k) walked[static_cast<std::size_t>(ids(k))] = static_cast<double>(q[k]);
  });
  constexpr int draws = 2000;
  auto draw = rest.sampler();
  for (int n = 0; n < draws; ++n) {
    const Token x = draw((n + 0.5) / draws);
    if (!(at(x) > 0)) out.drew_a_gap = true;
    drawn[static_cast<std::size_t>(x)] += 1.0 / draws;
  }
  for (Index x = 0; x < size; ++x) {
    out.walk = std::max(out.walk, std::abs(walked[static_cast<std::size_t>(x)] - at(x)));
    out.draws = std::max(out.draws, std::abs(drawn[static_cast<std::size_t>(x)] - at(x)));
  }
  return out;
}

template <class Row>
void check(const Row& row, const std::vector<Token>& tokens, double tolerance) {
  INFO("without " << specdec::testing::to_string(tokens) << " of " << row.vocab_size());
  if (expected(row, tokens).empty()) {
    const WithoutTokensRow<Row> rest(row, tokens);
    CHECK(rest.mass() == 0);
    CHECK(rest.probability(0) == 0);
    CHECK(message_of<InvalidDistribution>([&] { rest.sampler()(0.3); }) == "the probabilities sum to 0");
    return;
  }
  const Deviations found = deviations(row, tokens);
  CHECK(found.probability < tolerance);
  CHECK(found.sum < tolerance);
  CHECK(found.walk < tolerance);
  CHECK(found.draws < 1.0 / 1999);
  CHECK(!found.drew_a_gap);
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
      std::vector<Token> tokens;
      check(rows.row(0), tokens, tolerance);
      for (int k = 0; k < 4; ++k) {
        tokens.push_back(
            static_cast<Token>(rng() % static_cast<std::size_t>(size + 1)));  // one may be foreign
        check(rows.row(0), tokens, tolerance);
      }
    }
  }
}

}  // namespace

TEST_CASE("a row without tokens is the row given that it is none of them, of every kind") {
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
  // Logits know sums of their own.
  const Eigen::RowVectorXd logits = (p.array() + 1e-9).log();
  const LogitsRow<double> of_logits(NumberRow<double>(logits.data(), size));
  check(of_logits, {}, 1e-13);
  check(of_logits, {1024, 17, 3, 2047, 5}, 1e-12);
}

TEST_CASE("nothing of the tokens is left over where next to nothing else is") {
  // Subtracted from the sum of the row, the tokens would leave rounding of the order of what is drawn from.
  const std::vector<float> p{0.7f, 1e-12f, 0.3f, 0, 3e-12f};
  const DenseRow<float> row(p.data(), 5);
  const std::vector<Token> tokens{2, 0};
  const WithoutTokensRow rest(row, tokens);
  CHECK(rest.mass() == Approx(4e-12));
  CHECK(rest.probability(1) == Approx(0.25));
  auto draw = rest.sampler();
  CHECK(draw(0.2) == 1);
  CHECK(draw(0.3) == 4);
  const std::vector<Token> all{2, 0, 1, 4};
  CHECK(WithoutTokensRow(row, all).mass() == 0);
}

TEST_CASE("a row that sums to a bit more or less than 1 is drawn from by what is left of it") {
  for (const double total : {1.004, 0.996}) {
    const std::vector<double> p{0.25 * total, 0.25 * total, 0.25 * total, 0.25 * total};
    const DenseRow<double> row(p.data(), 4);
    const std::vector<Token> tokens{1};
    auto draw = WithoutTokensRow(row, tokens).sampler();
    std::vector<int> drawn(4, 0);
    for (int n = 0; n < 3000; ++n) ++drawn[static_cast<std::size_t>(draw((n + 0.5) / 3000))];
    CHECK(drawn[1] == 0);
    for (const Token x : {0, 2, 3}) CHECK(std::abs(drawn[static_cast<std::size_t>(x)] - 1000) < 20);
  }
}

TEST_CASE("what is left of a row that is no distribution is named") {
  const std::vector<double> p{0.9, std::numeric_limits<double>::quiet_NaN(), 0.1};
  const DenseRow<double> row(p.data(), 3);
  const std::vector<Token> tokens{0};
  CHECK(message_of<InvalidDistribution>([&] { WithoutTokensRow(row, tokens); }) ==
        "the probabilities of the other tokens sum to nan");
}

}  // namespace test_rows_without_tokens

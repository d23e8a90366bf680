// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/rules.hpp"

namespace test_rows_variant_rows {

using namespace specdec;
using namespace support;

namespace {

// A row with only what the concept Distribution asks for.
struct LeastRow {
  Index vocab_size() const { return 4; }
  double probability(Token x) const { return x == 1 ? 1.0 : 0.0; }
  auto sampler() const {
    return [](double) { return Token{1}; };
  }
};

using Mixed = VariantRow<DenseRow<float>, LogitsRow<float>, SparseRow<double>, OneHotRow>;
using Lists = VariantRow<SparseRow<double>, OneHotRow>;
using Least = VariantRow<DenseRow<float>, LeastRow>;

static_assert(Distribution<Mixed> && ArgmaxRow<Mixed> && SummableRow<Mixed> && SegmentedRow<Mixed>);
static_assert(!ListedRow<Mixed> && !constant_time_probability<Mixed>);
static_assert(Distribution<Lists> && ArgmaxRow<Lists> && SummableRow<Lists> && ListedRow<Lists>);
static_assert(!SegmentedRow<Lists> && constant_time_probability<Lists>);
static_assert(Distribution<Least> && !ArgmaxRow<Least> && !SummableRow<Least> && !SegmentedRow<Least>);
static_assert(!ListedRow<Least> && !constant_time_probability<Least>);

using Sized = VariantRows<DenseRows<NumbersOf<Eigen::MatrixXf>>, OneHotRows>;
static_assert(DistributionMatrix<Sized> && has_vocab_size<Sized>);
static_assert(DistributionMatrix<VariantRows<OneHotRows, OneHotRows>> &&
              !has_vocab_size<VariantRows<OneHotRows, OneHotRows>>);

// Longer than two segments, with mass at both ends and in the middle.
constexpr Index size = 2 * max_segment_size + 100;
constexpr Token middle = max_segment_size;

struct Examples {
  Eigen::RowVectorXf dense = Eigen::RowVectorXf::Zero(size);
  Eigen::RowVectorXf logits = Eigen::RowVectorXf::Zero(size);
  std::vector<Token> ids{3, middle - 1, middle, size - 2};
  std::vector<double> weights{0.125, 0.5, 0.25, 0.125};

  Examples() {
    dense[0] = 0.25f;
    dense[middle] = 0.5f;
    dense[size - 1] = 0.25f;
    for (Index x = 0; x < size; ++x) logits[x] = static_cast<float>(std::sin(static_cast<double>(x))) * 3;
  }

  // Calls f(row, the row in a variant) for each kind.
  void each(auto&& f) const {
    const auto as = [&](auto kind, const auto& row) { f(row, Mixed(kind, row)); };
    as(std::in_place_index<0>, DenseRow<float>(dense.data(), size));
    as(std::in_place_index<1>, LogitsRow(NumberRow<float>(logits.data(), size)));
    as(std::in_place_index<2>, SparseRow<double>(ids, weights, size));
    as(std::in_place_index<3>, OneHotRow(middle + 1));
  }
};

}  // namespace

namespace {

// All answers of a row, as numbers.
template <class Row>
std::vector<double> answers(const Row& row) {
  std::vector<double> out{static_cast<double>(row.vocab_size()), static_cast<double>(row.argmax())};
  for (Token x = 0; x < row.vocab_size(); ++x) {
    out.push_back(row.probability(x));
    out.push_back(possible(row, x) ? 1 : 0);
  }
  auto draw = row.sampler();
  for (int k = 0; k < 64; ++k) out.push_back(draw(k / 64.0));
  for (const Index start : {Index{0}, Index{middle}}) out.push_back(static_cast<double>(row.sum(start, 30)));
  return out;
}

// The probabilities of a row, and the variant that holds it.
struct Example {
  std::vector<double> p, answers;
  Mixed variant;
};

std::vector<Example> all_kinds(const Examples& examples) {
  std::vector<Example> out;
  examples.each([&](const auto& row, const Mixed& variant) {
    std::vector<double> p;
    for (Token x = 0; x < size; ++x) p.push_back(x < row.vocab_size() ? row.probability(x) : 0.0);
    out.push_back({p, answers(row), variant});
  });
  return out;
}

double plain_mass(double a, const std::vector<double>& p, double b, const std::vector<double>& q) {
  double mass = 0;
  for (std::size_t x = 0; x < p.size(); ++x) mass += std::max(0.0, a * p[x] - b * q[x]);
  return mass;
}

}  // namespace

TEST_CASE("a variant row answers as the row that it holds") {
  const Examples examples;
  const auto kinds = all_kinds(examples);
  CHECK(kinds.size() == 4);
  for (const Example& kind : kinds) {
    CHECK(answers(kind.variant) == kind.answers);
    CHECK_FALSE(kind.variant.possible(static_cast<Token>(kind.variant.vocab_size())));
    kind.variant.prefetch(3);
  }
}

TEST_CASE("the segments of a variant row are its probabilities, even if it holds a list") {
  const Examples examples;
  for (const Example& kind : all_kinds(examples))
    for (const Index start : {Index{0}, max_segment_size, Index{7}})
      for (const Index count : {Index{1}, Index{10}, max_segment_size}) {
        if (start + count > kind.variant.vocab_size()) continue;
        const auto block = kind.variant.segment(start, count);
        REQUIRE(block.size() == count);
        double worst = 0;
        for (Index k = 0; k < count; ++k) {
          const double p = kind.p[static_cast<std::size_t>(start + k)];
          worst = std::max(worst, std::abs(block[k] - p) / std::max(p, 1e-9));
        }
        CHECK(worst < 1e-5);
      }
  const std::vector<Token> ids{700, 710, 720, 5};
  const std::vector<double> weights{0.25, 0.25, 0.25, 0.25};
  const Mixed disordered(std::in_place_index<2>, SparseRow<double>(ids, weights, size));
  CHECK_THROWS_AS(disordered.segment(600, 200), InvalidDistribution);
}

TEST_CASE("a variant of lists is itself a list") {
  const std::vector<Token> ids{2, 5};
  const std::vector<double> weights{0.25, 0.75};
  const Lists list(std::in_place_index<0>, SparseRow<double>(ids, weights, 9));
  CHECK(list.support_size() == 2);
  CHECK(list.support(1) == 5);
  CHECK(list.listed(1) == 0.75);
  const Lists certain(std::in_place_index<1>, OneHotRow(7));
  CHECK(certain.support_size() == 1);
  CHECK(certain.support(0) == 7);
  CHECK(certain.listed(0) == 1);
}

TEST_CASE("a residual of or against a variant row is that of the row it holds") {
  const Examples examples;
  const auto kinds = all_kinds(examples);
  const Eigen::RowVectorXf flat = Eigen::RowVectorXf::Constant(size, 1.0f / size);
  const DenseRow<float> p(flat.data(), size);
  const std::vector<double> flat_p(static_cast<std::size_t>(size), static_cast<double>(flat[0]));
  for (const Example& kind : kinds) {
    // A one-hot row knows no vocabulary beyond its token, but has all of its mass.
    CHECK(std::abs(residual_mass(0.75, p, 1.0, kind.variant) - plain_mass(0.75, flat_p, 1.0, kind.p)) < 1e-6);
    CHECK(std::abs(residual_mass(0.75, kind.variant, 0.5, p) - plain_mass(0.75, kind.p, 0.5, flat_p)) < 1e-6);
    for (const Example& other : kinds) {
      const double mass = plain_mass(1.0, kind.p, 0.25, other.p);
      CHECK(std::abs(residual_mass(1.0, kind.variant, 0.25, other.variant) - mass) < 1e-5);
      const ResidualRow rest(1.0, detail::NamedRow(kind.variant, "target", 0), 0.25,
                             detail::NamedRow(other.variant, "draft", 0));
      CHECK(std::abs(rest.mass() - mass) < 1e-5);
    }
  }
}

TEST_CASE("a variant matrix hands out the rows of the matrix it holds") {
  const Eigen::MatrixXf dense = Eigen::RowVector3f(0.25f, 0.5f, 0.25f).replicate(2, 1);
  const std::vector<Token> tokens{4, 1, 0};
  using Rows = VariantRows<Eigen::MatrixXf, OneHotRows, OneHotRows>;  // it may also hold a matrix of its own
  const Rows a(std::in_place_index<0>, dense), b(std::in_place_index<2>, OneHotRows(tokens));
  CHECK(a.rows() == 2);
  CHECK(a.vocab_size() == 3);
  CHECK(a.row(1).probability(1) == 0.5);
  CHECK(b.rows() == 3);
  CHECK(b.vocab_size() == 0);  // fits any vocabulary
  CHECK(b.row(0).probability(4) == 1);
  CHECK(b.row(1).vocab_size() == 2);
}

TEST_CASE("a verdict on variant rows is the verdict on the rows they hold") {
  // Lists and one-hot rows are looked up. The expected verdicts come from a matrix of equal numbers.
  using Rows = VariantRows<DenseRows<NumbersOf<RowMajor<double>>>, RowSpan<SparseRow<double>>, OneHotRows>;
  using AnyRule = AnyOf<true, BlockVerifier, GreedyBlockVerifier>;
  const std::pair<AnyRule, AnyVerifier> rules[] = {{{BlockVerifier{}}, {BlockVerifier{}}},
                                                   {{GreedyBlockVerifier{}}, {GreedyBlockVerifier{}}}};
  std::mt19937_64 rng(1);
  const auto model = testing::TableModel<>::random(5, 2, rng);
  for (std::uint64_t n = 0; n < 300; ++n) {
    RowMajor<double> p(4, 5), q(3, 5), certain = RowMajor<double>::Zero(3, 5);
    AsSparse<double> lists;
    std::vector<Token> tokens;
    for (Token i = 0; i < 4; ++i) {
      p.row(i) = model.distribution(std::vector<Token>{i, static_cast<Token>(n % 5)}).segment(0, 5);
      if (i == 3) break;
      q.row(i) = model.distribution(std::vector<Token>{static_cast<Token>(n % 4), i}).segment(0, 5);
      tokens.push_back(RandomChance{rng}.draw(DenseRows(q).row(i)));
      certain(i, tokens.back()) = 1;
    }
    lists.hold(q);
    const Rows target(std::in_place_index<0>, DenseRows(p));
    const auto same = [&](const Rows& draft, const RowMajor<double>& numbers) {
      for (auto [rule, expected] : rules) {
        CAPTURE(expected.name(), n);
        std::mt19937_64 a(n), b(n);
        CHECK(verify(rule, target, draft, tokens, a) == expected(p, numbers, tokens, b));
      }
    };
    same(Rows(std::in_place_index<0>, DenseRows(q)), q);
    same(Rows(std::in_place_index<1>, lists.view()), q);
    same(Rows(std::in_place_index<2>, OneHotRows(tokens)), certain);
  }
}

}  // namespace test_rows_variant_rows

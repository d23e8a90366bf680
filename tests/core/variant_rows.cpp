#include <cmath>
#include <cstddef>
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

namespace {

// A row that offers nothing but what a Distribution must.
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

static_assert(Distribution<Mixed> && ArgmaxRow<Mixed> && SummableRow<Mixed> && BlockRow<Mixed>);
static_assert(!SparseRowLike<Mixed> && !constant_time_probability<Mixed>);
static_assert(Distribution<Lists> && ArgmaxRow<Lists> && SummableRow<Lists> && SparseRowLike<Lists>);
static_assert(!BlockRow<Lists> && constant_time_probability<Lists>);
static_assert(Distribution<Least> && !ArgmaxRow<Least> && !SummableRow<Least> && !BlockRow<Least>);
static_assert(!SparseRowLike<Least> && !constant_time_probability<Least>);

using Sized = VariantRows<DenseRows<NumbersOf<Eigen::MatrixXf>>, OneHotRows>;
static_assert(SizedDistributionMatrix<Sized>);
static_assert(DistributionMatrix<VariantRows<OneHotRows, OneHotRows>> &&
              !SizedDistributionMatrix<VariantRows<OneHotRows, OneHotRows>>);

// Longer than two blocks, with mass at both ends and in the middle.
constexpr Index size = 2 * max_block_size + 100;
constexpr Token middle = max_block_size;

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

  // Calls f(row, the same in the variant) for each kind.
  void each(auto&& f) const {
    const auto as = [&](auto kind, const auto& row) { f(row, Mixed(kind, row)); };
    as(std::in_place_index<0>, DenseRow<float>(dense.data(), size));
    as(std::in_place_index<1>, LogitsRow(NumberRow<float>(logits.data(), size)));
    as(std::in_place_index<2>, SparseRow<double>(ids, weights, size));
    as(std::in_place_index<3>, OneHotRow(middle + 1));
  }
};

}  // namespace

TEST_CASE("a variant row answers as the row that it holds") {
  const Examples examples;
  int kinds = 0;
  examples.each([&](const auto& row, const Mixed& variant) {
    ++kinds;
    CHECK(variant.vocab_size() == row.vocab_size());
    CHECK(variant.argmax() == row.argmax());
    for (Token x = 0; x < row.vocab_size(); ++x) {
      REQUIRE(variant.probability(x) == static_cast<double>(row.probability(x)));
      REQUIRE(variant.possible(x) == possible(row, x));
    }
    CHECK_FALSE(variant.possible(static_cast<Token>(row.vocab_size())));
    auto draw = row.sampler();
    auto variant_draw = variant.sampler();
    for (int k = 0; k < 64; ++k) REQUIRE(variant_draw(k / 64.0) == draw(k / 64.0));
    for (const Index start : {Index{0}, Index{middle}})
      CHECK(variant.sum(start, 30) == static_cast<double>(row.sum(start, 30)));
    variant.prefetch(3);
  });
  CHECK(kinds == 4);
}

TEST_CASE("the blocks of a variant row are its probabilities, also those of a list") {
  const Examples examples;
  examples.each([&](const auto& row, const Mixed& variant) {
    for (const Index start : {Index{0}, max_block_size, Index{7}})
      for (const Index count : {Index{1}, Index{10}, max_block_size}) {
        if (start + count > row.vocab_size()) continue;
        const auto block = variant.block(start, count);
        REQUIRE(block.size() == count);
        for (Index k = 0; k < count; ++k)
          REQUIRE(block[k] == Approx(row.probability(static_cast<Token>(start + k))).epsilon(1e-5));
      }
  });
  const std::vector<Token> ids{700, 710, 720, 5};
  const std::vector<double> weights{0.25, 0.25, 0.25, 0.25};
  const Mixed disordered(std::in_place_index<2>, SparseRow<double>(ids, weights, size));
  CHECK_THROWS_AS(disordered.block(600, 200), InvalidDistribution);
}

TEST_CASE("a variant of lists is a list") {
  const std::vector<Token> ids{2, 5};
  const std::vector<double> weights{0.25, 0.75};
  const Lists list(std::in_place_index<0>, SparseRow<double>(ids, weights, 9));
  CHECK(list.support_size() == 2);
  CHECK(list.support(1) == 5);
  CHECK(list.weight(1) == 0.75);
  const Lists certain(std::in_place_index<1>, OneHotRow(7));
  CHECK(certain.support_size() == 1);
  CHECK(certain.support(0) == 7);
  CHECK(certain.weight(0) == 1);
}

TEST_CASE("a residual against a variant row, or of one, is that of the row it holds") {
  const Examples examples;
  const Eigen::RowVectorXf flat = Eigen::RowVectorXf::Constant(size, 1.0f / size);
  const DenseRow<float> p(flat.data(), size);
  examples.each([&](const auto& row, const Mixed& variant) {
    CHECK(residual_mass(0.75, p, 1.0, variant) == Approx(residual_mass(0.75, p, 1.0, row)).epsilon(1e-6));
    CHECK(residual_mass(0.75, variant, 0.5, p) == Approx(residual_mass(0.75, row, 0.5, p)).epsilon(1e-6));
    examples.each([&](const auto& other, const Mixed& other_variant) {
      const double mass = residual_mass(1.0, row, 0.25, other);
      CHECK(residual_mass(1.0, variant, 0.25, other_variant) == Approx(mass).epsilon(1e-5));
      const ResidualRow rest(1.0, detail::NamedRow(variant, "target", 0), 0.25,
                             detail::NamedRow(other_variant, "draft", 0));
      CHECK(rest.mass() == Approx(mass).epsilon(1e-5));
    });
  });
}

TEST_CASE("a variant matrix hands out the rows of the matrix it holds") {
  const Eigen::MatrixXf dense = Eigen::RowVector3f(0.25f, 0.5f, 0.25f).replicate(2, 1);
  const std::vector<Token> tokens{4, 1, 0};
  using Rows = VariantRows<Eigen::MatrixXf, OneHotRows, OneHotRows>;  // holds a matrix of its own, too
  const Rows a(std::in_place_index<0>, dense), b(std::in_place_index<2>, OneHotRows(tokens));
  CHECK(a.rows() == 2);
  CHECK(a.vocab_size() == 3);
  CHECK(a.row(1).probability(1) == 0.5);
  CHECK(b.rows() == 3);
  CHECK(b.vocab_size() == 0);  // fits any
  CHECK(b.row(0).probability(4) == 1);
  CHECK(b.row(1).vocab_size() == 2);
}

TEMPLATE_TEST_CASE("a verdict on variant rows is the verdict on the rows they hold", "", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier) {
  using Rows = VariantRows<DenseRows<NumbersOf<Eigen::MatrixXd>>, RowSpan<SparseRow<double>>, OneHotRows>;
  std::mt19937_64 rng(1);
  const auto model = testing::TableModel<>::random(5, 2, rng);
  const auto verdict = [](const auto& target, const auto& draft, std::span<const Token> tokens, int seed) {
    std::mt19937_64 generator(static_cast<std::uint64_t>(seed));
    TestType verifier;
    return verifier(target, draft, tokens, generator);
  };
  for (int n = 0; n < 300; ++n) {
    Eigen::MatrixXd p(4, 5), q(3, 5);
    AsSparse<double> lists;
    std::vector<Token> tokens;
    for (Token i = 0; i < 4; ++i) {
      p.row(i) = model.distribution(std::vector<Token>{i, static_cast<Token>(n % 5)}).block(0, 5);
      if (i == 3) break;
      q.row(i) = model.distribution(std::vector<Token>{static_cast<Token>(n % 4), i}).block(0, 5);
      tokens.push_back(RandomChance{rng}.draw(DenseRows(q).row(i)));
    }
    lists.hold(q);
    const auto same = [&](auto kind, const auto& rows) {
      const Rows variant(kind, rows);
      CHECK(verdict(p, variant, tokens, n) == verdict(p, rows, tokens, n));
      CHECK(verdict(Rows(std::in_place_index<0>, DenseRows(p)), variant, tokens, n) ==
            verdict(p, rows, tokens, n));
    };
    same(std::in_place_index<0>, DenseRows(q));
    same(std::in_place_index<1>, lists.view());
    same(std::in_place_index<2>, OneHotRows(tokens));
  }
}

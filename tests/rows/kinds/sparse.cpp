// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_sparse {

using namespace specdec;
using support::message_of;

using Row = SparseRow<double>;

static_assert(Distribution<Row> && ListedRow<Row> && SummableRow<Row> && ArgmaxRow<Row>);
static_assert(Distribution<SparseRow<float, std::int64_t>> && ListedRow<SparseRow<Eigen::half>>);
static_assert(DistributionMatrix<RowSpan<Row>> && has_vocab_size<RowSpan<Row>> &&
              Probabilities<RowSpan<Row>>);
static_assert(ListedRow<ResidualRow<Row, DenseRow<float>>> && ListedRow<detail::NamedRow<Row>>);
static_assert(!ListedRow<ResidualRow<DenseRow<float>, Row>> && !ListedRow<DenseRow<float>>);

namespace {

// A row with the ids 1, 4, 5 and 9, of any type, asked every question.
template <class Id>
struct Answers {
  std::vector<double> shape, p, sums, drawn;

  Answers() {
    const std::vector<Id> ids{1, 4, 5, 9};
    const std::vector<float> weights{0.125f, 0.25f, 0.0f, 0.625f};
    const SparseRow<float, Id> row(ids, weights, 11);
    shape = {static_cast<double>(row.vocab_size()), static_cast<double>(row.support_size()),
             static_cast<double>(row.argmax())};
    for (Token x = 0; x < 11; ++x) p.push_back(row.probability(x));
    for (Index start = 0; start < 11; ++start)
      for (Index count = 0; start + count <= 11; ++count) sums.push_back(row.sum(start, count));
    auto sampler = row.sampler();
    for (const double u : {0.0, 0.124, 0.125, 0.374, 0.375, 1 - 0x1p-53}) drawn.push_back(sampler(u));
  }
};

template <class Id>
void check_answers(const Answers<Id>& row) {
  const std::vector<double> dense{0, 0.125, 0, 0, 0.25, 0, 0, 0, 0, 0.625, 0};
  CHECK(row.shape == std::vector<double>{11, 4, 9});
  CHECK(row.p == dense);
  std::vector<double> sums;
  for (std::size_t start = 0; start < 11; ++start)
    for (std::size_t count = 0; start + count <= 11; ++count) {
      sums.push_back(0);
      for (std::size_t x = start; x < start + count; ++x) sums.back() += dense[x];
    }
  CHECK(row.sums == sums);
  CHECK(row.drawn == std::vector<double>{1, 1, 4, 4, 9, 9});
}

}  // namespace

TEST_CASE("a sparse row gives its tokens their probabilities, and other tokens none") {
  check_answers(Answers<std::int32_t>());
  check_answers(Answers<std::int64_t>());
  check_answers(Answers<std::int16_t>());
}

TEST_CASE("a long sparse row is looked up and drawn from like a dense one") {
  std::mt19937_64 rng{3};
  for (const Index size : {1, 2, 3, 64, 255, 256, 257, 2000}) {
    std::vector<Token> ids;
    std::vector<double> p;
    Eigen::RowVectorXd dense = Eigen::RowVectorXd::Zero(7 * size + 1);
    double total = 0;
    for (Index k = 0; k < size; ++k) {
      ids.push_back(static_cast<Token>(7 * k + static_cast<Index>(uniform01(rng) * 7)));
      p.push_back(std::floor(uniform01(rng) * 64) * 0x1p-20);
      total += p.back();
    }
    p.back() += 1 - total;
    for (std::size_t k = 0; k < p.size(); ++k) dense[ids[k]] = p[k];
    const Row row(ids, p, dense.size());
    const auto same = distributions(dense).row(0);
    for (Index x = 0; x < dense.size(); ++x) REQUIRE(row.probability(static_cast<Token>(x)) == dense[x]);
    CHECK(row.argmax() == same.argmax());
    auto a = row.sampler();
    auto b = same.sampler();
    for (int n = 0; n < 300; ++n) {
      const double u = uniform01(rng) < 0.5 ? uniform01(rng) : uniform01(rng) * total;
      REQUIRE(a(u) == b(u));
    }
  }
}

TEST_CASE("the argmax of a sparse row is the lowest id among equals, and always has mass") {
  const std::vector<Token> ids{2, 5, 7};
  const auto argmax = [&](std::vector<double> p) { return Row(ids, p, 8).argmax(); };
  CHECK(argmax({0.25, 0.5, 0.25}) == 5);
  CHECK(argmax({0.25, 0.375, 0.375}) == 5);
  CHECK(argmax({0.5, 0.5, 0}) == 2);
  CHECK(argmax({0, 0, 1}) == 7);
  CHECK(message_of([&] { argmax({0, 0, 0}); }) == "no token has positive probability");
  CHECK(message_of([&] { argmax({0.5, -0.25, 0.75}); }) == "the probability of token 5 is -0.25");
  CHECK(message_of([&] {
          argmax({0.5, 0.5, std::numeric_limits<double>::quiet_NaN()});
        }) == "the probability of token 7 is nan");
  CHECK(message_of([&] { Row({}, {}, 8).argmax(); }) == "no token has positive probability");
}

TEST_CASE("a sparse row needs a probability for every id") {
  const std::vector<Token> ids{2, 5};
  const std::vector<double> p{1};
  CHECK(message_of([&] { Row(ids, p, 8); }) == "specdec: a sparse row has 2 ids, but 1 probabilities");
  const std::vector<double> two{0.5, 0.5};
  CHECK(message_of([&] { Row(ids, two, 1); }) == "specdec: a list has 2 tokens of a vocabulary of 1");
}

TEST_CASE("a sparse row that was cut and not renormalised is refused where a draw reads all of it") {
  const auto draw = [](const std::vector<double>& p, double u) {
    std::vector<Token> ids;
    for (std::size_t k = 0; k < p.size(); ++k) ids.push_back(static_cast<Token>(2 * k));
    return message_of<InvalidDistribution>([&] { Row(ids, p, 2000).sampler()(u); });
  };
  CHECK(draw({0.25, 0.25}, 0.1) ==
        "the probabilities of a list of 2 tokens sum to 0.5: renormalise them after a cut");
  CHECK(draw({0.5, 0.48}, 0.1) ==
        "the probabilities of a list of 2 tokens sum to 0.98: renormalise them after a cut");
  CHECK_THAT(draw({1, 1}, 0.1), Catch::Contains("sum to 2, which is more than 1"));
  for (const double rounded : {0.992, 1.0, 1.008}) CHECK(draw({0.5 * rounded, 0.5 * rounded}, 0.1).empty());
  // Of a long list a draw reads only what it needs.
  std::vector<double> many(600, 0.5 / 600);
  CHECK(draw(many, 0.1).empty());
  CHECK_THAT(draw(many, 0.9), Catch::Contains("of a list of 600 tokens sum to 0.5"));
}

TEST_CASE("a sparse row without mass is never drawn from") {
  const auto draw = [](std::vector<Token> ids, std::vector<double> p) {
    return message_of([&] { Row(ids, p, 8).sampler()(0.5); });
  };
  CHECK(draw({}, {}) == "the probabilities sum to 0");
  CHECK(draw({1, 2}, {0, 0}) == "the probabilities sum to 0");
  CHECK_FALSE(draw({1, 2}, {0.5, std::numeric_limits<double>::quiet_NaN()}).empty());
  CHECK_FALSE(draw({1, 2}, {-0.5, 0.25}).empty());
  CHECK(draw({1, 2}, {0, 1}).empty());
}

TEST_CASE("an id outside the vocabulary is an error before it could be taken for a token") {
  constexpr std::int64_t huge = (std::int64_t{1} << 32) + 3;  // 3, if it were cut to 32 bits
  const auto check = [](auto id, const char* told) {
    const std::vector<decltype(id)> ids{id};
    const std::vector<double> p{1};
    const SparseRow<double, decltype(id)> row(ids, p, 8);
    const std::string expected = std::string("id ") + told + " is outside the vocabulary 0..7";
    CHECK(message_of<InvalidDistribution>([&] { row.sampler()(0.5); }) == expected);
    CHECK(message_of<InvalidDistribution>([&] { row.argmax(); }) == expected);
    for (Token x = 0; x < 8; ++x) CHECK(row.probability(x) == 0);
  };
  check(Token{-1}, "-1");
  check(Token{8}, "8");
  check(huge, "2147483647");
  check(-huge, "2147483647");
  check(std::uint32_t{0xffffffff}, "2147483647");
}

namespace {

// Rows over 8 tokens with broken lists, verified against good rows of every kind. The result may be a verdict or an
// error, but never a token without probability.
struct Broken {
  std::vector<Token> ids;
  std::vector<double> p;
};
const Broken broken_rows[] = {
    {{5, 2, 3}, {0.25, 0.5, 0.25}},  // not in order
    {{7, 6, 5, 4, 3, 2, 1, 0}, {0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125}},
    {{2, 3, -1, -1}, {0.5, 0.5, 0, 0}},  // padded at the end
    {{-1, -1, 2, 3}, {0, 0, 0.5, 0.5}},  // padded in front
    {{-1, 2, 3}, {0.5, 0.25, 0.25}},     // mass at an id that is no token
    {{2, 3, 8}, {0.5, 0.25, 0.25}},      // mass at an id beyond the vocabulary
    {{2, 2, 3}, {0.25, 0.5, 0.25}},      // one token twice
    {{1000000, 2, 3}, {0, 0.5, 0.5}},
    {{-1000000000, 1000000000}, {0.5, 0.5}},
    {{}, {}},
};

struct Counted {
  int verdicts = 0, errors = 0;
};

template <class V, class P, class Q>
void judge_broken(const P& target, const Q& draft, Counted& counted) {
  std::mt19937_64 rng{3};
  for (const Token x : {0, 2, 3, 7})
    for (int n = 0; n < 20; ++n) {
      const std::vector<Token> tokens{x, x};
      try {
        V verifier;
        const Verdict v = verifier(target, draft, tokens, rng);
        const bool in_range = v.accepted >= 0 && v.accepted <= 2 && v.token >= 0 && v.token < 8;
        if (!in_range) throw std::logic_error("a verdict out of range");
        ++counted.verdicts;
      } catch (const std::invalid_argument&) {
        ++counted.errors;
      }
    }
}

}  // namespace

TEST_CASE("lists that are out of order, outside the vocabulary or empty give no crash and no wrong token") {
  // The allocations are exactly as large as the rows, so that sanitizers notice reads beyond them.
  const support::RowMajor<double> dense = support::RowMajor<double>::Constant(3, 8, 0.125),
                                  fewer = dense.topRows(2);
  Counted targets, drafts, both, argmaxes;
  for (const Broken& b : broken_rows) {
    const std::vector<Row> rows(3, Row(b.ids, b.p, 8));
    const RowSpan target(rows, 8);
    const RowSpan<Row> draft(std::span<const Row>(rows).first(2), 8);
    // Together these rules ask for ratios, races, masses, draws and the argmax.
    judge_broken<GreedyBlockVerifier>(target, fewer, targets);
    judge_broken<GreedyBlockVerifier>(dense, draft, drafts);
    judge_broken<GreedyBlockVerifier>(target, draft, both);
    judge_broken<BlockVerifier>(target, draft, both);
    judge_broken<SampleMatchVerifier>(target, draft, both);
    judge_broken<ArgmaxVerifier>(target, fewer, argmaxes);
  }
  for (const Counted& counted : {targets, drafts, both, argmaxes}) {
    CHECK(counted.verdicts > 0);
    CHECK(counted.errors > 0);
  }
}

TEST_CASE("a residual of broken lists is an error, and is never read out of bounds") {
  const Eigen::RowVectorXd dense = Eigen::RowVectorXd::Constant(8, 0.125);
  const auto q = distributions(dense).row(0);
  const auto complaint = [&](std::size_t i) {
    const Row row(broken_rows[i].ids, broken_rows[i].p, 8);
    return message_of<InvalidDistribution>([&] { ResidualRow(1.0, row, 1.0, q).sampler()(0.5); });
  };
  CHECK(complaint(0) == "the ids of a sparse row do not ascend: ids[1] = 2, after ids[0] = 5");
  CHECK(complaint(2) == "id -1 is outside the vocabulary 0..7");
  CHECK(complaint(3) == "id -1 is outside the vocabulary 0..7");
  CHECK(complaint(4) == "id -1 is outside the vocabulary 0..7");
  CHECK(complaint(6) == "the ids of a sparse row do not ascend: ids[1] = 2, after ids[0] = 2");
  for (const Broken& b : broken_rows) {
    const Row row(b.ids, b.p, 8);
    try {
      const double mass = residual_mass(1.0, q, 1.0, row);
      CHECK(mass >= 0);
      CHECK(mass <= 1);
    } catch (const InvalidDistribution&) {
    }
  }
  const Row unsorted(broken_rows[1].ids, broken_rows[1].p, 8);
  CHECK(message_of([&] { residual_mass(1.0, q, 1.0, unsorted); }) ==
        "the ids of a sparse row do not ascend: ids[1] = 6, after ids[0] = 7");
}

TEST_CASE("a sparse row over a negative vocabulary is named in the error") {
  const std::vector<Token> ids{1};
  const std::vector<double> p{1};
  CHECK(support::message_of([&] { SparseRow<double>(ids, p, -1); }) ==
        "specdec: a list has a vocabulary of -1 tokens");
}

}  // namespace test_rows_sparse

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

namespace test_rows_overlap {

using namespace specdec;
using namespace support;

namespace {

// Random probabilities. Many of them are 0.
RowMajor<double> random_row(Index size, std::mt19937_64& rng) {
  RowMajor<double> row(1, size);
  for (Index x = 0; x < size; ++x) row(0, x) = uniform01(rng) < 0.4 ? 0.0 : uniform01(rng);
  row(0, size / 2) += 1;
  return row / row.sum();
}

// The probabilities of a row of any kind.
struct AnyRow {
  Index vocab_size;
  std::function<double(Token)> probability;
};

template <class R>
AnyRow any(const R& row) {
  return {row.vocab_size(), [&row](Token x) { return probability(row, x); }};
}

// Σ min(p/l, q) of the rows' own probabilities, token by token.
double sum_of_minima(const AnyRow& p, const AnyRow& q, double l) {
  long double sum = 0;
  for (Token x = 0; x < std::max(p.vocab_size, q.vocab_size); ++x)
    sum += std::min(static_cast<long double>(p.probability(x)) / static_cast<long double>(l),
                    static_cast<long double>(q.probability(x)));
  return static_cast<double>(sum);
}

constexpr double leniences[] = {1.0, 0.6, 0.01};

// The library's answers for a pair of rows.
struct Said {
  double overlap = 0;
  std::vector<double> lenient = {};
};

void check(const Said& said, const AnyRow& p, const AnyRow& q, double tolerance) {
  CHECK(said.overlap == Approx(sum_of_minima(p, q, 1)).epsilon(tolerance).margin(1e-15));
  for (std::size_t k = 0; k < said.lenient.size(); ++k)
    CHECK(said.lenient[k] == Approx(sum_of_minima(p, q, leniences[k])).epsilon(tolerance).margin(1e-15));
}

// D_LK by its definition, plus half of the difference of the rounded rows' sums.
void check_distance(double total_variation, const AnyRow& p, const AnyRow& q) {
  double distance = 0;
  for (Token x = 0; x < std::max(p.vocab_size, q.vocab_size); ++x) {
    const double mean = (p.probability(x) + q.probability(x)) / 2;
    distance += std::abs(p.probability(x) - mean) + (p.probability(x) - mean);
  }
  CHECK(total_variation == Approx(distance).epsilon(1e-12).margin(1e-12));
}

// A float exponential in a segment differs a little from a single one.
template <class P, class Q>
void check_overlap(const P& p, const Q& q, double tolerance = 1e-12) {
  Said said{overlap(p, q)};
  for (const double l : leniences) said.lenient.push_back(lenient_overlap(p, q, l));
  check(said, any(p), any(q), tolerance);
}

// Pairs of kinds with a summation of their own. Their distance is checked, too.
template <class P, class Q>
void check_both(const P& p, const Q& q) {
  check_overlap(p, q);
  check_distance(total_variation(p, q), any(p), any(q));
}

// A row with look-ups only.
struct BareRow {
  std::vector<double> p;
  Index vocab_size() const { return std::ssize(p); }
  double probability(Token x) const { return p[static_cast<std::size_t>(x)]; }
  auto sampler() const {
    return [](double) { return Token{0}; };
  }
};

BareRow bare(const RowMajor<double>& row) { return {{row.data(), row.data() + row.size()}}; }

}  // namespace

namespace {

template <class Layout>
Layout held(const RowMajor<double>& row) {
  Layout layout;
  layout.hold(row.template cast<typename Layout::Scalar>());
  return layout;
}

}  // namespace

TEST_CASE("overlaps are sums of minima for rows of every kind") {
  std::mt19937_64 rng{3};
  for (const Index size : {1, 5, 1024, 1025, 4000}) {
    CAPTURE(size);
    const auto p = random_row(size, rng), q = random_row(size + size / 2, rng);
    const auto dense = distributions(p).row(0), other_dense = distributions(q).row(0);
    const auto sparse = held<AsSparse<double>>(p), other_sparse = held<AsSparse<double>>(q);
    const auto logits = held<AsLogits<double>>(p), other_logits = held<AsLogits<double>>(q);
    const auto lists = sparse.view(), other_lists = other_sparse.view();
    const auto exponentials = distributions(logits.view()),
               other_exponentials = distributions(other_logits.view());
    const OneHotRow known(static_cast<Token>(size / 2)), unknown(static_cast<Token>(size));

    // Segments, lists and single look-ups: each sort of row with each.
    check_both(dense, other_dense);
    check_both(exponentials.row(0), other_exponentials.row(0));
    check_both(exponentials.row(0), other_lists.row(0));
    check_both(lists.row(0), other_exponentials.row(0));
    check_both(dense, other_lists.row(0));
    check_both(lists.row(0), other_dense);
    check_both(lists.row(0), other_lists.row(0));
    check_both(dense, bare(q));
    check_both(bare(p), other_dense);
    check_both(lists.row(0), bare(q));
    check_both(bare(p), other_lists.row(0));
    check_both(dense, known);
    check_both(dense, unknown);  // only the drafter knows this token
    check_both(lists.row(0), known);
    check_both(lists.row(0), unknown);

    // What segments are made of.
    const auto floats = held<AsRowMajor<float>>(p);
    const auto strided = held<AsStridedMap<double>>(p);
    const auto halves = held<AsNarrow<Eigen::half>>(p);
    const auto float_logits = held<AsLogits<float>>(p);
    check_overlap(distributions(floats.view()).row(0), other_dense);
    check_overlap(distributions(strided.view()).row(0), other_dense);
    check_overlap(distributions(halves.view()).row(0), other_dense);
    check_overlap(distributions(float_logits.view()).row(0), other_dense, 1e-6);
    check_overlap(other_dense, exponentials.row(0));
    check_overlap(exponentials.row(0), other_dense);
  }
}

TEST_CASE("the overlap of equal rows is all their mass, that of disjoint rows is 0") {
  const Eigen::RowVector4d p(0.1, 0.2, 0.7, 0), q(0, 0, 0, 1), near(0.1, 0.2, 0.7 - 1e-13, 1e-13);
  const auto p_row = distributions(p).row(0), q_row = distributions(q).row(0);
  CHECK(overlap(p_row, p_row) == p.sum());
  CHECK(total_variation(p_row, p_row) == 0);
  CHECK(overlap(p_row, q_row) == 0);
  CHECK(total_variation(p_row, q_row) == Approx(1));
  CHECK(total_variation(p_row, distributions(near).row(0)) == Approx(1e-13).epsilon(1e-3));
}

TEST_CASE("an overlap is what token verification accepts at gamma = 1") {  // by enumeration
  std::mt19937_64 rng{4};
  for (int n = 0; n < 50; ++n) {
    const auto target = testing::TableModel<>::random(4, 0, rng),
               draft = testing::TableModel<>::random(4, 0, rng);
    const auto p = target.distribution({}), q = draft.distribution({});
    RowMajor<double> p_rows(2, 4), q_rows(1, 4);
    for (Token x = 0; x < 4; ++x) {
      p_rows.col(x).setConstant(p.probability(x));
      q_rows(0, x) = q.probability(x);
    }
    const auto accepted = [&](const AnyVerifier& rule) {
      double sum = 0;
      testing::enumerate([&](testing::Enumerator& chance) {
        AnyVerifier verifier = rule;
        const std::vector<Token> drafted{chance.draw(q)};
        const Verdict verdict = verifier(p_rows, q_rows, drafted, chance);
        sum += chance.probability() * static_cast<double>(verdict.accepted);
      });
      return sum;
    };
    CHECK(overlap(p, q) == Approx(accepted({TokenVerifier{}})).epsilon(0).margin(1e-14));
    CHECK(lenient_overlap(p, q, 0.3) == Approx(accepted({LenientVerifier{0.3}})).epsilon(0).margin(1e-14));
  }
}

TEST_CASE("an overlap is a finite number or an error") {
  const double nan_value = std::numeric_limits<double>::quiet_NaN();
  Eigen::RowVectorXd p = Eigen::RowVectorXd::Constant(3, 1.0 / 3), bad = p;
  bad[1] = nan_value;
  const auto row = distributions(p).row(0), bad_row = distributions(bad).row(0);
  const std::vector<Token> ids{0, 1}, falling{1, 0};
  const std::vector<double> weights{0.5, nan_value}, halves{0.5, 0.5};
  const SparseRow<double> sparse(ids, weights, 3), disordered(falling, halves, 3);
  CHECK_THROWS_AS(overlap(row, bad_row), InvalidDistribution);
  CHECK_THROWS_AS(overlap(bad_row, row), InvalidDistribution);
  CHECK_THROWS_AS(overlap(row, sparse), InvalidDistribution);
  CHECK_THROWS_AS(overlap(sparse, row), InvalidDistribution);
  CHECK_THROWS_AS(overlap(BareRow{{0.5, nan_value, 0.5}}, row), InvalidDistribution);
  CHECK_THROWS_AS(overlap(row, BareRow{{0.5, nan_value, 0.5}}), InvalidDistribution);
  CHECK_THROWS_AS(overlap(row, disordered), InvalidDistribution);
  CHECK_THROWS_AS(total_variation(row, bad_row), InvalidDistribution);
  for (const double l : {0.0, -1.0, 1.5, 1e-320, nan_value})
    CHECK_THROWS_AS(lenient_overlap(row, row, l), std::invalid_argument);
  CHECK(message_of([&] { lenient_overlap(row, row, 2); }) == "specdec: lenience = 2 is outside (0, 1]");
}

}  // namespace test_rows_overlap

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

using namespace specdec;
using namespace support;

namespace {

// Random probabilities of which many are 0.
RowMajor<double> random_row(Index size, std::mt19937_64& rng) {
  RowMajor<double> row(1, size);
  for (Index x = 0; x < size; ++x) row(0, x) = uniform01(rng) < 0.4 ? 0.0 : uniform01(rng);
  row(0, size / 2) += 1;
  return row / row.sum();
}

// Σ min(p/l, q) of probabilities as the rows have them, one token at a time.
template <class P, class Q>
double sum_of_minima(const P& p, const Q& q, double l) {
  long double sum = 0;
  for (Token x = 0; x < std::max(p.vocab_size(), q.vocab_size()); ++x)
    sum += std::min(static_cast<long double>(probability(p, x)) / static_cast<long double>(l),
                    static_cast<long double>(probability(q, x)));
  return static_cast<double>(sum);
}

// Float exponentials come out a little differently by the block and one by one.
template <class P, class Q>
void check_rows(const P& p, const Q& q, double tolerance) {
  CHECK(overlap(p, q) == Approx(sum_of_minima(p, q, 1)).epsilon(tolerance).margin(1e-15));
  for (const double l : {1.0, 0.6, 0.01})
    CHECK(lenient_overlap(p, q, l) == Approx(sum_of_minima(p, q, l)).epsilon(tolerance).margin(1e-15));
  // D_LK by its definition, and half of what rounded rows differ by in sum (float rows: 1e-7).
  double distance = 0;
  for (Token x = 0; x < std::max(p.vocab_size(), q.vocab_size()); ++x) {
    const double mean = (probability(p, x) + probability(q, x)) / 2;
    distance += std::abs(probability(p, x) - mean) + (probability(p, x) - mean);
  }
  CHECK(total_variation(p, q) == Approx(distance).epsilon(1e-6).margin(1e-6));
}

// A row of nothing but look-ups.
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

TEMPLATE_TEST_CASE("overlaps are sums of minima whatever the rows", "", AsRowMajor<double>, AsRowMajor<float>,
                   AsStridedMap<double>, AsNarrow<Eigen::half>, AsLogits<double>, AsLogits<float>,
                   AsSparse<double>) {
  std::mt19937_64 rng{3};
  for (const Index size : {1, 5, 1024, 1025, 4000}) {
    const auto p = random_row(size, rng), q = random_row(size + size / 2, rng);
    TestType layout, other;
    AsRowMajor<double> dense;
    AsSparse<double> sparse;
    layout.hold(p.template cast<typename TestType::Scalar>());
    other.hold(q.template cast<typename TestType::Scalar>());
    dense.hold(q);
    sparse.hold(q);
    const auto view = distributions(layout.view()), other_view = distributions(other.view());
    const auto dense_view = distributions(dense.view());
    const auto sparse_view = sparse.view();
    const auto row = view.row(0);
    const double tolerance = std::is_same_v<TestType, AsLogits<float>> ? 1e-6 : 1e-12;
    check_rows(row, other_view.row(0), tolerance);
    check_rows(other_view.row(0), row, tolerance);
    check_rows(row, dense_view.row(0), tolerance);
    check_rows(dense_view.row(0), row, tolerance);
    check_rows(row, sparse_view.row(0), tolerance);
    check_rows(sparse_view.row(0), row, tolerance);
    check_rows(row, bare(q), tolerance);
    check_rows(bare(q), row, tolerance);
    check_rows(row, OneHotRow(static_cast<Token>(size / 2)), tolerance);
    check_rows(row, OneHotRow(static_cast<Token>(size)), tolerance);  // which only the drafter knows
  }
}

TEST_CASE("equal rows overlap in all they have, disjoint ones in nothing") {
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
    auto target = testing::TableModel<>::random(4, 1, rng);
    const auto draft = testing::TableModel<>::random(4, 1, rng);
    const std::vector<Token> prompt{2};
    const auto p = target.distribution(prompt), q = draft.distribution(prompt);
    ModelDrafter drafter{testing::TableModel<>(draft)};
    CHECK(overlap(p, q) ==
          Approx(testing::exact_step(target, drafter, TokenVerifier{}, prompt, 1).expected_accepted())
              .margin(1e-14));
    CHECK(lenient_overlap(p, q, 0.3) ==
          Approx(testing::exact_step(target, drafter, LenientVerifier{0.3}, prompt, 1).expected_accepted())
              .margin(1e-14));
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

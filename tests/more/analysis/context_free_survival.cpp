// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_more_analysis_context_free_survival {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Row = Eigen::RowVectorXd;

// Rows whose ratios all differ, many far from 1. With `holes`, some tokens have p = 0 or q = 0.
struct Pair {
  Row p, q;
  auto target() const { return DenseRow<double>(p.data(), p.size()); }
  auto draft() const { return DenseRow<double>(q.data(), q.size()); }
};
Pair random_pair(Index size, double contrast, bool holes, std::mt19937_64& rng) {
  Pair pair{Row(size), Row(size)};
  for (Index x = 0; x < size; ++x) {
    pair.p[x] = holes && uniform01(rng) < 0.2 ? 0 : std::exp(contrast * uniform01(rng));
    pair.q[x] = holes && uniform01(rng) < 0.2 ? 0 : std::exp(contrast * uniform01(rng));
  }
  pair.p[0] += 1;
  pair.q[0] += 1;
  pair.p /= pair.p.sum();
  pair.q /= pair.q.sum();
  return pair;
}

// The result of going through all drafts.
template <class Rule>
Survival enumerated(const Rule& rule, const Pair& pair, Index gamma) {
  const auto p = [&](std::span<const Token>) { return pair.target(); };
  const auto q = [&](std::span<const Token>) { return pair.draft(); };
  return enumerated_survival(rule, p, q, {}, gamma);
}

void check_equal(const Survival& a, const Survival& b, double tolerance = 1e-12) {
  REQUIRE(a.beyond.size() == b.beyond.size());
  for (std::size_t i = 0; i < a.beyond.size(); ++i)
    CHECK(a.beyond[i] == Approx(b.beyond[i]).epsilon(0).margin(tolerance));
}

// Checks that bounds are true except for the rounding of `exact`, and at most `width` apart.
void check_bounds(const SurvivalBounds& bounds, const Survival& exact, double width) {
  constexpr double rounding = 1e-14;
  REQUIRE(bounds.lower.beyond.size() == exact.beyond.size());
  REQUIRE(bounds.upper.beyond.size() == exact.beyond.size());
  for (std::size_t i = 0; i < exact.beyond.size(); ++i) {
    CHECK(bounds.lower.beyond[i] <= exact.beyond[i] + rounding);
    CHECK(bounds.upper.beyond[i] >= exact.beyond[i] - rounding);
    CHECK(bounds.upper.beyond[i] - bounds.lower.beyond[i] <= width);
  }
}

template <class F>
void for_random_pairs(F&& f) {
  std::mt19937_64 rng{81};
  for (const Index size : {1, 2, 3, 5})
    for (const double contrast : {0.0, 1.0, 6.0})
      for (const bool holes : {false, true}) f(random_pair(size, contrast, holes, rng));
}

}  // namespace

TEST_CASE("survival without context equals the enumeration of all drafts") {
  for_random_pairs([](const Pair& pair) {
    for (const Index gamma : {0, 1, 2, 6}) {
      check_equal(context_free_survival(TokenVerifier{}, pair.target(), pair.draft(), gamma),
                  enumerated(TokenVerifier{}, pair, gamma));
      check_equal(context_free_survival(LenientVerifier{0.3}, pair.target(), pair.draft(), gamma),
                  enumerated(LenientVerifier{0.3}, pair, gamma));
      check_equal(context_free_survival(BlockVerifier{}, pair.target(), pair.draft(), gamma),
                  enumerated(BlockVerifier{}, pair, gamma));
      check_equal(context_free_survival(GreedyBlockVerifier{}, pair.target(), pair.draft(), gamma),
                  enumerated(GreedyBlockVerifier{}, pair, gamma));
    }
  });
}

TEST_CASE("bounds enclose the exact survival, and their distance shrinks with the square of the cell width") {
  for_random_pairs([](const Pair& pair) {
    for (const double cell : {1.0, 0.25, 0.01}) {
      const auto check = [&](auto rule) {
        check_bounds(context_free_survival_bounds(rule, pair.target(), pair.draft(), 6, cell),
                     enumerated(rule, pair, 6), cell * cell);
      };
      check(BlockVerifier{});
      check(GreedyBlockVerifier{});
    }
  });
}

TEST_CASE("the published toy example holds, alone and over many tokens") {
  const Pair toy{Row(Eigen::RowVector2d(1. / 3, 2. / 3)), Row(Eigen::RowVector2d(2. / 3, 1. / 3))};
  const auto expected = [&](auto rule) {
    return context_free_survival(rule, toy.target(), toy.draft(), 2).expected_accepted();
  };
  CHECK(expected(TokenVerifier{}) == Approx(10. / 9));
  CHECK(expected(BlockVerifier{}) == Approx(11. / 9));
  CHECK(expected(GreedyBlockVerifier{}) == Approx(12. / 9));
  // Σ min of the two product distributions, by the number of B's in i tokens: Σ_k C(i,k) min(2^k, 2^{i−k})/3^i.
  const Survival greedy = context_free_survival(GreedyBlockVerifier{}, toy.target(), toy.draft(), 60);
  for (int i = 1; i <= 60; ++i) {
    long double sum = 0, choose = 1;
    for (int k = 0; k <= i; ++k) {
      sum += choose * std::pow(2.0L, std::min(k, i - k));
      choose = choose * (i - k) / (k + 1);
    }
    CHECK(greedy.beyond[static_cast<std::size_t>(i - 1)] ==
          Approx(static_cast<double>(sum / std::pow(3.0L, i))).epsilon(1e-12));
  }
}

TEST_CASE("survival is right for a vocabulary of over a thousand tokens", "[long]") {
  std::mt19937_64 rng{82};
  const Pair pair = random_pair(1000, 3, true, rng);
  const auto p = pair.target(), q = pair.draft();
  // γ = 2 from the definitions, for each pair of tokens.
  long double block = 0, greedy = 0, beta = 0;
  for (Index x = 0; x < 1000; ++x) {
    beta += std::min(pair.p[x], pair.q[x]);
    for (Index y = 0; y < 1000; ++y) {
      greedy += std::min(pair.p[x] * pair.p[y], pair.q[x] * pair.q[y]);
      block += std::min(std::min(pair.p[x], pair.q[x]) * pair.p[y], pair.q[x] * pair.q[y]);
    }
  }
  const Survival exact_block{{static_cast<double>(beta), static_cast<double>(block)}};
  const Survival exact_greedy{{static_cast<double>(beta), static_cast<double>(greedy)}};
  check_equal(context_free_survival(BlockVerifier{}, p, q, 2), exact_block, 1e-12);
  check_equal(context_free_survival(GreedyBlockVerifier{}, p, q, 2), exact_greedy, 1e-12);
  check_bounds(context_free_survival_bounds(BlockVerifier{}, p, q, 2), exact_block, 1e-4);
  check_bounds(context_free_survival_bounds(GreedyBlockVerifier{}, p, q, 2), exact_greedy, 1e-4);
  // γ = 16: the order of the rules, and the bounds of coarse cells enclose those of fine ones.
  const Survival token = context_free_survival(TokenVerifier{}, p, q, 16);
  const auto coarse = context_free_survival_bounds(BlockVerifier{}, p, q, 16, 0.125);
  const auto fine = context_free_survival_bounds(BlockVerifier{}, p, q, 16, 0.03);
  const auto bound = context_free_survival_bounds(GreedyBlockVerifier{}, p, q, 16, 0.03);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(coarse.lower.beyond[i] <= fine.upper.beyond[i]);
    CHECK(fine.lower.beyond[i] <= coarse.upper.beyond[i]);
    CHECK(fine.lower.beyond[i] <= fine.upper.beyond[i]);
    CHECK(fine.upper.beyond[i] - fine.lower.beyond[i] < 1e-3);
    if (i < 1) continue;
    CHECK(token.beyond[i] < fine.lower.beyond[i]);
    CHECK(fine.upper.beyond[i] < bound.lower.beyond[i]);
  }
}

TEST_CASE("limits: equal rows, disjoint rows, a draft without probabilities, no draft") {
  const Pair equal{Row(Eigen::RowVector3d(0.5, 0.3, 0.2)), Row(Eigen::RowVector3d(0.5, 0.3, 0.2))};
  const Pair disjoint{Row(Eigen::RowVector3d(1, 0, 0)), Row(Eigen::RowVector3d(0, 0.5, 0.5))};
  const auto check = [&](auto rule) {
    const auto survival = [&](const Pair& pair, Index gamma) {
      return context_free_survival(rule, pair.target(), pair.draft(), gamma);
    };
    check_equal(survival(equal, 5), Survival{{1, 1, 1, 1, 1}}, 1e-15);
    CHECK(survival(disjoint, 2).beyond == std::vector<double>{0, 0});
    CHECK(survival(equal, 0).beyond.empty());
    check_equal(context_free_survival(rule, equal.target(), OneHotRow(1), 3), Survival{{0.3, 0.09, 0.027}});
  };
  check(TokenVerifier{});
  check(BlockVerifier{});
  check(GreedyBlockVerifier{});
  const auto none = context_free_survival_bounds(BlockVerifier{}, disjoint.target(), disjoint.draft(), 2);
  CHECK(none.upper.beyond == std::vector<double>{0, 0});
  CHECK(none.lower.beyond == std::vector<double>{0, 0});
  const auto all = context_free_survival_bounds(GreedyBlockVerifier{}, equal.target(), equal.draft(), 2);
  check_bounds(all, Survival{{1, 1}}, 1e-4);
}

TEST_CASE("numbers at the ends of their range give no inf or NaN") {
  // Ratios of 1e±200 and of subnormal q. Products of these ratios must not become inf or NaN.
  const double tiny = 1e-200, subnormal = 4e-320;
  const Pair far{Row(Eigen::RowVector4d(tiny, 0.5, 0.25, 0.25)),
                 Row(Eigen::RowVector4d(0.5, tiny, subnormal, 0.5))};
  // All mass is in the token with ratio 1/2: w_i = 2^{−i} with probability 2^{−i}. The rest is negligible.
  const Survival expected{{0.25, 0.0625, 0.015625, 0.00390625}};
  check_equal(context_free_survival(BlockVerifier{}, far.target(), far.draft(), 4), expected);
  check_equal(context_free_survival(GreedyBlockVerifier{}, far.target(), far.draft(), 4), expected);
  check_bounds(context_free_survival_bounds(BlockVerifier{}, far.target(), far.draft(), 4), expected, 1e-4);
  check_bounds(context_free_survival_bounds(GreedyBlockVerifier{}, far.target(), far.draft(), 4), expected,
               1e-4);
}

TEST_CASE("rows may be of any kind and of different sizes") {
  std::mt19937_64 rng{83};
  const Pair pair = random_pair(4, 2, true, rng);
  AsSparse<double> sparse;
  AsLogits<double> logits;
  RowMajor<double> wide = RowMajor<double>::Zero(1, 6);
  wide.leftCols(4) = pair.q;
  wide(0, 0) -= 0.03125;
  wide(0, 5) = 0.03125;  // only the drafter knows tokens 4 and 5
  sparse.hold(wide);
  logits.hold(pair.p);
  const Pair dense{Row(RowMajor<double>::Zero(1, 6)), Row(wide)};
  Pair padded = dense;
  padded.p.leftCols(4) = pair.p;
  const auto q_rows = sparse.view();
  const auto p_rows = distributions(logits.view());
  const auto check = [&](auto rule) {
    const Survival expected = enumerated(rule, padded, 4);
    check_equal(context_free_survival(rule, p_rows.row(0), q_rows.row(0), 4), expected, 1e-12);
    check_equal(context_free_survival(rule, pair.target(), padded.draft(), 4), expected, 1e-12);
  };
  check(TokenVerifier{});
  check(BlockVerifier{});
  check(GreedyBlockVerifier{});
}

TEST_CASE("equal weights are kept once, and only as long as they can still matter") {
  // g_1 is 1/2 or 2. g_2 is 1/4 (one more token cannot lift it to 1), 1, or 4. After the third token no weight
  // matters.
  const Pair toy{Row(Eigen::RowVector2d(1. / 3, 2. / 3)), Row(Eigen::RowVector2d(2. / 3, 1. / 3))};
  const auto survival = [&](std::size_t most) {
    return context_free_survival(GreedyBlockVerifier{}, toy.target(), toy.draft(), 3, most);
  };
  CHECK_NOTHROW(survival(3));
  CHECK(message_of([&] { survival(2); }) ==
        "specdec: most_weights = 2 is too few: the weights of these rows take more values");
  // w_i is 1, or 2^{−k} with k <= i. If k > 40 − i, the weight can no longer rise to 1, and the mean is enough.
  CHECK_NOTHROW(context_free_survival(BlockVerifier{}, toy.target(), toy.draft(), 40, 22));
  // 40 tokens with three ratios would give C(42, 2) products.
  std::mt19937_64 rng{84};
  const Pair three = random_pair(3, 2, false, rng);
  CHECK_NOTHROW(context_free_survival(GreedyBlockVerifier{}, three.target(), three.draft(), 40, 1500));
}

TEST_CASE("context-free survival refuses bad input") {
  const Pair pair{Row(Eigen::RowVector2d(0.5, 0.5)), Row(Eigen::RowVector2d(0.5, 0.5))};
  const Pair bad{Row(Eigen::RowVector2d(0.5, std::numeric_limits<double>::quiet_NaN())),
                 Row(Eigen::RowVector2d(1.0, -0.5))};
  const auto survival = [](const auto& p, const auto& q, Index gamma) {
    return context_free_survival(BlockVerifier{}, p, q, gamma);
  };
  CHECK(message_of([&] { survival(pair.target(), pair.draft(), unlimited); }) ==
        "specdec: gamma = 9223372036854775807 is more than 1048576, the longest draft");
  CHECK(message_of([&] { survival(pair.target(), pair.draft(), -1); }) == "specdec: gamma = -1 is negative");
  CHECK(message_of([&] { context_free_survival(TokenVerifier{}, pair.target(), pair.draft(), -1); }) ==
        "specdec: gamma = -1 is negative");
  CHECK(message_of([&] { context_free_survival_bounds(BlockVerifier{}, pair.target(), pair.draft(), -1); }) ==
        "specdec: gamma = -1 is negative");
  CHECK(message_of([&] { survival(bad.target(), pair.draft(), 1); }) ==
        "specdec: target row 0: the probability of token 1 is nan");
  CHECK(message_of([&] { survival(pair.target(), bad.draft(), 1); }) ==
        "specdec: draft row 0: the probability of token 1 is -0.5");
  const std::vector<Token> ids{1, 0};
  const std::vector<double> halves{0.5, 0.5};
  CHECK(message_of([&] { survival(pair.target(), SparseRow<double>(ids, halves, 2), 1); }) ==
        "specdec: draft row 0: the ids of a sparse row do not ascend: ids[1] = 0, after ids[0] = 1");
  for (const double cell : {0.0, -1.0, 1.5, 1e-9, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(context_free_survival_bounds(BlockVerifier{}, pair.target(), pair.draft(), 1, cell),
                    std::invalid_argument);
  CHECK(message_of([&] {
          context_free_survival_bounds(BlockVerifier{}, pair.target(), pair.draft(), 1, 2);
        }) == "specdec: cell = 2 is outside [2^-20, 1]");
}

}  // namespace test_more_analysis_context_free_survival

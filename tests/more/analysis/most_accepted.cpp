// How often one of several candidates can be accepted: against all sets of tokens, against rules, and by hand.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <specdec/more/analysis/row_acceptance.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_analysis_most_accepted {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;

namespace {

using Row = Eigen::RowVectorXd;

DenseRow<double> view(const Row& row) { return {row.data(), row.size()}; }

// 1 + the least p(A) - q(A)^n of all sets A.
double by_all_sets(const Row& p, const Row& q, Index n) {
  double least = 0;
  for (unsigned set = 0; set < (1U << p.size()); ++set) {
    double target = 0, draft = 0;
    for (Index x = 0; x < p.size(); ++x)
      if ((set >> x & 1U) != 0) target += p[x], draft += q[x];
    least = std::min(least, target - std::pow(draft, static_cast<double>(n)));
  }
  return 1 + least;
}

// How often a rule accepts one of n tokens that are drawn from q.
double accepted(const auto& rule, const Row& p, const Row& q, Index n) {
  const TableModel<>::Rows target = p.replicate(n + 1, 1), draft = q.replicate(n, 1);
  const std::vector<Index> parents(static_cast<std::size_t>(n), -1);
  double sum = 0;
  enumerate([&](Enumerator& chance) {
    std::vector<Token> tokens;
    for (Index i = 0; i < n; ++i) tokens.push_back(chance.draw(view(q)));
    const TreeVerdict verdict = verify(rule, target, draft, tokens, parents, chance);
    if (!verdict.path.empty()) sum += chance.probability();
  });
  return sum;
}

}  // namespace

TEST_CASE("the best sets are the tokens of least p/q, and no rule accepts more") {
  std::mt19937_64 rng{2};
  for (int pair = 0; pair < 60; ++pair) {
    const Index size = 2 + pair % 4;
    auto model = TableModel<>::random(size, 1, rng);
    const TableModel<>::Rows rows = model.forward(std::vector<Token>{0, 1}, 2);
    const Row p = rows.row(0), q = rows.row(1);
    for (Index n = 0; n <= 4; ++n)
      CHECK(std::abs(most_accepted(view(p), view(q), n) - by_all_sets(p, q, n)) < 1e-12);
    CHECK(std::abs(most_accepted(view(p), view(q), 1) - p.cwiseMin(q).sum()) < 1e-12);
    if (q.maxCoeff() == 1) continue;  // all candidates would be one token
    const double most = most_accepted(view(p), view(q), 2) + 1e-12;
    CHECK(accepted(RecursiveRejectionVerifier{}, p, q, 2) <= most);
    CHECK(accepted(KSeqVerifier{}, p, q, 2) <= most);
    CHECK(accepted(TraversalVerifier{}, p, q, 2) <= most);
  }
}

TEST_CASE("no candidate is never accepted, and many are accepted with all mass that p has where q has any") {
  const Row p = (Row(4) << 0.25, 0.5, 0, 0.25).finished(), q = (Row(4) << 0.5, 0.125, 0.375, 0).finished();
  CHECK(most_accepted(view(p), view(q), 0) == 0);
  CHECK(std::abs(most_accepted(view(p), view(q), 1000) - 0.75) < 1e-12);
}

TEST_CASE("numbers that are no probabilities are refused") {
  const Row p = (Row(2) << 0.5, std::numeric_limits<double>::quiet_NaN()).finished();
  const Row q = Row::Constant(2, 0.5);
  CHECK(message_of([&] { most_accepted(view(p), view(q), 2); }) == "the probability of token 1 is nan");
  CHECK(message_of([&] { most_accepted(view(q), view(q), -1); }) == "specdec: n = -1 is negative");
}

}  // namespace test_more_analysis_most_accepted

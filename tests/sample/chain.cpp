// Chains of steps on logits of double, against the definitions of the steps.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/steps/min_p.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <specdec/sample/steps/top_k.hpp>
#include <specdec/sample/steps/top_p.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/sorted.hpp"

namespace test_sample_chain {

using namespace specdec;
using namespace support;

static_assert(RowStep<Chain<TopK, TopP>> && RowStep<Chain<>>);

namespace {

// The parameters of the steps, and the result of a few chains. top_p also records where it has cut.
struct Values {
  Index k;
  double t, p, m;
};

struct Outcome {
  Processed row;
  std::vector<double> cuts_of_top_p;
};

// The steps one by one, as each one's own test runs it.
struct OneByOne {
  std::vector<double>* cuts_of_top_p;
  template <class Row>
  void operator()(Row& row, const TopP& step) const {
    row = step(row);
    cuts_of_top_p->push_back(static_cast<double>(row.cut()));
  }
  template <class Row>
  void operator()(Row& row, const auto& step) const {
    row = step(row);
  }
};

std::vector<Outcome> outcomes_of(const std::vector<double>& logits, const Values& v) {
  std::vector<Outcome> outcomes;
  const auto run = [&](auto... steps) {
    Outcome out;
    LogitsRow<double> row = row_of(logits);
    (OneByOne{&out.cuts_of_top_p}(row, steps), ...);
    out.row = read(Chain{steps...}(row_of(logits)));
    outcomes.push_back(out);
  };
  run(Temperature(v.t), TopK(v.k), TopP(v.p), MinP(v.m));
  run(TopK(v.k), TopP(v.p), MinP(v.m), Temperature(v.t));
  run(MinP(v.m), TopP(v.p), Temperature(v.t), TopP(v.p), TopK(v.k));
  run(TopP(v.p), TopK(v.k), Temperature(0.0), MinP(v.m), TopP(v.p));
  return outcomes;
}

void check(const std::vector<Outcome>& got, const std::vector<double>& logits, const Values& v) {
  CAPTURE(v.k, v.t, v.p, v.m, logits.size());
  Sorted a(logits), b(logits), c(logits), d(logits);
  const auto cut = [&](std::size_t chain, std::size_t i) { return got.at(chain).cuts_of_top_p.at(i); };
  a.temperature(v.t), a.top_k(v.k), a.top_p(v.p, cut(0, 0)), a.min_p(v.m);
  b.top_k(v.k), b.top_p(v.p, cut(1, 0)), b.min_p(v.m), b.temperature(v.t);
  c.min_p(v.m), c.top_p(v.p, cut(2, 0)), c.temperature(v.t), c.top_p(v.p, cut(2, 1)), c.top_k(v.k);
  d.top_p(v.p, cut(3, 0)), d.top_k(v.k), d.temperature(0), d.min_p(v.m);
  a.check(got[0].row, 1e-9);
  b.check(got[1].row, 1e-9);
  c.check(got[2].row, 1e-9);
  d.check(got[3].row, 1e-9);
}

}  // namespace

TEST_CASE("chains apply their steps in the order written") {
  std::mt19937_64 rng{2};
  const auto check_row = [&](std::size_t size) {
    const auto logits = random_logits(size, rng);
    const Values values{static_cast<Index>(rng() % size), 0.3 + 1.5 * uniform01(rng), uniform01(rng),
                        0.2 * uniform01(rng)};
    check(outcomes_of(logits, values), logits, values);
  };
  for (int n = 0; n < bound(400); ++n) check_row(random_size(rng));
  for (int n = 0; n < bound(12); ++n) check_row(n % 4 == 0 ? 128'256 : 20'000);
}

TEST_CASE("neutral values leave a row as it is") {
  const std::vector<double> logits{1, 2, -std::numeric_limits<double>::infinity(), 2, 0};
  const auto row = row_of(logits);
  const auto same = Chain{Temperature(1.0), TopK(0), TopP(1.0), MinP(0.0)}(row);
  CHECK(same.cut() == row.cut());
  CHECK(same.temperature() == 1);
  CHECK(Chain{}(row).probability(1) == row.probability(1));
}

TEST_CASE("a chain hands over the normaliser that its steps have computed") {
  std::mt19937_64 rng{6};
  std::normal_distribution<double> normal;
  std::vector<double> logits(30'000);
  for (double& l : logits) l = normal(rng);
  for (const double t : {1.0, 0.6}) {
    const auto row = Chain{Temperature(t), TopK(50), TopP(0.9)}(row_of(logits));
    double sum = 0;
    for (Token x = 0; x < row.vocab_size(); ++x) sum += row.probability(x);
    CHECK(std::abs(sum - 1) < 1e-9);
  }
}

}  // namespace test_sample_chain

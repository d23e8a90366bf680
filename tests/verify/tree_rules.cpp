// What the rules for trees share and where they differ: kinds of rows, numbers at their limits, rows that are not
// read.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <specdec/more/device/addressed_chance.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/constant_draft.hpp"
#include "support/lists.hpp"
#include "support/message_of.hpp"
#include "support/trees.hpp"

namespace test_verify_tree_rules {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

RowMajor<double> random_rows(Index rows, Index size, std::mt19937_64& rng, double zeros = 0.2) {
  RowMajor<double> m(rows, size);
  for (double& p : m.reshaped()) p = uniform01(rng) < zeros ? 0.0 : uniform01(rng);
  for (Index i = 0; i < rows; ++i) {
    m(i, i % size) += 0.1;
    m.row(i) /= m.row(i).sum();
  }
  return m;
}

// How often each token is Y where four siblings are one token, each drawn from logits whose q rounds to 1.
template <class V, class Source>
std::vector<Index> stops_at_equal_siblings(Source& source, Index repetitions) {
  const RowMajor<float> target = RowMajor<float>::Zero(5, 3);
  RowMajor<float> draft = RowMajor<float>::Constant(4, 3, -2000);
  draft.col(0).setZero();
  const std::vector<Token> tokens(4, 0);
  const std::vector<Index> parents(4, -1);
  std::vector<Index> stops(3);
  for (Index n = 0; n < repetitions; ++n) {
    const TreeVerdict verdict = V{}(Logits(target), Logits(draft), tokens, parents, source);
    if (verdict.path.empty()) ++stops[static_cast<std::size_t>(verdict.token)];
  }
  return stops;
}

// Drawn siblings, one of them chosen, and a line after the second sibling.
struct Input {
  static constexpr Index vocabulary = 6;
  std::vector<Index> parents{-1, -1, -1, 1, 3};
  std::vector<Token> tokens;
  RowMajor<double> target, draft;

  explicit Input(std::mt19937_64& rng, double zeros = 0.2)
      : target(random_rows(6, vocabulary, rng, zeros)), draft(random_rows(5, vocabulary, rng, zeros)) {
    draft.row(1) = Eigen::RowVectorXd::Unit(vocabulary, 2);
    RandomChance chance(rng);
    for (Index k = 0; k < 5; ++k)
      tokens.push_back(chance.draw(DenseRow<double>(draft.row(k).data(), vocabulary)));
  }
};

using Outcomes = std::map<std::vector<Token>, double>;

template <class Rule, class Target, class Draft>
Outcomes outcomes(const Rule& rule, const Target& target, const Draft& draft, const Input& in) {
  Outcomes out;
  enumerate([&](Enumerator& chance) {
    const TreeVerdict verdict = verify(rule, target, draft, in.tokens, in.parents, chance);
    std::vector<Token> key(verdict.path.begin(), verdict.path.end());
    key.push_back(-1);
    key.push_back(verdict.token);
    const double p = chance.probability();
    out[key] += p;
  });
  return out;
}

}  // namespace

namespace {

using support::ConstantDraft;
using support::near;
using support::probability_of;
using support::toy_p;
using support::toy_q;
using support::toy_siblings;

// Worked by hand, and by the compiler: the siblings A and B, of which B was certain once A was drawn. A is kept with
// probability p/q = 1/2; what it leaves is B.
template <class R>
constexpr bool judges_siblings(const R& rule) {
  return near(probability_of(NodeVerdict{1, 0}, rule, toy_siblings), 1. / 6) &&
         near(probability_of(NodeVerdict{1, 1}, rule, toy_siblings), 1. / 3) &&
         near(probability_of(NodeVerdict{2, 0}, rule, toy_siblings), 1. / 6) &&
         near(probability_of(NodeVerdict{2, 1}, rule, toy_siblings), 1. / 3);
}
static_assert(judges_siblings(TraversalVerifier{}));
static_assert(judges_siblings(RecursiveRejectionVerifier{}));
static_assert(judges_siblings(TrunkAndSpares<TokenVerifier>{}));
// Two independent draws, AA: 1 − (1 − β)² = ρ·β with β = (1/ρ + 1)/3 gives ρ = (5 + √13)/6. Each A is kept with probability
// 1/(2ρ); if both are rejected, B.
constexpr double rho = (5 + 3.605551275463989) / 6;
constexpr ConstantDraft<2> two_draws({{toy_p, toy_p, toy_p}}, {{toy_q, toy_q}}, {0, 0}, {-1, -1});
static_assert(near(probability_of(NodeVerdict{0, 1}, KSeqVerifier{}, two_draws),
                   (1 - 0.5 / rho) * (1 - 0.5 / rho)));
static_assert(near(probability_of(NodeVerdict{2, 0}, KSeqVerifier{}, two_draws),
                   (1 - 0.5 / rho) * 0.5 / rho / 3));

}  // namespace

TEST_CASE("all kinds of rows give one law, in every mix") {
  std::mt19937_64 rng{8};
  for (int n = 0; n < bound(20, 100); ++n) {
    const Input in(rng);
    const RowMajor<double> logits = in.target.array().log();
    const Lists target(in.target), draft(in.draft);
    const auto check = [&](const auto& rule) {
      const Outcomes expected = outcomes(rule, in.target, in.draft, in);
      const auto same = [&](const auto& p, const auto& q) {
        CHECK(largest_difference(outcomes(rule, p, q, in), expected).size < 1e-12);
      };
      same(target.view(), in.draft);
      same(Logits(logits), draft.view());
#ifndef SPECDEC_TEST_SOME
      same(in.target, draft.view());
      same(target.view(), draft.view());
      same(Logits(logits), in.draft);
#endif
    };
    check(TraversalVerifier{});
#ifndef SPECDEC_TEST_SOME
    check(RecursiveRejectionVerifier{});
    check(TrunkAndSpares<BlockVerifier>{});
#endif
  }
}

#ifndef SPECDEC_TEST_SOME
namespace {

// A row that returns its segments as columns of a matrix, not as arrays.
struct ColumnRow {
  Eigen::VectorXd numbers;
  Index vocab_size() const { return numbers.size(); }
  double probability(Token x) const { return numbers[x]; }
  double sum(Index start, Index count) const { return numbers.segment(start, count).sum(); }
  auto segment(Index start, Index count) const { return numbers.segment(start, count); }
  PrefixSampler<ColumnRow> sampler() const { return PrefixSampler<ColumnRow>(*this); }
};

}  // namespace

TEST_CASE("a user's kind of row, in columns, gives the law of the library's rows") {
  std::mt19937_64 rng{4};
  const Input in(rng);
  std::vector<ColumnRow> target, draft;
  for (Index i = 0; i < in.target.rows(); ++i) target.push_back({in.target.row(i).transpose()});
  for (Index i = 0; i < in.draft.rows(); ++i) draft.push_back({in.draft.row(i).transpose()});
  const auto columns =
      outcomes(TraversalVerifier{}, RowSpan<ColumnRow>(target, 6), RowSpan<ColumnRow>(draft, 6), in);
  CHECK(largest_difference(columns, outcomes(TraversalVerifier{}, in.target, in.draft, in)).size < 1e-12);
}
#endif

TEST_CASE(
    "a draft of a smaller vocabulary has the law of a draft that gives the missing tokens probability 0") {
  std::mt19937_64 rng{15};
  for (int n = 0; n < 20; ++n) {
    Input in(rng);
    RowMajor<double> narrow = random_rows(5, 4, rng), padded = RowMajor<double>::Zero(5, 6);
    narrow.row(1) = Eigen::RowVectorXd::Unit(4, 2);
    padded.leftCols(4) = narrow;
    RandomChance chance(rng);
    for (Index k = 0; k < 5; ++k)
      in.tokens[static_cast<std::size_t>(k)] = chance.draw(DenseRow<double>(narrow.row(k).data(), 4));
    const auto check = [&](const auto& rule) {
      CHECK(largest_difference(outcomes(rule, in.target, narrow, in), outcomes(rule, in.target, padded, in))
                .size < 1e-12);
    };
    check(TraversalVerifier{});
    check(RecursiveRejectionVerifier{});
    check(TrunkAndSpares<BlockVerifier>{});
  }
}

namespace {

// Token verification as a user would write it, with p, q and the rows.
struct TokenByHand {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(std::min(1.0, drafted.p(i) / drafted.q(i))))
        return {i, *chance.race(1.0, drafted.target(i), drafted.draft(i))};
    return {drafted.gamma(), chance.draw(drafted.target(drafted.gamma()))};
  }
};

}  // namespace

TEST_CASE("a user's linear rule on a trunk gets the trunk's own rows and probabilities") {
  std::mt19937_64 rng{16};
  for (int n = 0; n < 20; ++n) {
    const Input in(rng);
    const auto by_hand = outcomes(TrunkAndSpares<TokenByHand>{}, in.target, in.draft, in);
    const auto expected = outcomes(TrunkAndSpares<TokenVerifier>{}, in.target, in.draft, in);
    CHECK(largest_difference(by_hand, expected).size < 1e-12);
  }
}

namespace {

// A user's rule for trees, written over the trunks of a tree. It runs token verification on the trunk after the
// context. If the resulting token is a spare there, it goes on with the trunk after that spare.
struct SparesByHand {
  NodeVerdict judge(const auto& drafted, auto& chance) const {
    for (Index node = 0;;) {
      const specdec::DraftedTrunk trunk(drafted, node);
      const Verdict verdict = TokenByHand{}.judge(trunk, chance);
      node = trunk.row(verdict.accepted);
      Index spare = drafted.first_child(node);
      while (spare >= 0 && (spare = drafted.next_sibling(spare)) >= 0)
        if (drafted.token(spare) == verdict.token) break;
      if (spare < 0) return {node, verdict.token};
      node = spare + 1;
    }
  }
};
static_assert(judges_trees<SparesByHand> && !judges_trees<TokenByHand>);

}  // namespace

TEST_CASE("a user's rule may judge the trunks of a tree one after another") {
  std::mt19937_64 rng{17};
  for (int n = 0; n < 20; ++n) {
    const Input in(rng);
    const auto by_hand = outcomes(SparesByHand{}, in.target, in.draft, in);
    const auto expected = outcomes(TrunkAndSpares<TokenVerifier>{}, in.target, in.draft, in);
    CHECK(largest_difference(by_hand, expected).size < 1e-12);
  }
}

namespace {

// A row that counts how often a full pass over its segments is made.
struct CountedRow {
  Eigen::VectorXd numbers;
  Index* passes;
  Index vocab_size() const { return numbers.size(); }
  double probability(Token x) const { return numbers[x]; }
  double sum(Index start, Index count) const { return segment(start, count).sum(); }
  Eigen::VectorXd segment(Index start, Index count) const {
    ++*passes;
    return numbers.segment(start, count);
  }
  auto sampler() const {
    return [this](double u) {
      Token x = 0;
      while (x + 1 < numbers.size() && u >= numbers[x]) u -= numbers[x++];
      return x;
    };
  }
};

}  // namespace

#ifndef SPECDEC_TEST_SOME
TEST_CASE(
    "traversal passes over a row once for each rejected sibling that was drawn and has a younger sibling") {
  Index passes = 0;
  std::vector<CountedRow> target(4, {Eigen::VectorXd::Constant(6, 1.0 / 6), &passes});
  target[0].numbers << 0, 0, 0, 0.2, 0.3, 0.5;
  const std::vector<Token> tokens{0, 1, 2};
  const std::vector<Index> parents{-1, -1, -1};
  const RowMajor<double> drawn = RowMajor<double>::Constant(3, 6, 1.0 / 6);
  std::mt19937_64 rng{17};
  for (int n = 0; n < 20; ++n) {
    passes = 0;
    CHECK(TraversalVerifier{}(RowSpan(target, 6), drawn, tokens, parents, rng).path.empty());
    CHECK(passes == 2);
    passes = 0;
    CHECK(TraversalVerifier{}(RowSpan(target, 6), OneHotRows(tokens), tokens, parents, rng).path.empty());
    CHECK(passes == 0);
  }
  // Some siblings are accepted, and the rest of the row is drawn from.
  target[0].numbers << 0.2, 0.2, 0.2, 0.1, 0.1, 0.2;
  passes = 0;
  for (int n = 0; n < 100; ++n)
    TraversalVerifier{}(RowSpan(target, 6), OneHotRows(tokens), tokens, parents, rng);
  CHECK(passes == 0);
}
#endif

TEST_CASE("K-SEQ passes over a row some fifty times where the tree branches, and never elsewhere") {
  Index passes = 0;
  std::vector<CountedRow> target(4, {Eigen::VectorXd::Constant(6, 1.0 / 6), &passes});
  target[0].numbers << 0.4, 0.4, 0.2, 0, 0, 0;
  const std::vector<Token> tokens{0, 1, 2};
  RowMajor<double> draft = RowMajor<double>::Constant(3, 6, 1.0 / 6);
  std::mt19937_64 rng{18};
  const auto passes_of = [&](const std::vector<Index>& parents) {
    passes = 0;
    while (KSeqVerifier{}(RowSpan(target, 6), draft, tokens, parents, rng).path.empty()) passes = 0;
    return passes;
  };
  CHECK(passes_of({-1, 0, 1}) == 0);
  const Index branching = passes_of({-1, -1, -1});
  CHECK(branching > 40);
  CHECK(branching < 60);
}

TEST_CASE("for chosen tokens, one-hot rows give what dense rows with a one give") {
  std::mt19937_64 rng{4};
  for (int n = 0; n < 50; ++n) {
    Input in(rng);
    in.tokens = {3, 1, 5, 0, 2};
    for (Index k = 0; k < 5; ++k)
      in.draft.row(k) = Eigen::RowVectorXd::Unit(6, in.tokens[static_cast<std::size_t>(k)]);
    const auto expected = outcomes(TraversalVerifier{}, in.target, in.draft, in);
    const auto one_hot = outcomes(TraversalVerifier{}, in.target, OneHotRows(in.tokens), in);
    CHECK(largest_difference(one_hot, expected).size < 1e-12);
    const auto match = outcomes(TrunkAndSpares<SampleMatchVerifier>{}, in.target, OneHotRows(in.tokens), in);
    CHECK(largest_difference(match, expected).size < 1e-12);
  }
}

TEST_CASE("verdicts drawn with a generator have the enumerated law, however often siblings are rejected") {
  std::mt19937_64 rng{21};
  for (int n = 0; n < bound(6, 20); ++n) {
    const Input in(rng, n % 2 == 0 ? 0.2 : 0.6);
    const auto check = [&](const auto& rule) {
      const Outcomes expected = outcomes(rule, in.target, in.draft, in);
      const auto sample = [&] {
        const TreeVerdict verdict = verify(rule, in.target, in.draft, in.tokens, in.parents, rng);
        std::vector<Token> key(verdict.path.begin(), verdict.path.end());
        key.push_back(-1);
        key.push_back(verdict.token);
        return key;
      };
      const SampledReport report = check_sampled(sample, expected, 20000);
      INFO(report);
      CHECK(report);
    };
    check(TraversalVerifier{});
    check(RecursiveRejectionVerifier{});
  }
}

namespace {

// The residual of the first target row after the first two tokens, with weights w, were rejected.
template <class F>
void with_residual(const Input& in, double w, const F& f) {
  const Drafted drafted(in.target, in.draft, in.tokens, in.parents);
  const Eigen::ArrayXd first = (w * in.target.row(0) - in.draft.row(0)).array().max(0).transpose();
  if (!(first.sum() > 0)) return;
  const auto taken = [w](const auto& take) {
    take(1 / w, 0);
    take(specdec::detail::all_of_it, 1);
  };
  Eigen::ArrayXd expected = first / w;
  expected[in.tokens[1]] = 0;
  if (!(expected.sum() > 1e-3)) return;
  CHECK(residual(drafted, 0, taken).mass() == Approx(expected.sum()));
  f(residual(drafted, 0, taken, expected.sum()), Eigen::ArrayXd(expected / expected.sum()));
}

}  // namespace

TEST_CASE("the residual of rejected siblings is a row: its look-ups, sums and draws agree") {
  std::mt19937_64 rng{5};
  int seen = 0;
  for (int n = 0; n < 200; ++n) {
    const Input in(rng);
    with_residual(in, n % 2 == 0 ? 1.0 : 0.7, [&](const auto& row, const Eigen::ArrayXd& expected) {
      ++seen;
      for (Token x = 0; x < 6; ++x) CHECK(row.probability(x) == Approx(expected[x]).margin(1e-15));
      CHECK(row.sum(0, 6) == Approx(1));
      CHECK(row.sum(2, 3) == Approx(expected.segment(2, 3).sum()).margin(1e-15));
      auto sampler = row.sampler();
      double before = 0;
      for (Token x = 0; x < 6; ++x) {
        if (expected[x] > 1e-9) CHECK(sampler(before + expected[x] / 2) == x);
        before += expected[x];
      }
      if (n > 8) return;
      Law law;
      for (Token x = 0; x < 6; ++x) law[{x}] = expected[x];
      CHECK(check_sampled([&] { return std::vector<Token>{sampler.draw([&] { return uniform01(rng); })}; },
                          law, 5000));
    });
  }
  CHECK(seen > 100);
}

TEST_CASE(
    "where rejected siblings leave no residual because of rounding, the token is drawn from the target") {
  // A row that sums to less than 1. No token has more mass in it than under the draft.
  RowMajor<double> target = RowMajor<double>::Zero(4, 3), draft(3, 3);
  target.row(0) << 0.45, 0.45, 0;
  target.bottomRows(3).col(2).setOnes();
  draft << 0.5, 0.5, 0, 0.5, 0.5, 0, 0.5, 0.5, 0;
  const std::vector<Token> tokens{0, 1, 0};
  const std::vector<Index> parents{-1, -1, -1};
  std::mt19937_64 rng{2};
  const auto check = [&](const auto& rule) {
    int drawn = 0;  // happens one time in ten
    for (int n = 0; n < 500; ++n) {
      const TreeVerdict verdict = rule(target, draft, tokens, parents, rng);
      CHECK((verdict.path.empty() ? verdict.token <= 1 : verdict.token == 2));
      drawn += verdict.path.empty() ? 1 : 0;
    }
    CHECK(drawn > 20);
  };
  check(TraversalVerifier{});
  check(RecursiveRejectionVerifier{});
}

TEST_CASE(
    "where every token of a row was chosen and rejected, the token is drawn from the target, whatever the "
    "row sums to") {
  RowMajor<double> target = RowMajor<double>::Zero(3, 3), draft = RowMajor<double>::Identity(2, 3);
  target(0, 0) = 0.75;  // the row has only the chosen token, with mass 0.75, so a quarter seems to be left
  target.bottomRows(2).col(2).setOnes();
  const std::vector<Token> tokens{0, 1};
  const std::vector<Index> parents{-1, -1};
  std::mt19937_64 rng{2};
  int drawn = 0;
  for (int n = 0; n < 200; ++n) {
    const TreeVerdict verdict = TraversalVerifier{}(target, draft, tokens, parents, rng);
    CHECK(verdict.token == (verdict.path.empty() ? 0 : 2));
    drawn += verdict.path.empty() ? 1 : 0;
  }
  CHECK(drawn > 10);
}

TEST_CASE("rounding is not mass: where every token of a row was chosen, the law is still the row") {
  std::mt19937_64 rng{4};
  RowMajor<double> target = RowMajor<double>::Zero(4, 3), draft = RowMajor<double>::Identity(3, 3);
  target.bottomRows(3).col(2).setOnes();
  const std::vector<Token> tokens{0, 1, 2};
  const std::vector<Index> parents{-1, -1, -1};
  const auto check = [&](const auto& rule) {
    for (int n = 0; n < 200; ++n) {
      const double p = uniform01(rng), sum = p + uniform01(rng);
      target.row(0) << p / sum, (sum - p) / sum, 0;  // 1 − p(0) − p(1) would be 0 without rounding
      Eigen::RowVector3d law = Eigen::RowVector3d::Zero();
      enumerate([&](Enumerator& chance) {
        const TreeVerdict verdict = verify(rule, target, draft, tokens, parents, chance);
        const Token first =
            verdict.path.empty() ? verdict.token : tokens[static_cast<std::size_t>(verdict.path[0])];
        const double probability = chance.probability();
        law[first] += probability;
      });
      CHECK((law - target.row(0)).cwiseAbs().maxCoeff() < 1e-12);
    }
  };
  check(TraversalVerifier{});
  check(RecursiveRejectionVerifier{});
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("rounding is not mass: over float logits of nearly equal rows, each rule's law is the row") {
  std::mt19937_64 rng{5};
  std::normal_distribution<float> normal;
  const std::vector<Index> parents{-1, -1, -1};
  const Chain plain{Temperature{1.0}};
  for (int n = 0; n < 60; ++n) {
    RowMajor<float> p(4, 2), q(3, 2);
    const float a = 2 * normal(rng), b = 2 * normal(rng);
    const float apart = (n % 2 == 0 ? 1e-6f : 1e-3f) * normal(rng);
    p.rowwise() = Eigen::RowVector2f(a, b);
    q.rowwise() = Eigen::RowVector2f(a + apart, b);
    const ProcessedRows target(p, plain), draft(q, plain);
    const auto difference = [&](const auto& rule) {
      Eigen::RowVector2d law = Eigen::RowVector2d::Zero();
      enumerate([&](Enumerator& chance) {
        std::vector<Token> tokens;
        for (Index k = 0; k < 3; ++k) tokens.push_back(chance.draw(draft.row(k)));
        const TreeVerdict verdict = verify(rule, target, draft, tokens, parents, chance);
        const double probability = chance.probability();
        law[verdict.path.empty() ? verdict.token : tokens[static_cast<std::size_t>(verdict.path[0])]] +=
            probability;
      });
      return std::max(std::abs(law[0] - target.row(0).probability(0)),
                      std::abs(law[1] - target.row(0).probability(1)));
    };
    CHECK(difference(KSeqVerifier{}) < 1e-6);
    CHECK(difference(RecursiveRejectionVerifier{}) < 1e-6);
    CHECK(difference(TraversalVerifier{}) < 1e-6);
  }
}
#endif

TEST_CASE("in a tree, rows after a token that the target rules out are not read") {
  std::mt19937_64 rng{3};
  for (int n = 0; n < 100; ++n) {
    Input in(rng);
    in.target(0, in.tokens[1]) = 0;
    in.target.row(0) /= in.target.row(0).sum();
    for (const Index behind : {2, 4, 5})
      in.target.row(behind).setConstant(std::numeric_limits<double>::quiet_NaN());
    CHECK_NOTHROW(TraversalVerifier{}(in.target, in.draft, in.tokens, in.parents, rng));
    CHECK_NOTHROW(RecursiveRejectionVerifier{}(in.target, in.draft, in.tokens, in.parents, rng));
  }
}

TEST_CASE("a NaN that a decision depends on is an error that names its row") {
  std::mt19937_64 rng{3};
  Input in(rng);
  in.target.row(0).setConstant(std::numeric_limits<double>::quiet_NaN());
  const auto said = [&](const auto& rule) {
    return message_of<InvalidDistribution>([&] { rule(in.target, in.draft, in.tokens, in.parents, rng); });
  };
  CHECK(said(TraversalVerifier{}).find("target row 0") != std::string::npos);
  CHECK(said(RecursiveRejectionVerifier{}).find("target row 0") != std::string::npos);
  CHECK(said(TrunkAndSpares<BlockVerifier>{}).find("target row 0") != std::string::npos);
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("an id in a target's list that is in no vocabulary is reported as an error of that row") {
  const std::vector<double> p{0.9, 0.1};
  const Eigen::MatrixXd draft = Eigen::MatrixXd::Constant(2, 3, 1.0 / 3);
  const std::vector<Token> tokens{0, 1};
  const std::vector<Index> parents{-1, -1};
  const auto said = [&](const auto& rule, const std::vector<Token>& ids) {
    const std::vector<SparseRow<double>> rows(3, {ids, p, 3});
    std::mt19937_64 rng{1};
    return message_of<InvalidDistribution>([&] { rule(RowSpan(rows, 3), draft, tokens, parents, rng); });
  };
  const std::string
      outside = "specdec: target row 0: id -2 is outside the vocabulary 0..2",
      disordered =
          "specdec: target row 0: the ids of a sparse row do not ascend: ids[1] = 2, after ids[0] = 2";
  CHECK(said(TraversalVerifier{}, {-2, 1}) == outside);
  CHECK(said(RecursiveRejectionVerifier{}, {-2, 1}) == outside);
  CHECK(said(TrunkAndSpares<BlockVerifier>{}, {-2, 1}) == outside);
  CHECK(said(TraversalVerifier{}, {2, 2}) == disordered);
  CHECK(said(RecursiveRejectionVerifier{}, {2, 2}) == disordered);
}
#endif

TEST_CASE("K-SEQ refuses siblings that were not drawn from one row") {
  std::mt19937_64 rng{3};
  const Input in(rng);
  const std::string said =
      message_of([&] { KSeqVerifier{}(in.target, in.draft, in.tokens, in.parents, rng); });
  CHECK(said.find("tokens[1] = 2 has q = 1, but q = ") != std::string::npos);
  CHECK(said.find("in the row of its sibling tokens[0]") != std::string::npos);
}

TEST_CASE("a rule for trees that needs no q is called without the draft's rows, and judges the same") {
  RowMajor<double> target(4, 3);
  target << 0.1, 0.2, 0.7, 0.6, 0.3, 0.1, 0.1, 0.8, 0.1, 0.2, 0.2, 0.6;
  const std::vector<Token> tokens{2, 1, 2};  // as parents these would be wrong
  const std::vector<Index> parents{-1, 0, -1};
  std::mt19937_64 rng{1}, other{1};
  const TrunkAndSpares<SampleMatchVerifier> rule;
  for (int n = 0; n < 50; ++n)
    CHECK(rule(target, tokens, parents, rng) == rule(target, OneHotRows(tokens), tokens, parents, other));
  CHECK(rng == other);
}

TEST_CASE("without a draft the token is drawn from the target, and a vocabulary of one token works") {
  std::mt19937_64 rng{3};
  const RowMajor<double> target = RowMajor<double>::Constant(1, 1, 1.0), none(0, 1);
  const std::vector<Token> tokens;
  const std::vector<Index> parents;
  CHECK(TraversalVerifier{}(target, none, tokens, parents, rng) == TreeVerdict{{}, 0});
  CHECK(RecursiveRejectionVerifier{}(target, none, tokens, parents, rng) == TreeVerdict{{}, 0});
  CHECK(KSeqVerifier{}(target, none, tokens, parents, rng) == TreeVerdict{{}, 0});
  CHECK(TrunkAndSpares<BlockVerifier>{}(target, none, tokens, parents, rng) == TreeVerdict{{}, 0});
  CHECK(TrunkAndSpares<SampleMatchVerifier>{}(target, tokens, parents, rng) == TreeVerdict{{}, 0});
}

TEST_CASE("siblings that are one token, each with q = 1 up to rounding, are judged by the law") {
  std::mt19937_64 rng{9};
  AddressedChance chance{9};
  const auto check = [](const std::vector<Index>& stops) {
    CHECK(stops[0] == 0);  // accepted with probability 1/3, and ruled out else
    CHECK(std::abs(static_cast<double>(stops[1]) - 1000) < 130);
    CHECK(std::abs(static_cast<double>(stops[2]) - 1000) < 130);
  };
  check(stops_at_equal_siblings<TraversalVerifier>(rng, 3000));
  check(stops_at_equal_siblings<RecursiveRejectionVerifier>(rng, 3000));
  check(stops_at_equal_siblings<TraversalVerifier>(chance, 3000));
  check(stops_at_equal_siblings<RecursiveRejectionVerifier>(chance, 3000));
}

}  // namespace test_verify_tree_rules

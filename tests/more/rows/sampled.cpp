// Rows with a token that the engine has already drawn: what they answer, and that the verdict keeps its law.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/rows/sampled.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"

namespace test_more_rows_sampled {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// RandomChance or the enumerator, chosen at run time, so that a rule is compiled once for both. Under enumeration the
// first draw from a row uses the row's own sampler, as RandomChance does, so a token handed in is used. A race is one
// round of run_race followed by the enumerator's race, as the race is memoryless.
class FirstDrawByRow {
 public:
  explicit FirstDrawByRow(Enumerator& chance) : chance_(&chance) {}
  explicit FirstDrawByRow(std::mt19937_64& generator) : random_(generator) {}

  bool coin(double h) { return chance_ ? chance_->coin(h) : random_->coin(h); }

  template <Distribution R>
  Token draw(const R& row, Index /*place*/ = 0) {
    if (!chance_) return random_->draw(row);
    // A sampler with a settled first draw gives one answer for all u.
    auto sampler = row.sampler(), same = sampler;
    const Token x = same(0.0);
    return sampler(1 - 0x1p-53) == x ? x : chance_->draw(row);
  }

  template <Distribution P, Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    if (!chance_) return random_->race(w, p, q);
    if (!coin(w)) return std::nullopt;
    const Token y = draw(p);
    if (coin(residual(w, p, 1.0, q, y) / (w * p.probability(y)))) return y;
    return chance_->race(w, p, q);
  }

  template <Distribution P>
  std::optional<Token> race(double w, const P& p) {
    if (!coin(w)) return std::nullopt;
    return draw(p);
  }

 private:
  Enumerator* chance_ = nullptr;
  std::optional<RandomChance<std::mt19937_64>> random_;
};
static_assert(Chance<FirstDrawByRow>);

std::vector<Token> drawn_from(const auto& target, auto& chance) {
  const auto rows = distributions(target);
  std::vector<Token> drawn;
  for (Index i = 0; i < rows.rows(); ++i) drawn.push_back(chance.draw(rows.row(i)));
  return drawn;
}

// Draws a token of every target row before the verifier sees the rows, and hands these tokens in.
constexpr auto judge_sampled = [](AnyVerifier& verifier, const auto& target, const auto& draft,
                                  std::span<const Token> tokens, auto& chance) {
  const std::vector<Token> drawn = drawn_from(target, chance);
  FirstDrawByRow by_row(chance);
  return verifier(SampledRows(target, drawn), draft, tokens, by_row);
};

// The same test for a few rules that together ask a row for everything: races of any weight, masses, draws.
constexpr auto judge_by_few_rules = [](AnyVerifier& verifier, const auto& target, const auto& draft,
                                       std::span<const Token> tokens, Enumerator& chance) {
  const std::vector<Token> drawn = drawn_from(target, chance);
  FirstDrawByRow by_row(chance);
  const auto judge = [&](auto& rule) { return rule(SampledRows(target, drawn), draft, tokens, by_row); };
  if (auto* rule = std::get_if<GreedyBlockVerifier>(&verifier.rule)) return judge(*rule);
  return judge(std::get<SampleMatchVerifier>(verifier.rule));
};

template <class TargetLayout, class DraftLayout>
void check_law(std::span<const AnyVerifier> rules, const auto& judge, double tolerance) {
  const std::vector<Token> prompt{1, 0};
  for (const AnyVerifier& rule : rules) {
    std::mt19937_64 rng{71};
    double accepted = 0;
    int models = 0;
    for (int pair = 0; pair < 9; ++pair)
      for (const Index gamma : {1, 2, 3}) {
        if (models++ % every(8) != 0) continue;
        const Index target_size = gamma == 3 ? 2 : 3, draft_size = 2 + pair % 3;
        const auto target = coarse_model<typename TargetLayout::Scalar>(target_size, 2, rng);
        const auto draft = coarse_model<typename DraftLayout::Scalar>(draft_size, 2, rng);
        const Options options{.max_new_tokens = 4, .gamma = gamma};
        const GenerationLaw got =
            law_by_hand<TargetLayout, DraftLayout>(target, draft, rule, prompt, options, judge);
        const Law expected = target_law(LayoutModel<TargetLayout>(target), prompt, options);
        const Difference difference = largest_difference(got.law, expected);
        INFO(rule.name() << ", V = " << target_size << " and " << draft_size << ", gamma = " << gamma
                         << ", output " << to_string(difference.tokens));
        CHECK(difference.size < tolerance);
        accepted += got.accepted;
      }
    CHECK(accepted > 1);
  }
}

// The joint law of verdict and draft, of one call.
std::map<std::vector<Token>, double> verdicts(const RowMajor<double>& target, const RowMajor<double>& draft,
                                              const AnyVerifier& rule, const auto& judge) {
  std::map<std::vector<Token>, double> law;
  enumerate([&](Enumerator& chance) {
    std::vector<Token> outcome;
    for (Index i = 0; i < draft.rows(); ++i) outcome.push_back(chance.draw(distributions(draft).row(i)));
    AnyVerifier verifier = rule;
    const Verdict v = judge(verifier, target, draft, std::span<const Token>(outcome), chance);
    outcome.push_back(static_cast<Token>(v.accepted));
    outcome.push_back(v.token);
    law[outcome] += chance.probability();
  });
  return law;
}

}  // namespace

TEST_CASE("verification with target tokens handed in is lossless", "[law]") {
  check_law<AsRowMajor<double>, AsRowMajor<double>>(sampling_rules, judge_sampled, 1e-12);
  const AnyVerifier few_rules[] = {{GreedyBlockVerifier{}}, {SampleMatchVerifier{}}};
  check_law<AsLogits<double, 70>, AsSparse<double>>(few_rules, judge_by_few_rules, 1e-12);
}

TEST_CASE("a token handed in does not change the law of a verdict", "[law]") {
  for (const AnyVerifier& rule : sampling_rules) {
    INFO(rule.name());
    std::mt19937_64 rng{73};
    for (int n = 0; n < 30; ++n) {
      const auto target = coarse_model(3, 1, rng), draft = coarse_model(3, 1, rng);
      RowMajor<double> p(3, 3), q(2, 3);
      const std::vector<Token> contexts[] = {{0}, {1}, {2}};
      for (Index i = 0; i < 3; ++i)
        for (Token x = 0; x < 3; ++x) {
          p(i, x) = target.distribution(contexts[i]).probability(x);
          if (i < 2) q(i, x) = draft.distribution(contexts[i]).probability(x);
        }
      const auto expected = verdicts(p, q, rule, judge_plainly);
      const auto got = verdicts(p, q, rule, judge_sampled);
      CHECK(largest_difference(got, expected).size < 1e-13);
    }
  }
}

TEST_CASE("the first draw from a sampled row is the token handed in, and later draws are the row's own") {
  const Eigen::MatrixXd p = Eigen::RowVector4d(0.25, 0.25, 0.25, 0.25).replicate(2, 1);
  const std::vector<Token> tokens{2, 0};
  const SampledRows rows(p, tokens);
  CHECK(rows.rows() == 2);
  CHECK(rows.vocab_size() == 4);
  const auto row = rows.row(0);
  CHECK(row.probability(3) == 0.25);
  CHECK(row.sum(0, 2) == 0.5);
  auto sampler = row.sampler();
  CHECK(sampler(0.9) == 2);
  CHECK(sampler(0.9) == 3);
  CHECK(sampler(0.0) == 0);
  auto later = row.sampler();
  CHECK(later(0.9) == 3);
  CHECK(later(0.0) == 0);
  CHECK(rows.row(1).sampler()(0.9) == 0);
}

namespace {

// A user's rule that races in a row and also draws from it, however the race ended.
struct RacesAndDraws {
  Verdict judge(const auto& drafted, auto& chance) const {
    const std::optional<Token> won = drafted.race(chance, 0.75, 0);
    const Token drawn = drafted.draw(chance, 0), again = drafted.draw(chance, 0);
    return {won == drawn ? 0 : drawn == again ? 1 : 2, again};
  }
};

}  // namespace

TEST_CASE("of two tokens handed in for one row each is given once") {
  const RowMajor<double> p = (RowMajor<double>(1, 3) << 0.5, 0.25, 0.25).finished();
  const std::vector<Token> one{2}, other{1};
  const SampledRows inner(p, other);
  const auto row = SampledRows(inner, one).row(0);
  auto first = row.sampler(), second = row.sampler();
  CHECK(std::vector<Token>{first(0.1), first(0.1), first(0.1)} == std::vector<Token>{2, 1, 0});
  CHECK(second(0.1) == 0);
}

TEST_CASE("a rule that races in a row and draws from it gets independent tokens") {
  const RowMajor<double> p =
      (RowMajor<double>(3, 3) << 0.5, 0.25, 0.25, 0.125, 0.5, 0.375, 0.25, 0.5, 0.25).finished();
  const RowMajor<double> q = (RowMajor<double>(2, 3) << 0.25, 0.25, 0.5, 0.5, 0.25, 0.25).finished();
  const std::vector<Token> drafted{1, 0};
  const auto law = [&](bool handed_in) {
    std::map<std::vector<Token>, double> found;
    enumerate([&](Enumerator& chance) {
      const std::vector<Token> drawn = drawn_from(p, chance);
      FirstDrawByRow by_row(chance);
      const Verdict v = handed_in ? verify(RacesAndDraws{}, SampledRows(p, drawn), q, drafted, by_row)
                                  : verify(RacesAndDraws{}, p, q, drafted, by_row);
      found[{static_cast<Token>(v.accepted), v.token}] += chance.probability();
    });
    return found;
  };
  CHECK(largest_difference(law(true), law(false)).size < 1e-13);
}

TEST_CASE("a verdict with tokens handed in reads no row for a draw") {
  // Rows that cannot be drawn from.
  struct Row {
    Index vocab_size() const { return 2; }
    double probability(Token) const { return 0.5; }
    auto sampler() const {
      throw std::logic_error("drawn from");
      return [](double) { return Token{0}; };
    }
  };
  const std::vector<Row> rows(3);
  const std::vector<Token> drawn{1, 1, 1}, drafted{0, 1};
  const RowSpan matrix(rows, 2);
  const SampledRows target(matrix, drawn);
  const RowSpan<Row> draft(std::span<const Row>(rows).first(2), 2);
  std::mt19937_64 rng{1};
  CHECK(BlockVerifier{}(target, draft, drafted, rng) == Verdict{2, 1});
  CHECK(SampleMatchVerifier{}(target, draft, drafted, rng) == Verdict{0, 1});
  CHECK_THROWS_AS(matrix.row(0).sampler(), std::logic_error);
}

TEST_CASE("a token that its row cannot have given is an error") {
  RowMajor<double> p = Eigen::RowVector4d(0.5, 0.5, 0, 0).replicate(3, 1);
  const RowMajor<double> q = p.topRows(2);
  const std::vector<Token> drafted{0, 1};
  const auto complaint = [&](Token bonus) {
    const std::vector<Token> drawn{0, 0, bonus};
    std::mt19937_64 rng{1};
    AnyVerifier verifier{TokenVerifier{}};
    FirstDrawByRow chance(rng);
    return message_of<InvalidDistribution>([&] { verifier(SampledRows(p, drawn), q, drafted, chance); });
  };
  // The error of a row alone. A verifier adds the row's number.
  const auto row_complaint = [](const auto& rows, Token x) {
    const std::vector<Token> drawn{x};
    return message_of<InvalidDistribution>([&] { SampledRows(rows, drawn).row(0).sampler()(0.5); });
  };
  const auto told = [](Token x) {
    return "token " + std::to_string(x) + " is said to be drawn from it, but has no positive probability";
  };
  CHECK(complaint(1).empty());
  for (const Token x : {2, 4, -1, 1000000}) CHECK(complaint(x) == "specdec: target row 2: " + told(x));
  const Eigen::MatrixXd logits = p.topRows(1).array().log().matrix();
  CHECK(row_complaint(Logits{logits}, 1).empty());
  for (const Token x : {2, 4, -1, 1000000}) CHECK(row_complaint(Logits{logits}, x) == told(x));
  const std::vector<Token> ids{0, 1, 2};
  const std::vector<double> weights{0.5, 0.5, 0};
  const std::vector<SparseRow<double>> list(1, SparseRow<double>(ids, weights, 4));
  const RowSpan sparse(list, 4);
  CHECK(row_complaint(sparse, 1).empty());
  for (const Token x : {2, 3, 4, -1}) CHECK(row_complaint(sparse, x) == told(x));
  const std::vector<Token> disordered{2, 0, 1};
  const std::vector<SparseRow<double>> hiding(1, SparseRow<double>(disordered, weights, 4));
  CHECK(row_complaint(RowSpan(hiding, 4), 2) ==
        "the ids of a sparse row do not ascend: ids[1] = 0, after ids[0] = 2");
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -0.5}) {
    p(2, 3) = bad;
    CHECK(complaint(3) == "specdec: target row 2: " + told(3));
  }
}

TEST_CASE("every row needs a token") {
  const Eigen::MatrixXd p = Eigen::MatrixXd::Constant(3, 2, 0.5);
  const std::vector<Token> two{0, 1};
  CHECK(message_of([&] { SampledRows(p, two); }) == "specdec: there are 2 tokens drawn from 3 rows");
}

TEST_CASE("tokens handed in keep the law of one verdict in the loop of RandomChance, too") {
  // V = 3, γ = 2. The joint law of draft and verdict, 27 outcomes and more, 5 standard errors each.
  std::mt19937_64 rng{79};
  const RowMajor<double> p =
      (RowMajor<double>(3, 3) << 0.5, 0.25, 0.25, 0.125, 0.5, 0.375, 0.25, 0.5, 0.25).finished();
  const RowMajor<double> q = (RowMajor<double>(2, 3) << 0.25, 0.25, 0.5, 0.5, 0.25, 0.25).finished();
  for (const AnyVerifier& rule : sampling_rules) {
    const auto expected = verdicts(p, q, rule, judge_plainly);
    RandomChance chance{rng};
    const auto report = check_sampled(
        [&] {
          std::vector<Token> outcome{chance.draw(distributions(q).row(0)),
                                     chance.draw(distributions(q).row(1))};
          const std::vector<Token> drawn = drawn_from(p, chance);
          AnyVerifier verifier = rule;
          FirstDrawByRow by_row(rng);
          const Verdict v = verifier(SampledRows(p, drawn), q, outcome, by_row);
          outcome.push_back(static_cast<Token>(v.accepted));
          outcome.push_back(v.token);
          return outcome;
        },
        expected, bound(40000));
    INFO(rule.name() << ": " << report);
    CHECK(report.accepted);
    CHECK(report.degrees > 10);
  }
}

}  // namespace test_more_rows_sampled

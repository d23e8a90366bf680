#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

static_assert(SurvivalRule<TokenVerifier> && SurvivalRule<BlockVerifier> &&
              SurvivalRule<GreedyBlockVerifier>);
static_assert(SurvivalRule<SampleMatchVerifier> && SurvivalRule<LenientVerifier>);
static_assert(!SurvivalRule<ArgmaxVerifier>);  // what it accepts takes a whole row to tell

const std::vector<Token> prompt{0, 1};

template <class F>
void for_each_rule(F&& f) {
  f(TokenVerifier{});
  f(BlockVerifier{});
  f(GreedyBlockVerifier{});
  f(SampleMatchVerifier{});
  f(LenientVerifier{0.4});
}

void check_equal(const Survival& survival, const std::vector<double>& expected) {
  REQUIRE(survival.at_least.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(survival.at_least[i] == Approx(expected[i]).epsilon(0).margin(1e-13));
}

struct Pair {
  TableModel<> target, draft;
};

template <class F>
void for_random_pairs(F&& f) {
  std::mt19937_64 rng{71};
  for (const Index vocab_size : {2, 3})
    for (const Index gamma : {0, 1, 2, 3})
      for (int n = 0; n < 6; ++n) {
        auto target = TableModel<>::random(vocab_size, 2, rng);
        f(Pair{std::move(target), TableModel<>::random(vocab_size, 2, rng)}, gamma);
      }
}

auto rows_of(const TableModel<>& model) {
  return [&model](std::span<const Token> context) { return model.distribution(context); };
}

// Σ over x_1..x_i of min(p, q) of the joint prefixes, for i = 0..γ: from the definition.
void add_joint_minima(const Pair& pair, std::vector<Token>& context, double p, double q, Index left,
                      std::vector<double>& sums) {
  sums[sums.size() - 1 - static_cast<std::size_t>(left)] += std::min(p, q);
  if (left == 0) return;
  for (Token x = 0; x < pair.target.vocab_size(); ++x) {
    const double p_x = pair.target.distribution(context).probability(x);
    const double q_x = pair.draft.distribution(context).probability(x);
    context.push_back(x);
    add_joint_minima(pair, context, p * p_x, q * q_x, left - 1, sums);
    context.pop_back();
  }
}

}  // namespace

TEST_CASE("what is expected of a draft is what the verifier does with it") {
  // Over all coins and races, and over all that may be drafted behind the first i tokens.
  for_random_pairs([](const Pair& pair, Index gamma) {
    std::mt19937_64 rng{72};
    std::vector<Token> tokens;
    const auto row = [](const TableModel<>& model, const std::vector<Token>& context) {
      const DenseRow<double> held = model.distribution(context);
      return held.block(0, held.vocab_size()).matrix().transpose().eval();
    };
    RowMajor<double> p(gamma + 1, pair.target.vocab_size()), q(gamma, pair.target.vocab_size());
    const auto draft_from = [&](std::size_t first, auto&& draw) {  // keeps the tokens before `first`
      tokens.resize(first);
      for (Index i = 0; i <= gamma; ++i) {
        const std::vector<Token> context(tokens.begin(),
                                         tokens.begin() + std::min<Index>(i, std::ssize(tokens)));
        p.row(i) = row(pair.target, context);
        if (i == gamma) break;
        q.row(i) = row(pair.draft, context);
        if (i >= std::ssize(tokens)) tokens.push_back(draw(pair.draft.distribution(context)));
      }
    };
    draft_from(0, [&](const auto& q_row) { return q_row.sampler()(uniform01(rng)); });
    const std::vector<Token> drawn = tokens;
    const RowMajor<double> target = p, draft = q;
    for_each_rule([&](auto rule) {
      std::vector<double> expected;
      for (std::size_t i = 0; i <= drawn.size(); ++i) {
        expected.push_back(0);
        enumerate([&](Enumerator& chance) {
          auto fresh = rule;
          tokens = drawn;
          draft_from(i, [&](const auto& q_row) { return chance.draw(q_row); });
          const Verdict verdict = fresh(p, q, tokens, chance);
          if (verdict.accepted >= static_cast<Index>(i)) expected.back() += chance.probability();
        });
      }
      check_equal(survival_of_draft(rule, target, draft, drawn), expected);
    });
  });
}

TEST_CASE("enumerated survival is that of the shipped verifiers") {  // each run over all its outcomes
  for_random_pairs([](const Pair& pair, Index gamma) {
    for_each_rule([&](auto rule) {
      TableModel<> target = pair.target, draft = pair.draft;
      ModelDrafter drafter{TableModel<>(pair.draft)};
      const StepLaw law = exact_step(target, drafter, rule, prompt, gamma);
      const Survival survival =
          enumerated_survival(rule, rows_of(pair.target), rows_of(pair.draft), prompt, gamma);
      check_equal(survival, law.accepted_at_least);
      CHECK(survival.gamma() == gamma);
      CHECK(survival.expected_accepted() == Approx(law.expected_accepted()).margin(1e-13));
      check_equal(enumerated_survival(rule, target, draft, prompt, gamma), law.accepted_at_least);
    });
  });
}

TEST_CASE("greedy block verification reaches the bound with full information; block and token are below") {
  for_random_pairs([](const Pair& pair, Index gamma) {
    const auto survival = [&](auto rule) {
      return enumerated_survival(rule, rows_of(pair.target), rows_of(pair.draft), prompt, gamma);
    };
    std::vector<double> bound(static_cast<std::size_t>(gamma) + 1);
    std::vector<Token> context = prompt;
    add_joint_minima(pair, context, 1, 1, gamma, bound);
    check_equal(survival(GreedyBlockVerifier{}), bound);
    const Survival token = survival(TokenVerifier{}), block = survival(BlockVerifier{});
    for (std::size_t i = 0; i < bound.size(); ++i) {
      CHECK(token.at_least[i] <= block.at_least[i] + 1e-14);
      CHECK(block.at_least[i] <= bound[i] + 1e-14);
    }
  });
}

TEST_CASE("one enumeration tells of every shorter draft") {
  for_random_pairs([](const Pair& pair, Index gamma) {
    for_each_rule([&](auto rule) {
      const auto survival = [&](Index length) {
        return enumerated_survival(rule, rows_of(pair.target), rows_of(pair.draft), prompt, length);
      };
      const Survival longest = survival(gamma);
      for (Index length = 0; length <= gamma; ++length)
        CHECK(longest.expected_accepted(length) ==
              Approx(survival(length).expected_accepted()).margin(1e-14));
    });
  });
}

TEST_CASE("the published toy example") {
  const auto p = toy_target(), q = TableModel<>::context_free(Eigen::RowVector2d(2.0 / 3, 1.0 / 3));
  const auto expected = [&](auto rule) {
    return enumerated_survival(rule, rows_of(p), rows_of(q), {}, 2).expected_accepted();
  };
  CHECK(expected(TokenVerifier{}) == Approx(10. / 9));
  CHECK(expected(BlockVerifier{}) == Approx(11. / 9));
  CHECK(expected(GreedyBlockVerifier{}) == Approx(12. / 9));
}

TEST_CASE("rows may be of any kind, of different sizes and short-lived") {
  std::mt19937_64 rng{73};
  // The target does not know token 3, the drafter's rows are lists that live until its next call.
  LayoutModel<AsSparse<double>> draft{TableModel<>::random(4, 0, rng)};
  const auto target = TableModel<>::random(3, 0, rng);
  const auto q = draft.distribution({}), p = target.distribution({});
  double match = 0, beta = 0;
  for (Token x = 0; x < 3; ++x) {
    match += p.probability(x) * q.probability(x);
    beta += std::min(p.probability(x), q.probability(x));
  }
  const std::vector<double> powers{1, beta, beta * beta, beta * beta * beta};
  check_equal(enumerated_survival(TokenVerifier{}, rows_of(target), draft, prompt, 3), powers);
  check_equal(enumerated_survival(SampleMatchVerifier{}, rows_of(target), draft, prompt, 2),
              {1, match, match * match});
}

TEST_CASE("a model is fed no more than the prompt and the draft") {
  std::mt19937_64 rng{74};
  const auto table = TableModel<>::random(2, 1, rng);
  BoundedModel target{table, 4}, draft{table, 4};
  CHECK(enumerated_survival(TokenVerifier{}, target, draft, prompt, 3).expected_accepted() == Approx(3));
}

TEST_CASE("bad input of survival") {
  const auto p = toy_target(), q = TableModel<>::context_free(Eigen::RowVector2d(1, 0));
  CHECK(message_of([&] { enumerated_survival(TokenVerifier{}, rows_of(p), rows_of(q), {}, -1); }) ==
        "specdec: gamma = -1 is negative");
  const Eigen::Matrix<double, 2, 2> target = Eigen::Matrix2d::Constant(0.5);
  const Eigen::RowVector2d draft(1, 0);
  const std::vector<Token> drawn{0}, undrawn{1};
  CHECK(message_of([&] { survival_of_draft(BlockVerifier{}, target, draft, undrawn); }) ==
        "specdec: tokens[0] = 1 has probability 0 in draft row 0, so it was not drawn from it");
  // Behind a token that the target rules out, too.
  const Eigen::Matrix<double, 3, 2> ruling_out =
      (Eigen::Matrix<double, 3, 2>() << 0, 1, 1, 0, 1, 0).finished();
  const Eigen::Matrix2d sure = (Eigen::Matrix2d() << 1, 0, 1, 0).finished();
  const std::vector<Token> half_drawn{0, 1};
  CHECK(message_of([&] { survival_of_draft(BlockVerifier{}, ruling_out, sure, half_drawn); }) ==
        "specdec: tokens[1] = 1 has probability 0 in draft row 1, so it was not drawn from it");
  CHECK(message_of([&] { survival_of_draft(BlockVerifier{}, target, target, drawn); }) ==
        "specdec: draft has 2 rows, expected gamma = 1, one per token");
  const Survival survival = survival_of_draft(BlockVerifier{}, target, draft, drawn);
  CHECK(message_of([&] { survival.expected_accepted(2); }) == "specdec: length = 2 is outside 0..gamma = 1");
  CHECK(message_of([&] { survival.expected_accepted(-1); }) ==
        "specdec: length = -1 is outside 0..gamma = 1");
  const Eigen::RowVector2d bad(0.5, std::numeric_limits<double>::quiet_NaN());
  const auto bad_rows = [&](std::span<const Token> context) {
    return DenseRow<double>(context.empty() ? draft.data() : bad.data(), 2);
  };
  CHECK(message_of([&] { enumerated_survival(TokenVerifier{}, rows_of(p), bad_rows, {}, 2); }) ==
        "specdec: draft row 1: the probability of token 1 is nan");
  CHECK(message_of([&] { enumerated_survival(TokenVerifier{}, bad_rows, bad_rows, prompt, 1); }) ==
        "specdec: draft row 0: the probability of token 1 is nan");
  CHECK(message_of([&] { enumerated_survival(TokenVerifier{}, bad_rows, rows_of(p), prompt, 1); }) ==
        "specdec: target row 0: the probability of token 1 is nan");
}

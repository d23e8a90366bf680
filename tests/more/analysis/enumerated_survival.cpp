// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/survival.hpp"

namespace test_more_analysis_enumerated_survival {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

const std::vector<Token> prompt{0, 1};

const TellingRule token{TokenVerifier{}}, block{BlockVerifier{}}, sample_match{SampleMatchVerifier{}};

void check_equal(const Survival& survival, const std::vector<double>& expected) {
  REQUIRE(survival.beyond.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(survival.beyond[i] == Approx(expected[i]).epsilon(0).margin(1e-13));
}

// A model's rows by context.
using Rows = std::function<DenseRow<double>(std::span<const Token>)>;

Rows rows_of(const TableModel<>& model) {
  return [&model](std::span<const Token> context) { return model.distribution(context); };
}

Survival enumerated(const support::SurvivalRule& rule, const ModelPair& pair, std::span<const Token> context,
                    Index gamma) {
  const Rows p = rows_of(pair.target), q = rows_of(pair.draft);
  return std::visit([&](const auto& known) { return enumerated_survival(known, p, q, context, gamma); },
                    rule);
}

// P(τ > i) of the verifier, by running it over all drafts and all its outcomes.
std::vector<double> outcomes(const AnyVerifier& rule, const ModelPair& pair, Index gamma) {
  std::vector<double> beyond(static_cast<std::size_t>(gamma));
  enumerate([&](Enumerator& chance) {
    const DraftOfPair draft =
        draft_of(pair, prompt, gamma, [&](Index, const auto& q) { return chance.draw(q); });
    AnyVerifier fresh = rule;
    const Verdict verdict = fresh(draft.p, draft.q, draft.tokens, chance);
    for (Index i = 0; i < verdict.accepted; ++i) beyond[static_cast<std::size_t>(i)] += chance.probability();
  });
  return beyond;
}

// [i]: Σ over x_1..x_{i+1} of min(p, q) of the joint prefixes, from the definition.
void add_joint_minima(const ModelPair& pair, std::vector<Token>& context, double p, double q, Index left,
                      std::vector<double>& sums) {
  if (left == 0) return;
  for (Token x = 0; x < pair.target.vocab_size(); ++x) {
    const double p_x = pair.target.distribution(context).probability(x);
    const double q_x = pair.draft.distribution(context).probability(x);
    sums[sums.size() - static_cast<std::size_t>(left)] += std::min(p * p_x, q * q_x);
    context.push_back(x);
    add_joint_minima(pair, context, p * p_x, q * q_x, left - 1, sums);
    context.pop_back();
  }
}

}  // namespace

TEST_CASE("enumerated survival is that of the shipped verifiers") {  // each is run over all its outcomes
  for_random_models([](const ModelPair& pair, Index gamma) {
    for (const support::SurvivalRule& rule : survival_rules) {
      const AnyVerifier verifier = verifier_of(rule);
      CAPTURE(verifier.name(), gamma);
      const std::vector<double> expected = outcomes(verifier, pair, gamma);
      const Survival survival = enumerated(rule, pair, prompt, gamma);
      check_equal(survival, expected);
      CHECK(survival.gamma() == gamma);
      double accepted = 0;
      for (const double survival_here : expected) accepted += survival_here;
      CHECK(survival.expected_accepted() == Approx(accepted).epsilon(0).margin(1e-13));
    }
  });
}

TEST_CASE("survival of models may be enumerated, too") {
  for_random_models([](const ModelPair& pair, Index gamma) {
    ModelPair models = pair;
    check_equal(enumerated_survival(block, models.target, models.draft, prompt, gamma),
                outcomes({BlockVerifier{}}, pair, gamma));
  });
}

TEST_CASE(
    "greedy block verification reaches the bound with full information; block and token verification stay "
    "below it") {
  for_random_models([](const ModelPair& pair, Index gamma) {
    std::vector<double> bound(static_cast<std::size_t>(gamma));
    std::vector<Token> context = prompt;
    add_joint_minima(pair, context, 1, 1, gamma, bound);
    check_equal(enumerated(GreedyBlockVerifier{}, pair, prompt, gamma), bound);
    const Survival by_token = enumerated(token, pair, prompt, gamma),
                   by_block = enumerated(block, pair, prompt, gamma);
    for (std::size_t i = 0; i < bound.size(); ++i) {
      CHECK(by_token.beyond[i] <= by_block.beyond[i] + 1e-14);
      CHECK(by_block.beyond[i] <= bound[i] + 1e-14);
    }
  });
}

TEST_CASE("one enumeration also gives the survival of every shorter draft") {
  for_random_models([](const ModelPair& pair, Index gamma) {
    for (const support::SurvivalRule& rule : survival_rules) {
      const Survival longest = enumerated(rule, pair, prompt, gamma);
      for (Index length = 0; length <= gamma; ++length)
        CHECK(longest.expected_accepted(length) ==
              Approx(enumerated(rule, pair, prompt, length).expected_accepted()).epsilon(0).margin(1e-14));
    }
  });
}

TEST_CASE("the published toy example holds") {
  const ModelPair toy{toy_target(), TableModel<>::context_free(Eigen::RowVector2d(2.0 / 3, 1.0 / 3))};
  CHECK(enumerated(token, toy, {}, 2).expected_accepted() == Approx(10. / 9).epsilon(1e-14));
  CHECK(enumerated(block, toy, {}, 2).expected_accepted() == Approx(11. / 9).epsilon(1e-14));
  CHECK(enumerated(GreedyBlockVerifier{}, toy, {}, 2).expected_accepted() == Approx(12. / 9).epsilon(1e-14));
}

TEST_CASE("rows may be of any kind, of different sizes and short-lived") {
  std::mt19937_64 rng{73};
  // The target does not know token 3. The drafter's rows are lists that live until its next call.
  LayoutModel<AsSparse<double>> draft{TableModel<>::random(4, 0, rng)};
  const auto target = TableModel<>::random(3, 0, rng);
  const auto q = draft.distribution({});
  const auto p = target.distribution({});
  double match = 0, beta = 0;
  for (Token x = 0; x < 3; ++x) {
    match += p.probability(x) * q.probability(x);
    beta += std::min(p.probability(x), q.probability(x));
  }
  const std::vector<double> powers{beta, beta * beta, beta * beta * beta};
  check_equal(enumerated_survival(token, rows_of(target), draft, prompt, 3), powers);
  check_equal(enumerated_survival(sample_match, rows_of(target), draft, prompt, 2), {match, match * match});
}

TEST_CASE("a model is fed no more than the prompt and the draft") {
  std::mt19937_64 rng{74};
  const auto table = TableModel<>::random(2, 1, rng);
  BoundedModel target{table, 4}, draft{table, 4};
  CHECK(enumerated_survival(token, target, draft, prompt, 3).expected_accepted() == Approx(3));
}

TEST_CASE("enumerated survival refuses bad input") {
  const auto p = toy_target();
  const Eigen::RowVector2d draft(1, 0), bad(0.5, std::numeric_limits<double>::quiet_NaN());
  const Rows good_rows = rows_of(p), bad_rows = [&](std::span<const Token> context) {
    return DenseRow<double>(context.empty() ? draft.data() : bad.data(), 2);
  };
  const auto message = [](const Rows& target, const Rows& drafter, std::span<const Token> context,
                          Index gamma) {
    return message_of([&] { enumerated_survival(token, target, drafter, context, gamma); });
  };
  CHECK(message(good_rows, good_rows, {}, -1) == "specdec: gamma = -1 is negative");
  CHECK(message(good_rows, bad_rows, {}, 2) == "specdec: draft row 1: the probability of token 1 is nan");
  CHECK(message(bad_rows, bad_rows, prompt, 1) == "specdec: draft row 0: the probability of token 1 is nan");
  CHECK(message(bad_rows, good_rows, prompt, 1) ==
        "specdec: target row 0: the probability of token 1 is nan");
}

TEST_CASE("a draft too large to enumerate is named in the error") {
  std::mt19937_64 rng{12};
  auto model = testing::TableModel<>::random(2, 1, rng);
  CHECK(support::message_of([&] {
          enumerated_survival(BlockVerifier{}, model, model, std::vector<Token>{0}, unlimited);
        }) == "specdec: gamma = 9223372036854775807 is more than 1048576, the longest draft");
}

}  // namespace test_more_analysis_enumerated_survival

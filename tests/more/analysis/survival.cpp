// SPDX-License-Identifier: MIT
#include <cstddef>
#include <random>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/survival.hpp"

namespace test_more_analysis_survival {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

static_assert(specdec::SurvivalRule<TokenVerifier> && specdec::SurvivalRule<BlockVerifier> &&
              specdec::SurvivalRule<GreedyBlockVerifier>);
static_assert(specdec::SurvivalRule<SampleMatchVerifier> && specdec::SurvivalRule<LenientVerifier>);
static_assert(!specdec::SurvivalRule<ArgmaxVerifier>);  // it takes a whole row to know what this rule accepts

}  // namespace

TEST_CASE("the expected survival of a draft is what the verifier does with it") {
  // Over all coins and races, and over all tokens that may be drafted after the first i.
  for_random_models([](const ModelPair& pair, Index gamma) {
    std::mt19937_64 rng{72};
    const DraftOfPair drawn =
        draft_of(pair, {}, gamma, [&](Index, const auto& q) { return q.sampler()(uniform01(rng)); });
    for (const support::SurvivalRule& rule : survival_rules) {
      const AnyVerifier verifier = verifier_of(rule);
      CAPTURE(verifier.name(), gamma);
      const Survival survival = std::visit(
          [&](const auto& known) { return survival_of_draft(known, drawn.p, drawn.q, drawn.tokens); }, rule);
      REQUIRE(survival.gamma() == gamma);
      for (Index i = 0; i < gamma; ++i) {
        double expected = 0;
        enumerate([&](Enumerator& chance) {
          const DraftOfPair draft = draft_of(pair, {}, gamma, [&](Index k, const auto& q) {
            return k <= i ? drawn.tokens[static_cast<std::size_t>(k)] : chance.draw(q);
          });
          AnyVerifier fresh = verifier;
          const Verdict verdict = fresh(draft.p, draft.q, draft.tokens, chance);
          if (verdict.accepted > i) expected += chance.probability();
        });
        CHECK(survival.beyond[static_cast<std::size_t>(i)] == Approx(expected).epsilon(0).margin(1e-13));
      }
    }
  });
}

TEST_CASE("a survival counts its expected tokens, for shorter drafts too") {
  const Survival survival{{0.75, 0.5, 0.125}};
  CHECK(survival.gamma() == 3);
  CHECK(survival.expected_accepted() == 1.375);
  CHECK(survival.expected_accepted(2) == 1.25);
  CHECK(survival.expected_accepted(0) == 0);
  CHECK(message_of([&] { survival.expected_accepted(4); }) == "specdec: length = 4 is outside 0..gamma = 3");
  CHECK(message_of([&] { survival.expected_accepted(-1); }) ==
        "specdec: length = -1 is outside 0..gamma = 3");
}

TEST_CASE("survival refuses bad input") {
  const RowMajor<double> target = RowMajor<double>::Constant(2, 2, 0.5);
  RowMajor<double> draft(1, 2), ruling_out(3, 2), sure(2, 2);
  draft << 1, 0;
  ruling_out << 0, 1, 1, 0, 1, 0;
  sure << 1, 0, 1, 0;
  const std::vector<Token> drawn{0}, undrawn{1}, half_drawn{0, 1};
  const TellingRule block{BlockVerifier{}};
  CHECK(message_of([&] { survival_of_draft(block, target, draft, undrawn); }) ==
        "specdec: tokens[0] = 1 has probability 0 in draft row 0, so it was not drawn from it");
  // Also after a token that the target rules out.
  CHECK(message_of([&] { survival_of_draft(block, ruling_out, sure, half_drawn); }) ==
        "specdec: tokens[1] = 1 has probability 0 in draft row 1, so it was not drawn from it");
  CHECK(message_of([&] { survival_of_draft(block, target, target, drawn); }) ==
        "specdec: draft has 2 rows, expected gamma = 1, one per token");
}

}  // namespace test_more_analysis_survival

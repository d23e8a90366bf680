// Drafts of forced tokens: what they propose, what they cost, and the law of the loop with them.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <random>
#include <specdec/more/drafters/forced_tokens.hpp>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/more/samplers/reasoning_budget.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/processors.hpp"

namespace test_more_drafters_forced_tokens {

using namespace specdec;
using namespace specdec::testing;
using support::LogTable;
using support::message_of;

namespace {

using Tokens = std::vector<Token>;

// Of four tokens: after x comes x + 1, and after 3 any token. After a 1 it fails if told to.
struct Counts {
  std::shared_ptr<bool> fails = std::make_shared<bool>(false);
  Tokens text = {};

  void apply(auto&& logits) const {
    if (text.empty() || text.back() == 3) return;
    if (*fails && text.back() == 1) throw std::runtime_error("no");
    for (Index x = 0; x < logits.size(); ++x)
      if (x != text.back() + 1) logits[x] = -std::numeric_limits<float>::infinity();
  }
  bool push(Token x) {
    if (!text.empty() && text.back() != 3 && x != text.back() + 1) return false;
    text.push_back(x);
    return true;
  }
  void pop(Index n) { text.resize(text.size() - static_cast<std::size_t>(n)); }
};

// Of three tokens: after 0 comes 1, after 1 comes 2, which ends a text, and after 2 only 2.
struct Ends {
  Tokens text = {};

  void apply(auto&& logits) const {
    if (text.empty()) return;
    for (Index x = 0; x < logits.size(); ++x)
      if (x != std::min<Index>(text.back() + 1, 2)) logits[x] = -std::numeric_limits<float>::infinity();
  }
  void push(Token x) { text.push_back(x); }
  void pop(Index n) { text.resize(text.size() - static_cast<std::size_t>(n)); }
};

}  // namespace

static_assert(OneTextDrafter<ForcedTokens<Counts>>);

TEST_CASE("a token is proposed with certainty where the processor leaves no choice") {
  std::mt19937_64 rng{1};
  ForcedTokens drafter{Counts{}, 4};
  const auto drafted = [&](const Tokens& context, Index gamma) {
    const auto draft = drafter.draft(context, gamma, rng);
    for (std::size_t i = 0; i < draft.tokens.size(); ++i)
      CHECK(draft.rows.row(static_cast<Index>(i)).probability(draft.tokens[i]) == 1);
    return Tokens(draft.tokens.begin(), draft.tokens.end());
  };
  CHECK(drafted({3, 0}, 5) == Tokens{1, 2, 3});
  CHECK(drafted({3, 0}, 2) == Tokens{1, 2});
  CHECK(drafted({3, 0}, 0).empty());
  CHECK(drafted({3, 0, 1, 2}, 5) == Tokens{3});
  drafter.truncate(1);
  CHECK(drafted({3}, 5).empty());
  CHECK(drafted({3, 1}, 5) == Tokens{2, 3});
  CHECK(drafted({3, 1, 1, 2}, 5).empty());  // the processor refuses this text
  drafter.truncate(2);
  CHECK(drafted({3, 1, 2}, 5) == Tokens{3});
  CHECK(message_of([] { ForcedTokens{Counts{}, 0}; }) == "specdec: vocab_size = 0 is not positive");
}

TEST_CASE("when a processor throws, its state is restored") {
  std::mt19937_64 rng{1};
  Counts counts;
  ForcedTokens drafter{counts, 4};
  const Tokens context{3, 0};
  *counts.fails = true;
  CHECK_THROWS_AS(drafter.draft(context, 5, rng), std::runtime_error);
  *counts.fails = false;
  CHECK(drafter.draft(context, 5, rng).tokens.size() == 3);
}

TEST_CASE("a forced end token is proposed again and again, and the text ends with the first one") {
  std::mt19937_64 rng{1};
  ForcedTokens drafter{Ends{}, 3};
  const Tokens prompt{0};
  const auto draft = drafter.draft(prompt, 5, rng);
  CHECK(Tokens(draft.tokens.begin(), draft.tokens.end()) == Tokens{1, 2, 2, 2, 2});
  TableModel<>::Rows rows(4, 3);
  rows << 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1;
  TableModel<> target(rows, 1);
  SpecDec decoder{target, ForcedTokens{Ends{}, 3}};
  const Result result = decoder.generate(prompt, {.max_new_tokens = 9, .gamma = 5, .stop_tokens = {2}}, rng);
  CHECK(result.tokens == Tokens{1, 2});
  CHECK(result.stop_reason == StopReason::stop_token);
  CHECK(result.stats.target_calls == 1);
}

namespace {

// Text with a processor has the target's law, whether its forced tokens are drafted or not, and before a draft model, too. Of
// the forced tokens more than `least` are drafted on average, and all are accepted.
void check_law(const auto& processor, const Options& options, double least) {
  const Tokens prompt{1, 0};
  LogTable large(3, 1, 3), small(3, 1, 4);
  const Chain steps{Temperature{1.0}};
  const auto law_with = [&](auto drafter) {
    SpecDec decoder{ProcessedModel{large, steps, processor}, drafter, BlockVerifier{}};
    return enumerate_generate(decoder, prompt, options);
  };
  const GenerationLaw plain = law_with(NoDrafter{});
  const GenerationLaw forced = law_with(ForcedTokens{processor, 3});
  CHECK(largest_difference(plain.law, forced.law).size < 1e-12);
  CHECK(forced.drafted > least);
  CHECK(std::abs(forced.accepted - forced.drafted) < 1e-12);
  const GenerationLaw chained = law_with(
      FallbackDrafter{ForcedTokens{processor, 3}, ModelDrafter{ProcessedModel{small, steps, processor}}});
  CHECK(largest_difference(plain.law, chained.law).size < 1e-12);
  CHECK(chained.accepted > forced.accepted);
}

}  // namespace

TEST_CASE("forced tokens proposed before a model's are all accepted, and the target's law is kept") {
  // 2 is forced after 0.
  check_law(AfterPrompt{2, Grammar{support::Rhythm{}}}, {.max_new_tokens = 4, .gamma = 2}, 0.5);
}

TEST_CASE(
    "the end of a reasoning that has used up its budget is drafted and accepted, and the target's law is "
    "kept") {
  check_law(ReasoningBudget{{.start = {0}, .end = {2, 2}, .tokens = 1, .message = {1}}},
            {.max_new_tokens = 5, .gamma = 3}, 2);
}

}  // namespace test_more_drafters_forced_tokens

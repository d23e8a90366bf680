// A step by hand: an offered draft is accepted once, or withdrawn.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/analysis/measures.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_loop_step {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

const std::vector<Token> prompt{0, 1};
const Options options{.max_new_tokens = 12, .gamma = 2};

using DraftOf = decltype(std::declval<ModelDrafter<TableModel<>>&>().draft(
    std::span<const Token>(), DraftLimits{}, std::declval<std::mt19937_64&>()));

// A text with its target and drafter, as an engine holds them.
struct Engine {
  std::mt19937_64 rng{3};
  TableModel<> target;
  ModelDrafter<TableModel<>> drafter;
  Step<GreedyBlockVerifier, DraftOf, false> step;

  explicit Engine(std::mt19937_64 seed = std::mt19937_64{1})
      : target(TableModel<>::random(4, 2, seed)),
        drafter(TableModel<>::random(4, 2, seed)),
        step({target.vocab_size()}, {}, prompt, options) {}

  auto draft() {
    const DraftLimits limits = step.limits([](Index most) { return most; });
    return drafter.draft(step.context(), limits, rng);
  }
  const auto& rows(const Feed& feed) {
    target.truncate(feed.from);
    return target.forward(feed.tokens, feed.rows);
  }
};

}  // namespace

TEST_CASE("an engine that offers, feeds and accepts writes what a decoder writes", "[loop]") {
  Engine engine;
  std::mt19937_64 rng{3};
  Engine same;
  SpecDec decoder{same.target, same.drafter, GreedyBlockVerifier{}};
  const Result expected = decoder.generate(prompt, options, rng);
  while (!engine.step.done()) {
    const auto draft = engine.draft();
    RandomChance chance(engine.rng);
    engine.step.accept(engine.rows(engine.step.offer(draft)), chance);
    engine.drafter.truncate(engine.step.kept());
  }
  CHECK(engine.step.result().tokens == expected.tokens);
  CHECK(engine.step.stats().target_calls == expected.stats.target_calls);
}

TEST_CASE("a text does not begin with a rule that remembers another one", "[loop][errors]") {
  std::mt19937_64 rng{1};
  const GreedyBlockVerifier used{{{.ratio = 0.5, .left = 2}}};
  CHECK(!is_fresh(used));
  CHECK(is_fresh(GreedyBlockVerifier{}));
  CHECK(is_fresh(BlockVerifier{}));
  const std::string refused =
      "specdec: the verifier remembers a text: each text of a loop begins with one that remembers nothing";
  SpecDec decoder{TableModel<>::random(4, 2, rng), NoDrafter{}, used};
  CHECK(message_of<InvalidArgument>([&] { decoder.start(prompt, options); }) == refused);
  Batch batch{ModelPerSequence{TableModel<>::random(4, 2, rng)}, NoDrafter{}, used};
  CHECK(message_of<InvalidArgument>([&] { batch.add(prompt, options, std::mt19937_64{1}); }) == refused);
  CHECK(batch.empty());
}

TEST_CASE("only an offered draft can be accepted, and only once", "[loop][errors]") {
  Engine engine;
  RandomChance chance(engine.rng);
  const auto draft = engine.draft();
  const auto accept = [&](const auto& rows) {
    return message_of<InvalidCall>([&] { engine.step.accept(rows, chance); });
  };
  const std::string complaint =
      "specdec: there is no draft to judge: offer() one, and accept or settle it once";
  const auto rows = engine.rows({prompt, 0, 2});
  CHECK(accept(rows) == complaint);
  const auto kept = engine.rows(engine.step.offer(draft));
  CHECK(message_of<InvalidCall>([&] { engine.step.commit(); }) ==
        "specdec: commit() has no verdict to commit: weigh() the offered draft");
  engine.step.withdraw();
  CHECK(accept(kept) == complaint);
  CHECK_FALSE(engine.step.offers());
  CHECK(engine.step.tokens().empty());
  engine.step.offer(draft);
  CHECK(engine.step.accept(kept, chance).size() >= 1);
  CHECK(accept(kept) == complaint);
  CHECK(message_of<InvalidCall>([&] { engine.step.offer(draft); }) ==
        "specdec: a draft is offered that no limits() were asked for");
}

TEST_CASE("what a rule needs beyond the budget is drafted, but not fed", "[loop]") {
  Engine engine;
  while (engine.step.verifier().min_draft_length() == 0) {
    const auto draft = engine.draft();
    RandomChance chance(engine.rng);
    engine.step.accept(engine.rows(engine.step.offer(draft)), chance);
  }
  const auto text = engine.step.context();
  engine.step.resume(std::vector<Token>(text.begin(), text.end()), {.max_new_tokens = 1, .gamma = 2});
  const auto draft = engine.draft();
  CHECK(draft.tokens.size() == 1);
  const Feed feed = engine.step.offer(draft);
  CHECK(feed.rows == 1);
  RandomChance chance(engine.rng);
  CHECK(engine.step.accept(engine.rows(feed), chance).size() == 1);
  CHECK(engine.step.done());
}

namespace {

// A copy of what a drafter that observes is told.
struct Told {
  std::vector<Token> tokens;
  std::vector<Index> parents;
  NodeVerdict verdict;
  Index rows = 0;

  explicit Told(const auto& judged)
      : tokens(judged.tokens.begin(), judged.tokens.end()),
        parents(judged.parents.begin(), judged.parents.end()),
        verdict(judged.verdict),
        rows(judged.rows.rows()) {}
};

// Accepts everything, whatever the rows are.
struct AcceptAll {
  static constexpr bool needs_draft = false;
  Verdict judge(const auto& drafted, auto&) const { return {drafted.gamma(), 0}; }
};

std::vector<Index> listed(std::span<const Index> numbers) { return {numbers.begin(), numbers.end()}; }
std::vector<Token> listed(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

}  // namespace

TEST_CASE("a drafted token that ends the text is not fed, and neither are the tokens after it", "[loop]") {
  const std::vector<Token> tokens{2, 3, 1};
  Step<AcceptAll, Draft<OneHotRows>, false> step({4}, {}, prompt, {.gamma = 3, .stop_tokens = {3}});
  const Draft<OneHotRows> draft{tokens, OneHotRows(tokens)};
  step.limits([](Index most) { return most; });
  const Feed feed = step.offer(draft);
  CHECK(listed(feed.tokens) == std::vector<Token>{0, 1, 2});
  CHECK(feed.rows == 2);

  std::mt19937_64 rng{1};
  RandomChance chance(rng);
  RowMajor<double> rows = RowMajor<double>::Zero(2, 4);
  rows(0, 2) = rows(1, 3) = 1;
  CHECK(message_of([&] { step.accept(RowMajor<double>(rows.topRows(1)), chance); }) ==
        "specdec: target has 1 rows, expected 2");
  step.weigh(rows, chance);
  CHECK(step.tokens().empty());
  const Told told(step.judged(rows));
  CHECK(listed(step.commit()) == std::vector<Token>{2, 3});
  CHECK(step.result().stop_reason == StopReason::stop_token);
  CHECK(step.kept() == 3);
  CHECK(listed(step.kept_path()) == std::vector<Index>{0, 1, 2});
  CHECK(step.stats().drafted == 3);
  CHECK(step.stats().accepted == 2);
  CHECK(step.last().fed == 3);
  // For the drafter it is a verdict on the tokens that were fed.
  CHECK(told.tokens == std::vector<Token>{2});
  CHECK(told.rows == 2);
  CHECK(told.verdict == NodeVerdict{1, 3});
}

TEST_CASE("statistics of acceptance know nothing about tokens after the end of the text", "[loop]") {
  const std::vector<Token> tokens{2, 3, 1};
  Measures measures;
  using Watching = Observers<MeasuresObserver>;
  Step<TokenVerifier, Draft<OneHotRows>, false, Watching> step(
      {4}, {}, prompt, {.gamma = 3, .stop_tokens = {3}}, {}, Watching{MeasuresObserver{measures}});
  const Draft<OneHotRows> draft{tokens, OneHotRows(tokens)};
  step.limits([](Index most) { return most; });
  step.offer(draft);
  std::mt19937_64 rng{1};
  RandomChance chance(rng);
  step.accept(RowMajor<double>(RowMajor<double>::Constant(2, 4, 0.25)), chance);
  CHECK(measures.acceptance.drafted == std::vector<Index>{1, 1});
  CHECK(measures.acceptance.token == std::vector<double>{0.25, 0.0625});
  CHECK(measures.acceptance.rate().value == 0.25);
  CHECK(std::vector<double>(step.last().survival.begin(), step.last().survival.end()) ==
        std::vector<double>{0.25, 0.0625, 0});
}

TEST_CASE("the tree that is fed has no token that ends the text", "[loop]") {
  //  tokens    2   3   0   1   1   3
  //  parents  −1  −1  −1   1   2   4     fed: 2, 0 and the second 1
  const std::vector<Token> tokens{2, 3, 0, 1, 1, 3};
  const std::vector<Index> parents{-1, -1, -1, 1, 2, 4};
  using Rule = TrunkAndSpares<SampleMatchVerifier>;
  std::vector<std::vector<Token>> asked;
  const Options by_token{.gamma = 6, .stop_tokens = {3}}, by_condition{.gamma = 6, .ends = [&](auto text) {
                                                                         asked.push_back(listed(text));
                                                                         return text.back() == 3;
                                                                       }};
  for (const Options& stops : {by_token, by_condition})
    for (const bool all : {true, false}) {
      asked.clear();
      Step<Rule, Draft<OneHotRows>, true> step({4}, {}, prompt, stops);
      const Draft<OneHotRows> draft{tokens, OneHotRows(tokens), parents};
      step.limits([](Index most) { return most; });
      const Feed feed = step.offer(draft);
      CHECK(listed(feed.tokens) == std::vector<Token>{0, 1, 2, 0, 1});
      CHECK(listed(feed.parents) == std::vector<Index>{-1, 0, 1, 1, 3});
      CHECK(feed.rows == 4);
      if (stops.ends) CHECK(asked == std::vector<std::vector<Token>>{{2}, {3}, {0}, {0, 1}, {0, 1, 3}});

      std::mt19937_64 rng{1};
      RandomChance chance(rng);
      RowMajor<double> rows = RowMajor<double>::Zero(4, 4);
      rows(0, all ? 0 : 3) = rows(1, 0) = rows(2, 1) = rows(3, 3) = 1;
      step.weigh(rows, chance);
      const Told told(step.judged(rows));
      CHECK(listed(step.commit()) == (all ? std::vector<Token>{0, 1, 3} : std::vector<Token>{3}));
      CHECK(step.done());
      CHECK(listed(step.kept_path()) == (all ? std::vector<Index>{0, 1, 3, 4} : std::vector<Index>{0, 1}));
      CHECK(step.kept() == (all ? 4 : 2));
      CHECK(told.tokens == std::vector<Token>{2, 0, 1});
      CHECK(told.parents == std::vector<Index>{-1, -1, 1});
      CHECK(told.verdict == (all ? NodeVerdict{3, 3} : NodeVerdict{0, 3}));
      if (stops.ends) CHECK(asked.size() == 5);  // of the accepted tokens it is not asked again
    }
}

}  // namespace test_loop_step

// A step by hand: an offered draft is accepted once, or withdrawn.
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
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

// A text with its target and drafter, as an engine holds them.
struct Engine {
  std::mt19937_64 rng{3};
  TableModel<> target;
  ModelDrafter<TableModel<>> drafter;
  Step<GreedyBlockVerifier, false> step;

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
    engine.step.accept(engine.rows(engine.step.offer(draft)), draft, chance);
    engine.drafter.truncate(engine.step.kept());
  }
  CHECK(engine.step.result().tokens == expected.tokens);
  CHECK(engine.step.stats().target_calls == expected.stats.target_calls);
}

TEST_CASE("only an offered draft can be accepted, and only once", "[loop][errors]") {
  Engine engine;
  RandomChance chance(engine.rng);
  const auto draft = engine.draft();
  const auto accept = [&](const auto& rows) {
    return message_of<std::logic_error>([&] { engine.step.accept(rows, draft, chance); });
  };
  const std::string complaint = "specdec: accept() has no draft to judge: offer() one, and accept it once";
  const auto rows = engine.rows({prompt, 0, 2});
  CHECK(accept(rows) == complaint);
  const auto kept = engine.rows(engine.step.offer(draft));
  engine.step.withdraw();
  CHECK(accept(kept) == complaint);
  CHECK_FALSE(engine.step.offers());
  CHECK(engine.step.tokens().empty());
  engine.step.offer(draft);
  CHECK(engine.step.accept(kept, draft, chance).size() >= 1);
  CHECK(accept(kept) == complaint);
  CHECK(message_of<std::logic_error>([&] { engine.step.offer(draft); }) ==
        "specdec: a draft is offered that no limits() were asked for");
}

}  // namespace test_loop_step

// Stepping by hand, and what is left after a throw.
#include <random>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// Fails at chosen calls, before or after it has taken the tokens in.
class FailingModel {
 public:
  FailingModel(TableModel<> table, bool late) : table_(std::move(table)), late_(late) {}
  Index vocab_size() const { return table_.vocab_size(); }
  const TableModel<>::Rows& forward(std::span<const Token> tokens, Index rows) {
    if (fail && !late_) throw std::runtime_error("out of memory");
    const auto& out = table_.forward(tokens, rows);
    if (fail) throw std::runtime_error("out of memory");
    return out;
  }
  void truncate(Index length) { table_.truncate(length); }
  auto distribution(std::span<const Token> context) const { return table_.distribution(context); }
  std::span<const Token> context() const { return table_.context(); }
  bool fail = false;

 private:
  TableModel<> table_;
  bool late_;
};

struct FailingVerifier {
  BlockVerifier rule;
  bool* fail;
  Verdict operator()(const auto& target, const auto& draft, std::span<const Token> tokens, auto& chance) {
    if (fail != nullptr && *fail) throw std::runtime_error("verifier");
    return rule(target, draft, tokens, chance);
  }
};

std::vector<Token> copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

const std::vector<Token> prompt{0, 1};

}  // namespace

TEST_CASE("generate is a loop over step") {
  std::mt19937_64 seed{1};
  auto target = TableModel<>::random(4, 2, seed);
  SpecDec decoder{target, ModelDrafter{TableModel<>::random(4, 2, seed)}};
  const Options options{.max_new_tokens = 20, .gamma = 3};
  std::mt19937_64 rng{5}, twin{5};
  auto sequence = decoder.start(prompt, options);
  std::vector<Token> emitted;
  while (!sequence.done()) {
    const auto tokens = sequence.step(rng);
    emitted.insert(emitted.end(), tokens.begin(), tokens.end());
    CHECK(copy(sequence.tokens()) == emitted);
    CHECK(sequence.stats().emitted == static_cast<Index>(emitted.size()));
  }
  CHECK(sequence.step(rng).empty());
  CHECK(sequence.result().tokens == emitted);
  CHECK(decoder.generate(prompt, options, twin).tokens == emitted);
}

TEST_CASE("a sequence can be stopped, and released and taken up again") {
  std::mt19937_64 seed{2};
  auto target = TableModel<>::random(4, 2, seed);
  SpecDec decoder{target, ModelDrafter{TableModel<>::random(4, 2, seed)}, GreedyBlockVerifier{}};
  const Options options{.max_new_tokens = 12, .gamma = 3};
  std::mt19937_64 rng{6}, twin{6};
  const std::vector<Token> expected = decoder.generate(prompt, options, twin).tokens;

  auto first = decoder.start(prompt, options);
  first.step(rng);
  auto second = decoder.start(std::vector<Token>{3}, options);
  std::mt19937_64 other{7};
  second.step(other);
  first.release();
  while (!first.done()) first.step(rng);
  CHECK(copy(first.tokens()) == expected);

  second.stop();
  CHECK(second.done());
  CHECK(second.result().stop_reason == StopReason::callback);
}

TEST_CASE("a throw leaves everything as before the step, which can be tried again") {
  for (const bool late : {false, true})
    for (int culprit = 0; culprit < 3; ++culprit) {
      std::mt19937_64 seed{3};
      FailingModel target(TableModel<>::random(4, 2, seed), late);
      FailingModel small(TableModel<>::random(4, 2, seed), late);
      ModelDrafter drafter{small};
      bool fail = false;
      SpecDec decoder{target, drafter, FailingVerifier{{}, &fail}};
      bool& trip = culprit == 0 ? target.fail : culprit == 1 ? small.fail : fail;

      std::mt19937_64 rng{9};
      auto sequence = decoder.start(prompt, {.max_new_tokens = 25, .gamma = 3});
      while (!sequence.done()) {
        const auto context = copy(sequence.context());
        const auto target_context = copy(target.context()), draft_context = copy(small.context());
        const Index calls = sequence.stats().target_calls, drafted = sequence.stats().drafted;
        const auto time = sequence.stats().draft_time;
        trip = true;
        CHECK_THROWS_AS(sequence.step(rng), std::runtime_error);
        trip = false;
        CHECK(copy(sequence.context()) == context);
        CHECK(copy(target.context()) == target_context);
        CHECK(small.context().size() <= context.size());  // no drafted token is left
        CHECK(std::equal(small.context().begin(), small.context().end(), context.begin()));
        CHECK(small.context().size() >= draft_context.size());
        CHECK(sequence.stats().target_calls == calls);
        CHECK(sequence.stats().drafted == drafted);
        CHECK(sequence.stats().draft_time == time);
        sequence.step(rng);
      }
      CHECK(sequence.tokens().size() == 25);
    }
}

TEST_CASE("retries do not bend the law") {
  // Fails at every other target call; the joint law must still be the target's.
  std::mt19937_64 seed{4};
  FailingModel target(TableModel<>::random(2, 2, seed), true);
  SpecDec decoder{target, ModelDrafter{TableModel<>::random(2, 2, seed)}, GreedyBlockVerifier{}};
  const Options options{.max_new_tokens = 4, .gamma = 2};
  Law law;
  enumerate([&](Enumerator& chance) {
    auto sequence = decoder.start(prompt, options);
    while (!sequence.done()) {
      target.fail = true;
      CHECK_THROWS(sequence.step(chance));
      target.fail = false;
      sequence.step(chance);
    }
    law[copy(sequence.tokens())] += chance.probability();
  });
  CHECK(largest_difference(law, target_law(target, prompt, options)).size < 1e-12);
}

namespace {

struct RogueDrafter {
  std::vector<Token> tokens;
  Draft<OneHotRows> draft(std::span<const Token>, Index, auto&) { return {tokens, OneHotRows(tokens)}; }
  void truncate(Index) {}
};

struct LazyDrafter {
  ModelDrafter<TableModel<>> inner;
  bool lazy = false;
  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    return inner.draft(context, lazy ? 0 : gamma, chance);
  }
  void truncate(Index length) { inner.truncate(length); }
};

struct RogueVerifier {
  Verdict verdict;
  Verdict operator()(const auto&, const auto&, std::span<const Token>, auto&) const { return verdict; }
};

}  // namespace

TEST_CASE("what a drafter or a verifier of somebody else returns is checked") {
  std::mt19937_64 rng{1};
  auto target = TableModel<>::random(3, 1, rng);
  const auto with_draft = [&](std::vector<Token> tokens) {
    SpecDec decoder{target, RogueDrafter{tokens}};
    return message_of([&] { decoder.start(prompt, {.gamma = 2}).step(rng); });
  };
  CHECK(with_draft({0, 1, 2}) == "specdec: the drafter proposed 3 tokens when asked for at most 2");
  CHECK(with_draft({0, 3}) == "specdec: draft[1] = 3 is outside the vocabulary 0..2");
  CHECK(with_draft({-1}) == "specdec: draft[0] = -1 is outside the vocabulary 0..2");
  CHECK(with_draft({1, 1}).empty());
  const auto with_verdict = [&](Verdict verdict) {
    SpecDec decoder{target, NoDrafter{}, RogueVerifier{verdict}};
    return message_of([&] { decoder.generate(prompt, {.gamma = 2}, rng); });
  };
  CHECK(with_verdict({1, 0}) == "specdec: the verifier accepted 1 of 0 drafted tokens");
  CHECK(with_verdict({-1, 0}) == "specdec: the verifier accepted -1 of 0 drafted tokens");
  CHECK(with_verdict({0, 3}) == "specdec: verdict token[0] = 3 is outside the vocabulary 0..2");
}

TEST_CASE("a drafter too short for the live modifications is an error, not a bias") {
  std::mt19937_64 seed{5};
  auto target = TableModel<>::random(2, 1, seed);
  auto small = TableModel<>::random(2, 1, seed);
  LazyDrafter drafter{ModelDrafter<TableModel<>>{std::move(small)}};
  SpecDec decoder{target, drafter, GreedyBlockVerifier{}};
  std::mt19937_64 rng{1};
  for (int n = 0; n < 100; ++n) {
    drafter.lazy = false;
    auto sequence = decoder.start(prompt, {.max_new_tokens = 30, .gamma = 4});
    sequence.step(rng);
    const Index needed = sequence.verifier().min_draft_length();
    if (needed == 0) continue;
    drafter.lazy = true;
    CHECK_THROWS_AS(sequence.step(rng), std::invalid_argument);
    drafter.lazy = false;
    CHECK_NOTHROW(sequence.step(rng));
  }
}

TEST_CASE("sequences of one decoder may take turns without a word") {
  std::mt19937_64 seed{8};
  auto target = TableModel<>::random(4, 3, seed);
  SpecDec decoder{target, ModelDrafter{TableModel<>::random(4, 3, seed)}};
  const Options options{.max_new_tokens = 15, .gamma = 3};
  const std::vector<Token> other{3, 2, 1};
  std::mt19937_64 a{1}, b{2}, a_alone{1}, b_alone{2};
  const auto expected_a = decoder.generate(prompt, options, a_alone).tokens;
  const auto expected_b = decoder.generate(other, options, b_alone).tokens;
  auto first = decoder.start(prompt, options);
  auto second = decoder.start(other, options);
  while (!first.done() || !second.done()) {
    first.step(a);
    second.step(b);
  }
  CHECK(copy(first.tokens()) == expected_a);
  CHECK(copy(second.tokens()) == expected_b);
}

TEST_CASE("a release of one sequence does not mislead another that had the models") {
  std::mt19937_64 seed{8};
  auto target = TableModel<>::random(4, 3, seed);
  SpecDec decoder{target, ModelDrafter{TableModel<>::random(4, 3, seed)}};
  const Options options{.max_new_tokens = 15, .gamma = 3};
  std::mt19937_64 rng{2}, alone{2}, other{1};
  const auto expected = decoder.generate(prompt, options, alone).tokens;
  auto paused = decoder.start(std::vector<Token>{3, 2, 1}, options);
  paused.step(other);
  auto sequence = decoder.start(prompt, options);
  while (!sequence.done()) {
    sequence.step(rng);
    paused.release();
  }
  CHECK(copy(sequence.tokens()) == expected);
}

TEST_CASE("a sequence resumed from a context writes what a fresh one would, and takes in only what is new") {
  std::mt19937_64 seed{9};
  CountingModel target{TableModel<>::random(4, 3, seed)}, fresh_target{target.table};
  CountingModel small{TableModel<>::random(4, 3, seed)}, fresh_small{small.table};
  SpecDec decoder{target, ModelDrafter{small}, GreedyBlockVerifier{}};
  SpecDec fresh{fresh_target, ModelDrafter{fresh_small}, GreedyBlockVerifier{}};
  const Options options{.max_new_tokens = 9, .gamma = 3, .stop_tokens = {3}};
  auto sequence = decoder.start(std::vector<Token>(100, 2), options);
  std::vector<Token> context;
  Index emitted = 0;
  for (std::mt19937_64::result_type turn = 0; turn < 40; ++turn) {
    std::mt19937_64 rng{turn}, twin{turn};
    target.fed = small.fed = 0;
    while (!sequence.done()) sequence.step(rng);
    if (turn > 0) {
      const Result expected =
          fresh.generate(context, {.max_new_tokens = 5, .gamma = 3, .stop_tokens = {3}}, twin);
      CHECK(copy(sequence.tokens()) == expected.tokens);
      CHECK(sequence.result().stop_reason == expected.stop_reason);
      CHECK(target.fed <= 5 * 4 + 4);
      CHECK(small.fed <= 5 * 4 + 4);
    }
    emitted += std::ssize(sequence.tokens());
    CHECK(sequence.stats().emitted == emitted);
    context = copy(sequence.context());
    if (turn % 3 == 1) {  // the end is taken back, and another one takes its place
      const Token last = context.back();
      context.resize(context.size() - 2);
      for (const Token x : {2, 1, 2, 1}) context.push_back((last + x) % 3);
    }
    if (turn % 3 == 0) context.push_back(static_cast<Token>(turn % 4));
    sequence.resume(context, {.max_new_tokens = 5, .gamma = 3, .stop_tokens = {3}});
    CHECK(sequence.tokens().empty());
    CHECK(copy(sequence.context()) == context);
  }
}

TEST_CASE("a sequence may be resumed from a part of its own context, with other options") {
  std::mt19937_64 seed{12};
  auto target = TableModel<>::random(4, 3, seed);
  SpecDec decoder{target, ModelDrafter{TableModel<>::random(4, 3, seed)}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 40, .gamma = 3});
  while (!sequence.done()) sequence.step(rng);
  const auto slid = copy(sequence.context().subspan(7));
  sequence.resume(sequence.context().subspan(7), {.max_new_tokens = 50, .gamma = 1});
  CHECK(copy(sequence.context()) == slid);
  std::mt19937_64 twin = rng;
  while (!sequence.done()) sequence.step(rng);
  CHECK(copy(sequence.tokens()) == decoder.generate(slid, {.max_new_tokens = 50, .gamma = 1}, twin).tokens);
  sequence.resume(sequence.context(), {.max_new_tokens = 1});
  sequence.step(rng);
  CHECK(sequence.context().size() == slid.size() + 51);
}

TEST_CASE("a resumed sequence whose models another one has had takes everything in again") {
  std::mt19937_64 seed{10};
  auto target = TableModel<>::random(4, 3, seed);
  SpecDec decoder{target, ModelDrafter{TableModel<>::random(4, 3, seed)}};
  const Options options{.max_new_tokens = 6, .gamma = 2};
  std::mt19937_64 rng{1}, twin{1}, other{2};
  auto first = decoder.start(prompt, options);
  first.step(other);
  auto second = decoder.start(std::vector<Token>{3, 3, 3, 3, 3, 3, 3, 3, 3, 3}, options);
  second.step(other);
  const std::vector<Token> context{0, 1, 2, 3};
  first.resume(context, options);
  CHECK(target.context().size() >= 10);  // the other one's
  while (!first.done()) first.step(rng);
  CHECK(copy(first.tokens()) == decoder.generate(context, options, twin).tokens);
}

TEST_CASE("a context that cannot be resumed from leaves the sequence as it was") {
  std::mt19937_64 seed{11};
  auto target = TableModel<>::random(4, 1, seed);
  SpecDec decoder{target, ModelDrafter{TableModel<>::random(4, 1, seed)}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 20, .gamma = 2});
  sequence.step(rng);
  const auto context = copy(sequence.context());
  CHECK(message_of([&] { sequence.resume(std::vector<Token>{}, {}); }) ==
        "specdec: context is empty: there is nothing to continue");
  CHECK(message_of([&] {
          sequence.resume(std::vector<Token>{0, 4}, {});
        }) == "specdec: context[1] = 4 is outside the vocabulary 0..3");
  CHECK(message_of([&] { sequence.resume(prompt, {.max_new_tokens = -1}); }) ==
        "specdec: max_new_tokens = -1 is negative");
  CHECK(message_of([&] { sequence.resume(prompt, {.gamma = -2}); }) == "specdec: gamma = -2 is negative");
  CHECK(copy(sequence.context()) == context);
  while (!sequence.done()) sequence.step(rng);
  CHECK(sequence.tokens().size() == 20);
}

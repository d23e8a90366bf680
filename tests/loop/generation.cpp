// Stepping by hand, and what is left after a throw.
#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_loop_generation {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// The one model of this file, so that the loop is compiled for one. Counts the tokens that it takes in, and
// fails at chosen calls, before or after it has taken them in. Copies share what they hold: a test can look
// into a model that it gave away.
class LoopModel {
  struct State {
    TableModel<> table;
    bool late, fail = false;
    Index fed = 0;
  };

 public:
  explicit LoopModel(TableModel<> table, bool late = false)
      : held_(std::make_shared<State>(State{std::move(table), late})) {}
  static LoopModel random(Index vocab_size, Index order, std::mt19937_64& seed) {
    return LoopModel(TableModel<>::random(vocab_size, order, seed));
  }

  Index vocab_size() const { return held_->table.vocab_size(); }
  const TableModel<>::Rows& forward(std::span<const Token> tokens, Index rows) {
    if (held_->fail && !held_->late) throw std::runtime_error("out of memory");
    const auto& out = held_->table.forward(tokens, rows);
    if (held_->fail) throw std::runtime_error("out of memory");
    held_->fed += std::ssize(tokens);
    return out;
  }
  void truncate(Index length) { held_->table.truncate(length); }
  auto distribution(std::span<const Token> context) const { return held_->table.distribution(context); }

  std::span<const Token> context() const { return held_->table.context(); }
  const TableModel<>& table() const { return held_->table; }
  bool& fail() { return held_->fail; }
  Index& fed() { return held_->fed; }

 private:
  std::shared_ptr<State> held_;
};

// What goes wrong in drafter and verifier, and how long they take.
struct Script {
  bool lazy = false;  // the drafter proposes nothing
  bool verifier_fails = false, observer_fails = false;
  std::chrono::milliseconds draft_nap{0}, verifier_nap{0};
  const Token* seen = nullptr;  // where the context was when the drafter saw it
};

struct ScriptedDrafter {
  ModelDrafter<LoopModel> inner;
  Script* script;
  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    script->seen = context.data();
    std::this_thread::sleep_for(script->draft_nap);
    return inner.draft(context, script->lazy ? 0 : gamma, chance);
  }
  void observe(const auto&, std::span<const Token>, const Verdict&) {
    if (script->observer_fails) throw std::runtime_error("observer");
  }
  void truncate(Index length) { inner.truncate(length); }
};

// Greedy block verification: the rule with a state.
struct ScriptedRule {
  GreedyBlockVerifier rule = {};
  Script* script = nullptr;
  Verdict operator()(const auto& target, const auto& draft, std::span<const Token> tokens, auto& chance) {
    return rule(target, draft, tokens, chance);
  }
  Verdict judge(const auto& block, auto& chance) {
    if (script->verifier_fails) throw std::runtime_error("verifier");
    std::this_thread::sleep_for(script->verifier_nap);
    return rule.judge(block, chance);
  }
  Index min_draft_length() const { return rule.min_draft_length(); }
};

using Decoder = SpecDec<LoopModel, ScriptedDrafter, ScriptedRule>;
Decoder scripted(const LoopModel& target, const LoopModel& small, Script& script) {
  return Decoder{LoopModel(target), ScriptedDrafter{ModelDrafter{LoopModel(small)}, &script}, {{}, &script}};
}

std::vector<Token> copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

const std::vector<Token> prompt{0, 1};

}  // namespace

TEST_CASE("generate is a loop over step") {
  std::mt19937_64 seed{1};
  LoopModel target = LoopModel::random(4, 2, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(4, 2, seed), script);
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
  LoopModel target = LoopModel::random(4, 2, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(4, 2, seed), script);
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
    for (int culprit = 0; culprit < 4; ++culprit) {
      CAPTURE(late, culprit);
      std::mt19937_64 seed{3};
      LoopModel target(TableModel<>::random(4, 2, seed), late);
      LoopModel small(TableModel<>::random(4, 2, seed), late);
      Script script;
      Decoder decoder = scripted(target, small, script);
      bool& trip = culprit == 0   ? target.fail()
                   : culprit == 1 ? small.fail()
                   : culprit == 2 ? script.verifier_fails
                                  : script.observer_fails;

      std::mt19937_64 rng{9};
      auto sequence = decoder.start(prompt, {.max_new_tokens = 25, .gamma = 3});
      while (!sequence.done()) {
        const auto context = copy(sequence.context());
        const auto target_context = copy(target.context()), draft_context = copy(small.context());
        const Index calls = sequence.stats().target_calls, drafted = sequence.stats().drafted;
        const auto time = sequence.stats().draft_time;
        trip = true;
        // A drafter that was asked for nothing cannot fail.
        const bool asked = culprit != 1 || sequence.stats().emitted < 24;
        if (asked) CHECK_THROWS_AS(sequence.step(rng), std::runtime_error);
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
  LoopModel target(TableModel<>::random(2, 2, seed), true);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(2, 2, seed), script);
  const Options options{.max_new_tokens = 4, .gamma = 2};
  Law law;
  enumerate([&](Enumerator& chance) {
    auto sequence = decoder.start(prompt, options);
    while (!sequence.done()) {
      target.fail() = true;
      CHECK_THROWS(sequence.step(chance));
      target.fail() = false;
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

// Knows more tokens than the target does.
struct ForeignDrafter {
  std::vector<Token> tokens;
  RowMajor<double> rows = RowMajor<double>::Constant(std::ssize(tokens), 5, 0.2);
  Draft<const RowMajor<double>&> draft(std::span<const Token>, Index, auto&) { return {tokens, rows}; }
  void truncate(Index) {}
};

struct RogueVerifier {
  Verdict verdict;
  Verdict operator()(const auto&, const auto&, std::span<const Token>, auto&) const { return verdict; }
};
struct RogueJudge : RogueVerifier {
  Verdict judge(const auto&, auto&) const { return verdict; }
};

}  // namespace

TEST_CASE("what a drafter or a verifier of somebody else returns is checked") {
  std::mt19937_64 rng{1};
  LoopModel target = LoopModel::random(3, 1, rng);
  const auto plain = [&](std::vector<Token> tokens, Verdict verdict) {
    SpecDec decoder{target, RogueDrafter{std::move(tokens)}, RogueVerifier{verdict}};
    return message_of([&] { decoder.start(prompt, {.gamma = 2}).step(rng); });
  };
  CHECK(plain({0, 1, 2}, {}) == "specdec: the drafter proposed 3 tokens when asked for at most 2");
  CHECK(plain({0, 3}, {}) == "specdec: draft[1] = 3 is outside the vocabulary 0..2");
  CHECK(plain({-1}, {}) == "specdec: draft[0] = -1 is outside the vocabulary 0..2");
  CHECK(plain({1, 1}, {}).empty());
  const auto judged = [&](std::vector<Token> tokens, Verdict verdict) {
    SpecDec decoder{target, ForeignDrafter{std::move(tokens)}, RogueJudge{{verdict}}};
    return message_of([&] { decoder.start(prompt, {.gamma = 2}).step(rng); });
  };
  using Complaint = std::function<std::string(std::vector<Token>, Verdict)>;
  for (const Complaint& complaint : {Complaint(plain), Complaint(judged)}) {
    CHECK(complaint({}, {1, 0}) == "specdec: the verifier accepted 1 of 0 drafted tokens");
    CHECK(complaint({}, {-1, 0}) == "specdec: the verifier accepted -1 of 0 drafted tokens");
    CHECK(complaint({1}, {2, 0}) == "specdec: the verifier accepted 2 of 1 drafted tokens");
    CHECK(complaint({1}, {0, 3}) == "specdec: verdict token[0] = 3 is outside the vocabulary 0..2");
    CHECK(complaint({1}, {1, -1}) == "specdec: verdict token[0] = -1 is outside the vocabulary 0..2");
    CHECK(complaint({1}, {1, 2}).empty());
  }
  // A token that the drafter alone knows may be proposed, but not accepted.
  CHECK(judged({0, 4}, {2, 0}) == "specdec: accepted[1] = 4 is outside the vocabulary 0..2");
  CHECK(judged({0, 4}, {1, 0}).empty());
  CHECK(judged({0, 5}, {1, 0}) == "specdec: draft[1] = 5 is outside the vocabulary 0..4");
}

TEST_CASE("a drafter too short for the live modifications is an error, not a bias") {
  std::mt19937_64 seed{5};
  LoopModel target = LoopModel::random(2, 1, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(2, 1, seed), script);
  std::mt19937_64 rng{1};
  for (int n = 0; n < 100; ++n) {
    script.lazy = false;
    auto sequence = decoder.start(prompt, {.max_new_tokens = 30, .gamma = 4});
    sequence.step(rng);
    const Index needed = sequence.verifier().min_draft_length();
    if (needed == 0) continue;
    script.lazy = true;
    CHECK_THROWS_AS(sequence.step(rng), std::invalid_argument);
    script.lazy = false;
    CHECK_NOTHROW(sequence.step(rng));
  }
}

TEST_CASE("sequences of one decoder may take turns without a word") {
  std::mt19937_64 seed{8};
  LoopModel target = LoopModel::random(4, 3, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(4, 3, seed), script);
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
  LoopModel target = LoopModel::random(4, 3, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(4, 3, seed), script);
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
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  Script script;
  Decoder decoder = scripted(target, small, script);
  Decoder fresh = scripted(LoopModel(target.table()), LoopModel(small.table()), script);
  const Options options{.max_new_tokens = 9, .gamma = 3, .stop_tokens = {3}};
  auto sequence = decoder.start(std::vector<Token>(100, 2), options);
  std::vector<Token> context;
  Index emitted = 0;
  for (std::mt19937_64::result_type turn = 0; turn < 40; ++turn) {
    std::mt19937_64 rng{turn}, twin{turn};
    target.fed() = small.fed() = 0;
    while (!sequence.done()) sequence.step(rng);
    if (turn > 0) {
      const Result expected =
          fresh.generate(context, {.max_new_tokens = 5, .gamma = 3, .stop_tokens = {3}}, twin);
      CHECK(copy(sequence.tokens()) == expected.tokens);
      CHECK(sequence.result().stop_reason == expected.stop_reason);
      CHECK(target.fed() <= 5 * 4 + 4);
      CHECK(small.fed() <= 5 * 4 + 4);
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
  LoopModel target = LoopModel::random(4, 3, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(4, 3, seed), script);
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
  LoopModel target = LoopModel::random(4, 3, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(4, 3, seed), script);
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
  LoopModel target = LoopModel::random(4, 1, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(4, 1, seed), script);
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

TEST_CASE("the context does not move while a drafter may hold views of it") {
  std::mt19937_64 seed{13};
  Script script;
  Decoder decoder = scripted(LoopModel::random(4, 2, seed), LoopModel::random(4, 2, seed), script);
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 200, .gamma = 3});
  while (!sequence.done()) {
    sequence.step(rng);
    CHECK(sequence.context().data() == script.seen);
  }
}

TEST_CASE("each moment of a step is in one time, and times add up") {
  using std::chrono::milliseconds;
  std::mt19937_64 seed{14};
  Script script{.draft_nap = milliseconds{20}, .verifier_nap = milliseconds{20}};
  Decoder decoder = scripted(LoopModel::random(4, 2, seed), LoopModel::random(4, 2, seed), script);
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 200, .gamma = 3});
  const auto start = std::chrono::steady_clock::now();
  for (int steps = 1; steps <= 2; ++steps) {
    sequence.step(rng);
    const Stats& stats = sequence.stats();
    CHECK(stats.draft_time >= steps * milliseconds{20});
    CHECK(stats.verify_time >= steps * milliseconds{20});
    CHECK(stats.draft_time + stats.target_time + stats.verify_time <=
          std::chrono::steady_clock::now() - start);
  }
}

TEST_CASE("a generation's statistics are consistent, times included") {
  std::mt19937_64 rng{1};
  Script script;
  Decoder decoder = scripted(LoopModel::random(5, 2, rng), LoopModel::random(5, 2, rng), script);
  const Stats s = decoder.generate(std::vector<Token>{0}, {.max_new_tokens = 200, .gamma = 5}, rng).stats;
  CHECK(s.emitted == 200);
  CHECK(s.emitted == s.accepted + s.target_calls);
  Index steps = 0, accepted = 0, drafted = 0, by_position = 0;
  for (std::size_t k = 0; k < s.accepted_lengths.size(); ++k) {
    steps += s.accepted_lengths[k];
    accepted += static_cast<Index>(k) * s.accepted_lengths[k];
  }
  for (std::size_t i = 0; i < s.drafted_by_position.size(); ++i) {
    drafted += s.drafted_by_position[i];
    by_position += s.accepted_by_position[i];
    CHECK(s.accepted_by_position[i] <= s.drafted_by_position[i]);
  }
  CHECK(steps == s.target_calls);
  CHECK(accepted == s.accepted);
  CHECK(drafted == s.drafted);
  CHECK(by_position == s.accepted);
  CHECK(s.draft_time.count() > 0);
  CHECK(s.target_time.count() > 0);
  CHECK(s.verify_time.count() > 0);
}

}  // namespace test_loop_generation

// Stepping by hand, and the state after a throw.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/audits/audited_drafter.hpp>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/lengths/cost_optimal_length.hpp>
#include <specdec/more/models/windowed.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_loop_sequence {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// The one model of this file, so that the loop is compiled once. It counts the tokens that it is fed, and fails at
// chosen calls, before or after taking the tokens in. Copies share their state, so a test can inspect a model that it
// gave away.
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
  const Token* seen = nullptr;  // the address of the context that the drafter saw
};

struct ScriptedDrafter {
  ModelDrafter<LoopModel> inner;
  Script* script;
  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    script->seen = context.data();
    std::this_thread::sleep_for(script->draft_nap);
    return inner.draft(context, {script->lazy ? 0 : gamma}, chance);
  }
  void observe(const auto& /*judged*/) {
    if (script->observer_fails) throw std::runtime_error("observer");
  }
  void truncate(Index length) { inner.truncate(length); }
};

// Greedy block verification, a rule with state.
struct ScriptedRule {
  GreedyBlockVerifier rule = {};
  Script* script = nullptr;
  Verdict judge(const auto& drafted, auto& chance) {
    const Verdict verdict = rule.judge(drafted, chance);
    if (script->verifier_fails) throw std::runtime_error("verifier");
    std::this_thread::sleep_for(script->verifier_nap);
    return verdict;
  }
  void commit() { rule.commit(); }
  Index min_draft_length() const { return rule.min_draft_length(); }
};

using Decoder = SpecDec<LoopModel, ScriptedDrafter, ScriptedRule>;
Decoder scripted(const LoopModel& target, const LoopModel& small, Script& script) {
  return Decoder{LoopModel(target), ScriptedDrafter{ModelDrafter{LoopModel(small)}, &script}, {{}, &script}};
}

// The decoders whose drafters, rules and lengths a test writes have one type, and so have the decoders that refer to
// their models.
struct DrafterByHand {
  std::function<std::vector<Token>(std::span<const Token>, Index)> propose;
  std::function<void(Index)> cut = [](Index) {};
  std::vector<Token> tokens = {};

  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) {
    tokens = propose(context, gamma);
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index length) { cut(length); }
};
DrafterByHand always(const std::vector<Token>& tokens) {
  return {[tokens](std::span<const Token>, Index) { return tokens; }};
}

// The given verdict, else that of a lossless rule.
struct RuleByHand {
  std::optional<Verdict> verdict = {};
  Verdict judge(const auto& drafted, auto& chance) const {
    return verdict ? *verdict : SampleMatchVerifier{}.judge(drafted, chance);
  }
};

// A draft length that asks for one token less each time.
struct Falling {
  Index wanted;
  Index next(Index most) { return std::min(most, wanted--); }
  void observe(const StepRecord&) const {}
};
struct Length {
  std::variant<FixedLength, Falling, CostOptimalLength<>> length = {};
  Index next(Index most) {
    return std::visit([most](auto& each) -> Index { return each.next(most); }, length);
  }
  void observe(const StepRecord& step) {
    std::visit([&step](auto& each) { each.observe(step); }, length);
  }
};

using ByHand = SpecDec<ExternalTarget, DrafterByHand, RuleByHand, Length>;
using Referring = SpecDec<LoopModel&, ModelDrafter<LoopModel&>, GreedyBlockVerifier>;

RowMajor<double> uniform(Index rows, Index vocab_size) {
  return RowMajor<double>::Constant(rows, vocab_size, 1.0 / static_cast<double>(vocab_size));
}

std::vector<Token> copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

const std::vector<Token> prompt{0, 1};

// The law of a decoder's text when every step fails once and is tried again.
Law law_with_retries(auto& decoder, bool& trip, const Options& options) {
  Law law;
  enumerate([&](Enumerator& chance) {
    auto sequence = decoder.start(prompt, options);
    while (!sequence.done()) {
      trip = true;
      CHECK_THROWS(sequence.step(chance));
      trip = false;
      sequence.step(chance);
    }
    law[copy(sequence.tokens())] += chance.probability();
  });
  return law;
}

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

TEST_CASE(
    "a sequence may generate in several calls, whatever ended the last one, and shows each token once") {
  std::mt19937_64 seed{1};
  LoopModel target = LoopModel::random(4, 2, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(4, 2, seed), script);
  const Options options{.max_new_tokens = 40, .gamma = 3};
  std::mt19937_64 rng{5}, twin{5};
  const std::vector<Token> expected = decoder.generate(prompt, options, twin).tokens;
  auto sequence = decoder.start(prompt, options);
  CHECK(sequence.generate(rng).tokens == expected);

  // A callback that throws at every call.
  rng.seed(5);
  sequence = decoder.start(prompt, options);
  std::vector<Token> told;
  const auto fails = [&](std::span<const Token> emitted) {
    told.insert(told.end(), emitted.begin(), emitted.end());
    throw std::runtime_error("callback");
  };
  while (!sequence.done()) {
    CHECK_THROWS_AS(sequence.generate(rng, fails), std::runtime_error);
    CHECK(told == copy(sequence.tokens()));
    CHECK(copy(target.context()) == copy(sequence.context().first(sequence.context().size() - 1)));
  }
  CHECK(told == expected);
  CHECK(sequence.generate(rng, fails).tokens == expected);

  // A callback that says no. After that, generate() finds the text complete until it is resumed.
  rng.seed(5);
  sequence = decoder.start(prompt, options);
  told.clear();
  const auto refuses = [&](std::span<const Token> emitted) {
    told.insert(told.end(), emitted.begin(), emitted.end());
    return false;
  };
  while (std::ssize(told) < 40) {
    const std::size_t before = told.size();
    const Result result = sequence.generate(rng, refuses);
    CHECK(told.size() > before);
    if (told.size() == 40) break;
    CHECK(result.stop_reason == StopReason::callback);
    CHECK(sequence.generate(rng, refuses).stop_reason == StopReason::callback);
    sequence.resume(sequence.context(), {.max_new_tokens = 40 - std::ssize(told), .gamma = 3});
  }
  CHECK(told == expected);
}

TEST_CASE("a sequence can be stopped, or released and continued") {
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
  first.pause();
  while (!first.done()) first.step(rng);
  CHECK(copy(first.tokens()) == expected);

  // The target is called by hand in between, which leaves other tokens in its context.
  rng.seed(6);
  auto third = decoder.start(prompt, options);
  third.step(rng);
  third.release();
  target.forward(std::vector<Token>{3, 3, 3}, 1);
  while (!third.done()) third.step(rng);
  CHECK(copy(third.tokens()) == expected);

  second.stop();
  CHECK(second.done());
  CHECK(second.result().stop_reason == StopReason::callback);
}

TEST_CASE("a throw leaves everything as before the step, and the step can be tried again") {
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
        // At the last token the drafter is asked for nothing, so it cannot fail.
        const bool asked = culprit != 1 || sequence.stats().emitted < 24;
        if (asked) CHECK_THROWS_AS(sequence.step(rng), std::runtime_error);
        trip = false;
        CHECK(copy(sequence.context()) == context);
        CHECK(copy(target.context()) == target_context);
        CHECK(small.context().size() <= context.size());  // no drafted token is left in the context
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
  // Every other target call fails. The joint law must still be the target's.
  std::mt19937_64 seed{4};
  LoopModel target(TableModel<>::random(2, 2, seed), true);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(2, 2, seed), script);
  const Options options{.max_new_tokens = 4, .gamma = 2};
  const Law law = law_with_retries(decoder, target.fail(), options);
  CHECK(largest_difference(law, target_law(target, prompt, options)).size < 1e-12);
}

namespace {

// Has a larger vocabulary than the target.
struct ForeignDrafter {
  std::vector<Token> tokens;
  RowMajor<double> rows = RowMajor<double>::Constant(std::ssize(tokens), 5, 0.2);
  Draft<const RowMajor<double>&> draft(std::span<const Token>, Index, auto&) { return {tokens, rows}; }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("the answers of a user's drafter or verifier are checked") {
  std::mt19937_64 rng{1};
  LoopModel target = LoopModel::random(3, 1, rng);
  const auto plain = [&](const std::vector<Token>& tokens, Verdict verdict) {
    ByHand decoder{ExternalTarget{3}, always(tokens), {verdict}};
    auto sequence = decoder.start(prompt, {.gamma = 2});
    return message_of([&] { sequence.accept(uniform(sequence.propose(rng).rows, 3), rng); });
  };
  CHECK(plain({0, 1, 2}, {}) == "specdec: the drafter proposed 3 tokens when asked for at most 2");
  CHECK(plain({0, 3}, {}) == "specdec: draft[1] = 3 is outside the vocabulary 0..2");
  CHECK(plain({-1}, {}) == "specdec: draft[0] = -1 is outside the vocabulary 0..2");
  CHECK(plain({1, 1}, {}).empty());
  const auto judged = [&](std::vector<Token> tokens, Verdict verdict) {
    SpecDec decoder{target, ForeignDrafter{std::move(tokens)}, RuleByHand{verdict}};
    auto sequence = decoder.start(prompt, {.gamma = 2});
    return message_of([&] { sequence.step(rng); });
  };
  using Complaint = std::function<std::string(std::vector<Token>, Verdict)>;
  for (const Complaint& complaint : {Complaint(plain), Complaint(judged)}) {
    CHECK(complaint({}, {1, 0}) ==
          "specdec: verdict.accepted = 1 is outside 0..0, the number of drafted tokens");
    CHECK(complaint({}, {-1, 0}) ==
          "specdec: verdict.accepted = -1 is outside 0..0, the number of drafted tokens");
    CHECK(complaint({1}, {2, 0}) ==
          "specdec: verdict.accepted = 2 is outside 0..1, the number of drafted tokens");
    CHECK(complaint({1}, {0, 3}) == "specdec: verdict.token = 3 is outside the vocabulary 0..2");
    CHECK(complaint({1}, {1, -1}) == "specdec: verdict.token = -1 is outside the vocabulary 0..2");
    CHECK(complaint({1}, {1, 2}).empty());
  }
  // A token that only the drafter knows may be proposed, but not accepted.
  CHECK(judged({0, 4}, {2, 0}) == "specdec: the accepted tokens[1] = 4 is outside the vocabulary 0..2");
  CHECK(judged({0, 4}, {1, 0}).empty());
  CHECK(judged({0, 5}, {1, 0}) == "specdec: draft[1] = 5 is outside the vocabulary 0..4");
}

TEST_CASE("a draft too short for the live modifications is an error, not a bias") {
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

TEST_CASE("sequences of one decoder may take turns without being released") {
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

TEST_CASE("after a release of one sequence, another that had used the models still goes on correctly") {
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
    paused.pause();
  }
  CHECK(copy(sequence.tokens()) == expected);
}

TEST_CASE("a sequence resumed from a context writes what a fresh one would, and feeds only new tokens") {
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
    if (turn % 3 == 1) {  // the last tokens are replaced by others
      const Token last = context.back();
      context.resize(context.size() - 2);
      for (const Token x : {2, 1, 2, 1}) context.push_back((last + x) % 3);
    }
    if (turn % 3 == 0) context.push_back(static_cast<Token>(turn % 4));
    sequence.resume(context, {.max_new_tokens = 5, .gamma = 3, .stop_tokens = {3}});
    CHECK(sequence.tokens().empty());
    CHECK(copy(sequence.context()) == context);
    CHECK(sequence.verifier().min_draft_length() ==
          0);  // only the tokens of a finished text are kept, not the rule's memory
  }
}

TEST_CASE("a sequence may be resumed from a part of its own context, with new options") {
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

TEST_CASE("a sequence has the words of a batch: a turn, a fork, a pause, a cancel") {
  std::mt19937_64 seed{12};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  Script script;
  Decoder decoder = scripted(target, small, script);
  const Options options{.max_new_tokens = 12, .gamma = 3};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, options);
  auto before = sequence.fork({{.max_new_tokens = 6, .gamma = 2}});
  while (std::ssize(sequence.tokens()) < 3) sequence.step(rng);
  const auto text = copy(sequence.context());
  CHECK(message_of<InvalidCall>([&] { sequence.fork(); }) ==
        "specdec: sequence 0 has begun under a rule that remembers it, so its forks would not be independent "
        "samples: "
        "fork it before its first step, or use specdec::BlockVerifier");

  // A turn is the text and what follows it. The models read only what is new.
  target.fed() = 0;
  sequence.add_turn(std::vector<Token>{2, 1}, options);
  auto longer = text;
  longer.insert(longer.end(), {2, 1});
  CHECK(copy(sequence.context()) == longer);
  CHECK(sequence.tokens().empty());
  CHECK(message_of([&] {
          sequence.add_turn(std::vector<std::int64_t>{1, std::int64_t{1} << 32}, options);
        }) == "specdec: text[1] = 4294967296 is no token");
  CHECK(copy(sequence.context()) == longer);
  std::mt19937_64 twin = rng;
  sequence.step(rng);
  CHECK(target.fed() <= 3 + 3);
  sequence.generate(rng);
  CHECK(copy(sequence.tokens()) == decoder.generate(longer, options, twin).tokens);

  // The fork has its own options and statistics, and goes on where the text was.
  rng.seed(5), twin.seed(5);
  CHECK(before.generate(rng).tokens ==
        decoder.generate(prompt, {.max_new_tokens = 6, .gamma = 2}, twin).tokens);
  auto late = sequence.fork();
  CHECK(late.stats().emitted == 0);
  CHECK(copy(late.context()) == copy(sequence.context()));
  late.add_turn(std::vector<Token>{3}, options);
  late.step(rng);
  late.pause();
  target.fed() = 0;
  late.step(rng);
  CHECK(target.fed() > std::ssize(sequence.context()));
  const Result cancelled = late.cancel();
  CHECK(late.done());
  CHECK(cancelled.stop_reason == StopReason::callback);
  CHECK(cancelled.stats.emitted == std::ssize(cancelled.tokens));
  CHECK(sequence.cancel().stop_reason == StopReason::length);  // it had ended
}

TEST_CASE("an engine is told where its context goes on after resume() and after pause()") {
  ByHand decoder{ExternalTarget{.vocabulary = 4}, always({1, 2}), RuleByHand{Verdict{2, 3}}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 40, .gamma = 2});
  const auto step = [&](Index from, const std::vector<Token>& tokens) {
    CHECK(sequence.kept() == from);
    const Feed feed = sequence.propose(rng);
    CHECK(feed.from == from);
    CHECK(copy(feed.tokens) == tokens);
    CHECK(feed.rows == 3);
    CHECK(sequence.kept_path().empty());  // nothing of this Feed yet
    sequence.accept(uniform(3, 4), rng);
  };
  step(0, {0, 1, 1, 2});
  step(4, {3, 1, 2});
  // The last token is fed again, for its row: after a part of the text, and after a part with another end.
  sequence.resume(std::vector<Token>{0, 1, 1, 2}, {.max_new_tokens = 40, .gamma = 2});
  step(3, {2, 1, 2});
  sequence.resume(std::vector<Token>{0, 1, 1, 3}, {.max_new_tokens = 40, .gamma = 2});
  step(3, {3, 1, 2});
  sequence.pause();
  step(0, {0, 1, 1, 3, 1, 2, 3, 1, 2});
}

TEST_CASE("half a stop string at the end of a text does not count after resume()") {
  ByHand decoder{ExternalTarget{.vocabulary = 4}, always({}), RuleByHand{}};
  std::mt19937_64 rng{1};
  const Options options{.max_new_tokens = 1, .gamma = 0, .stop_strings = {{"ab"}, [](Token x) {
                                                                            return std::string(1, "abcd"[x]);
                                                                          }}};
  auto sequence = decoder.start(prompt, options);
  const auto write = [&](Token x) {
    sequence.propose(rng);
    RowMajor<double> row = RowMajor<double>::Zero(1, 4);
    row(0, x) = 1;
    sequence.accept(row, rng);
  };
  write(0);
  CHECK(sequence.result().stop_reason == StopReason::length);
  Options more = options;
  more.max_new_tokens = 9;
  sequence.resume(sequence.context(), more);
  write(1);
  CHECK_FALSE(sequence.done());
  write(0);
  write(1);
  CHECK(sequence.result().stop_reason == StopReason::stop_string);
  CHECK(sequence.result().stop_match == StopMatch{0, 1, 3});
}

TEST_CASE("a resumed sequence feeds everything again if another sequence has used its models") {
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
  CHECK(target.context().size() >= 10);  // the other sequence's tokens
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

TEST_CASE("the context does not move in memory while a drafter may hold views of it") {
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

TEST_CASE("each moment of a step is counted in one time, and times add up") {
  using std::chrono::milliseconds;
  std::mt19937_64 seed{14};
  Script script{.draft_nap = milliseconds{20}, .verifier_nap = milliseconds{20}};
  Decoder decoder = scripted(LoopModel::random(4, 2, seed), LoopModel::random(4, 2, seed), script);
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 200, .gamma = 3});
  const auto start = std::chrono::steady_clock::now();
  for (int steps = 1; steps <= 4; ++steps) {
    const auto draft_time = sequence.stats().draft_time, verify_time = sequence.stats().verify_time;
    sequence.step(rng);
    const Stats& stats = sequence.stats();
    CHECK(stats.draft_time >= draft_time + milliseconds{20});
    CHECK(stats.verify_time >= verify_time + milliseconds{20});
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

namespace {

// A table's rows as logits, as an engine has them.
struct LogitsOfTable {
  TableModel<double> table;
  Eigen::MatrixXd logits = {};
  Index vocab_size() const { return table.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    logits = (table.forward(tokens, rows).array() + 1e-3).log().matrix();
    return logits;
  }
  void truncate(Index length) { table.truncate(length); }
};

}  // namespace

// ---- Half steps ----

namespace {

// One target call by hand on a test's model, as the feed asks.
template <class S>
std::span<const Token> half_steps(S& sequence, LoopModel& engine, std::mt19937_64& rng) {
  const Feed feed = sequence.propose(rng);
  engine.truncate(feed.from);
  const auto& rows = engine.forward(feed.tokens, feed.rows);
  const auto emitted = sequence.accept(rows, rng);
  engine.truncate(sequence.kept());
  return emitted;
}

// A decoder with a target that the test calls.
using Outside = SpecDec<ExternalTarget, ScriptedDrafter, ScriptedRule>;
Outside outside(const LoopModel& small, Script& script) {
  return Outside{ExternalTarget{small.vocab_size()},
                 ScriptedDrafter{ModelDrafter{LoopModel(small)}, &script},
                 {{}, &script}};
}

// A separate model over the same table.
LoopModel twin(const LoopModel& model) { return LoopModel(model.table()); }

std::vector<Token> finish(auto& sequence, std::mt19937_64& rng) {
  while (!sequence.done()) sequence.step(rng);
  return copy(sequence.tokens());
}

}  // namespace

TEST_CASE("sequences side by side, with calls made by the engine, write what each writes alone") {
  std::mt19937_64 seed{21};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  Script script;
  const Options options{.max_new_tokens = 30, .gamma = 3, .stop_tokens = {3}};
  constexpr std::size_t count = 5;
  std::vector<LoopModel> engines;
  std::list<Outside> decoders;
  std::vector<Outside::Sequence> sequences;
  std::vector<std::mt19937_64> rng;
  for (std::size_t k = 0; k < count; ++k) {
    engines.push_back(twin(target));
    decoders.emplace_back(ExternalTarget{4}, ScriptedDrafter{ModelDrafter{twin(small)}, &script},
                          ScriptedRule{{}, &script});
    sequences.push_back(decoders.back().start(std::vector<Token>{0, static_cast<Token>(k % 4)}, options));
    rng.emplace_back(k);
  }
  const auto done = [](const auto& sequence) { return sequence.done(); };
  while (!std::all_of(sequences.begin(), sequences.end(), done)) {
    std::vector<Feed> feeds;
    for (std::size_t k = 0; k < count; ++k) feeds.push_back(sequences[k].propose(rng[k]));
    for (std::size_t k = 0; k < count; ++k) {
      if (feeds[k].rows == 0) {
        CHECK(sequences[k].done());
        CHECK(feeds[k].tokens.empty());
        CHECK(feeds[k].from == sequences[k].kept());
        CHECK(sequences[k].accept(RowMajor<double>(0, 4), rng[k]).empty());
        continue;
      }
      CHECK(std::ssize(engines[k].context()) == feeds[k].from);
      const auto& rows = engines[k].forward(feeds[k].tokens, feeds[k].rows);
      sequences[k].accept(rows, rng[k]);
      engines[k].truncate(sequences[k].kept());
    }
  }
  Decoder decoder = scripted(target, small, script);
  for (std::size_t k = 0; k < count; ++k) {
    std::mt19937_64 alone{k};
    const Result expected =
        decoder.generate(std::vector<Token>{0, static_cast<Token>(k % 4)}, options, alone);
    const Result found = sequences[k].result();
    CHECK(found.tokens == expected.tokens);
    CHECK(found.stop_reason == expected.stop_reason);
    CHECK(found.stats.target_calls == expected.stats.target_calls);
    CHECK(found.stats.accepted == expected.stats.accepted);
    CHECK(found.stats.draft_time.count() > 0);
    CHECK(found.stats.target_time.count() > 0);
    CHECK(found.stats.verify_time.count() > 0);
  }
}

TEST_CASE("a proposal that is never accepted is forgotten") {
  std::mt19937_64 seed{22};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  Script script;
  Outside decoder = outside(small, script);
  // Both models are back where they were before the lost proposal. So a retry with equal random numbers makes the same
  // proposal.
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 40, .gamma = 3});
  while (!sequence.done()) {
    const auto context = copy(sequence.context());
    std::mt19937_64 again = rng;
    const auto lost = copy(sequence.propose(rng).tokens);
    CHECK(copy(sequence.context()) == context);
    CHECK(copy(sequence.propose(again).tokens) == lost);
    sequence.propose(rng);
    half_steps(sequence, target, rng);
  }
  CHECK(sequence.tokens().size() == 40);
  CHECK(sequence.stats().target_calls + sequence.stats().accepted == 40);
}

TEST_CASE("a target is fed token 0 in place of drafted tokens that it does not know") {
  Script script;
  const LoopModel small(TableModel<>::context_free(Eigen::RowVector4d(0, 0, 0, 1)));
  Outside decoder{ExternalTarget{2}, ScriptedDrafter{ModelDrafter{LoopModel(small)}, &script}, {{}, &script}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 9, .gamma = 3});
  CHECK(copy(sequence.propose(rng).tokens) == std::vector<Token>{0, 1, 0, 0, 0});
}

TEST_CASE("half steps out of order are errors that lose nothing") {
  std::mt19937_64 seed{23};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  Script script;
  Outside decoder = outside(small, script);
  std::mt19937_64 rng{1}, twin_rng{1};
  const Options options{.max_new_tokens = 20, .gamma = 3};
  const auto complaint = [](auto&& f) { return message_of<InvalidCall>(f); };
  auto sequence = decoder.start(prompt, options);
  const RowMajor<double> rows = uniform(4, 4);
  CHECK(complaint([&] { sequence.accept(rows, rng); }) ==
        "specdec: there is no proposal to judge: propose() first");
  sequence.propose(rng);
  CHECK(message_of([&] { sequence.accept(uniform(3, 4), rng); }) ==
        "specdec: target has 3 rows, expected gamma + 1 = 4");
  CHECK_FALSE(complaint([&] { sequence.accept(rows, rng); }).empty());  // that proposal is no longer open
  sequence.propose(rng);
  RowMajor<double> wide = RowMajor<double>::Zero(4, 9);
  wide.col(8).setConstant(1);
  CHECK(message_of([&] { sequence.accept(wide, rng); }) ==
        "specdec: verdict.token = 8 is outside the vocabulary 0..3");
  CHECK(sequence.tokens().empty());
  CHECK(sequence.stats().target_calls == 0);
  rng = twin_rng;
  while (!sequence.done()) half_steps(sequence, target, rng);
  Decoder plain = scripted(twin(target), small, script);
  CHECK(copy(sequence.tokens()) == plain.generate(prompt, options, twin_rng).tokens);

  auto first = decoder.start(prompt, options), second = decoder.start(prompt, options);
  first.propose(rng);
  second.propose(rng);
  CHECK(complaint([&] {
          first.accept(rows, rng);
        }).starts_with("specdec: the drafter, or a model that it refers to, was used elsewhere"));
  second.accept(rows, rng);
  first.propose(rng);
  auto copied = first;  // the proposal stays with the original
  CHECK(complaint([&] { copied.accept(rows, rng); }) ==
        "specdec: there is no proposal to judge: propose() first");
  first.accept(rows, rng);
  CHECK(complaint([&] { first.accept(rows, rng); }) ==
        "specdec: there is no proposal to judge: propose() first");
  CHECK(first.stats().target_calls == 1);
}

TEST_CASE("a drafter is told when its proposal was lost") {
  // The context that the drafter is shown extends what survived of its last draft.
  Index held = 0;
  const auto propose = [&](std::span<const Token> context, Index gamma) {
    CHECK(held <= std::ssize(context));
    held = std::ssize(context) + gamma;
    return std::vector<Token>(static_cast<std::size_t>(gamma), 0);
  };
  ByHand decoder{ExternalTarget{4}, {propose, [&](Index length) { held = std::min(held, length); }}, {}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 40, .gamma = 3});
  for (int n = 0; n < 9; ++n) {
    sequence.propose(rng);
    sequence.propose(rng);
    CHECK_FALSE(message_of([&] { sequence.accept(uniform(1, 4), rng); }).empty());
    const Feed feed = sequence.propose(rng);
    sequence.accept(uniform(feed.rows, 4), rng);
  }
}

TEST_CASE("a rule's memory is kept when a text is resumed unchanged, and only then") {
  std::mt19937_64 seed{30};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  Referring decoder{target, ModelDrafter{small}, GreedyBlockVerifier{}};
  std::mt19937_64 rng{1};
  const Options options{.max_new_tokens = 100, .gamma = 5};
  auto sequence = decoder.start(prompt, options);
  while (sequence.verifier().modifications().empty()) sequence.step(rng);
  const GreedyBlockVerifier before = sequence.verifier();
  REQUIRE_FALSE(sequence.done());
  sequence.resume(copy(sequence.context()), options);
  CHECK(sequence.verifier() == before);
  sequence.cancel();
  sequence.resume(copy(sequence.context()), options);
  CHECK(sequence.verifier() == before);
  auto longer = copy(sequence.context());
  longer.push_back(0);
  sequence.resume(longer, options);
  CHECK(sequence.verifier() == GreedyBlockVerifier{});
}

TEST_CASE("step() and half steps may take turns") {
  std::mt19937_64 seed{24};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  Script script;
  Decoder decoder = scripted(target, small, script);
  const Options options{.max_new_tokens = 30, .gamma = 3};
  std::mt19937_64 rng{1}, twin_rng{1};
  const auto expected = decoder.generate(prompt, options, twin_rng).tokens;
  auto sequence = decoder.start(prompt, options);
  for (int n = 0; !sequence.done(); ++n)
    if (n % 2 == 0) sequence.step(rng);
    else half_steps(sequence, target, rng);
  CHECK(copy(sequence.tokens()) == expected);
}

TEST_CASE("a context that the caller has filled is used as it is") {
  std::mt19937_64 seed{25};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  Script script;
  Decoder decoder = scripted(target, small, script);
  const Options options{.max_new_tokens = 12, .gamma = 3};
  const std::vector<Token> text{0, 1, 2, 3, 2, 1};
  for (const Index seen : {0, 1, 5, 6}) {
    CAPTURE(seen);
    std::mt19937_64 rng{1}, alone{1}, half{1};
    const auto expected = decoder.generate(text, options, alone).tokens;
    const auto fill = [&] {
      target.truncate(0);
      if (seen > 0) target.forward(std::span(text).first(static_cast<std::size_t>(seen)), 1);
    };
    fill();
    auto sequence = decoder.start(text, options, {.cached = seen});
    CHECK(sequence.kept() == std::min<Index>(seen, 5));
    target.fed() = 0;
    sequence.step(rng);
    CHECK(target.fed() == 6 - std::min<Index>(seen, 5) + 3);
    CHECK(finish(sequence, rng) == expected);

    fill();
    Outside other = outside(small, script);
    auto outer = other.start(text, options, {.cached = seen});
    while (!outer.done()) half_steps(outer, target, half);
    CHECK(copy(outer.tokens()) == expected);
  }
  std::mt19937_64 rng{1};
  CHECK(message_of([&] { decoder.start(text, options, {.cached = 7}); }) ==
        "specdec: cached = 7 is outside 0..6, the length of the prompt");
  CHECK(message_of([&] { decoder.start(text, options, {.cached = -1}); }) ==
        "specdec: cached = -1 is outside 0..6, the length of the prompt");
  auto full = decoder.start(text, options, {.cached = 3});
  CHECK(message_of<InvalidCall>([&] { full.pause(); }) ==
        "specdec: a context that the caller had filled cannot be released");
  full.resume(std::vector<Token>{0, 1, 3}, options);  // of which the caller has filled in the first two
  CHECK_THROWS_AS(full.pause(), InvalidCall);
  full.resume(std::vector<Token>{3, 1}, options);  // and nothing of this
  full.pause();
  std::mt19937_64 after{2}, afresh{2};
  CHECK(finish(full, after) == decoder.generate(std::vector<Token>{3, 1}, options, afresh).tokens);
  SpecDec windowed{Windowed{TableModel<>(target.table()), 1, 4}, NoDrafter{}};
  const std::string unknown =
      "specdec: cached = 3, but the target keeps a context of its own: it does not know tokens that the "
      "model "
      "inside was fed directly";
  CHECK(message_of([&] { windowed.start(text, options, {.cached = 3}); }) == unknown);
  // The caller's context may hold more than the ids say (an image, say), so the loop does not feed it again.
  auto filled = decoder.start(text, options, {.cached = 3});
  auto other = decoder.start(prompt, options);
  other.step(rng);
  CHECK(message_of<InvalidCall>([&] { filled.step(rng); }) ==
        "specdec: the target's context, which the caller had filled, was used in between, by another "
        "sequence or by "
        "propose()");
}

TEST_CASE("hooks, processors and paths are shown the tokens of a context that the caller has filled") {
  std::mt19937_64 seed{27};
  LoopModel engine = LoopModel::random(5, 2, seed);  // its probabilities serve as logits
  const std::vector<Token> text{0, 1, 2, 3, 4, 1, 0};
  const Options options{.max_new_tokens = 12, .gamma = 3};
  // The text after a context of the first `seen` tokens, which was filled behind the target's back.
  const auto check = [&](auto&& target) {
    SpecDec decoder{target, PromptLookupDrafter{}, BlockVerifier{}};
    for (const Index seen : {0, 1, 6, 7}) {
      CAPTURE(seen);
      std::mt19937_64 rng{1}, alone{1};
      const auto expected = decoder.generate(text, options, alone).tokens;
      decoder.generate(std::vector<Token>{4, 4}, {.max_new_tokens = 1}, alone);
      engine.truncate(0);
      if (seen > 0) engine.forward(std::span(text).first(static_cast<std::size_t>(seen)), 1);
      auto sequence = decoder.start(text, options, {.cached = seen});
      engine.fed() = 0;
      sequence.step(rng);
      CHECK(engine.fed() >= 7 - std::min<Index>(seen, 6));
      CHECK(engine.fed() <= 7 - std::min<Index>(seen, 6) + 3);
      CHECK(finish(sequence, rng) == expected);
    }
  };
  const auto hook = [](std::span<const Token> context, Eigen::Ref<Eigen::RowVectorXd> logits) {
    for (std::size_t i = 0; i < context.size(); ++i) logits[context[i]] -= .2 * static_cast<double>(i);
  };
  const Chain chain{Temperature{.8}};
  check(ProcessedModel{engine, chain, hook});
#ifndef SPECDEC_TEST_SOME
  const Processors penalties{RepetitionPenalty{1.5}, FrequencyPenalty{.5}};
  check(ProcessedModel{PathByPath{engine}, chain, penalties});
  check(PathByPath{ProcessedModel{engine, chain, penalties}});
#endif
}

// ---- One model, several users ----

TEST_CASE("copies of a sequence go on independently") {
  std::mt19937_64 seed{26};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  Script script;
  Decoder decoder = scripted(target, small, script);
  const Options options{.max_new_tokens = 24, .gamma = 3};
  std::mt19937_64 rng{3};
  auto original = decoder.start(prompt, options);
  for (int n = 0; n < 3; ++n) original.step(rng);
  std::mt19937_64 a = rng, b{77}, a_alone = rng, b_alone{77};
  auto alone = original;
  const auto expected_a = finish(alone, a_alone);
  alone = original;
  const auto expected_b = finish(alone, b_alone);
  auto copied = original;
  while (!original.done() || !copied.done()) {
    original.step(a);
    copied.step(b);
  }
  CHECK(copy(original.tokens()) == expected_a);
  CHECK(copy(copied.tokens()) == expected_b);

  auto moved = decoder.start(prompt, options);
  std::mt19937_64 c{5}, c_alone{5};
  moved.step(c);
  target.fed() = 0;
  auto to = std::move(moved);
  to.step(c);
  CHECK(target.fed() <= 4);  // no token is fed twice
  CHECK(finish(to, c) == decoder.generate(prompt, options, c_alone).tokens);

  auto proposed = decoder.start(prompt, options);
  proposed.propose(c);
  auto twice = proposed;
  const RowMajor<double> rows = uniform(4, 4);
  CHECK_THROWS_AS(twice.accept(rows, c), InvalidCall);  // a draft is drawn once, so it is accepted once
  proposed.accept(rows, c);
  CHECK(proposed.stats().target_calls == 1);
}

TEST_CASE("decoders that refer to one target, or to one drafter, may take turns") {
  std::mt19937_64 seed{27};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  const Options options{.max_new_tokens = 24, .gamma = 3};
  const std::vector<Token> other{3, 2, 1};
  LoopModel target_twin = twin(target), small_twin = twin(small);
  const auto expected = [&](const std::vector<Token>& text, std::uint64_t number) {
    LoopModel target_alone = twin(target), small_alone = twin(small);
    Referring alone{target_alone, ModelDrafter{small_alone}, GreedyBlockVerifier{}};
    std::mt19937_64 rng{number};
    return alone.generate(text, options, rng).tokens;
  };
  const std::vector<Token> expected_first = expected(prompt, 1), expected_second = expected(other, 2);
  const auto check = [&](auto& first, auto& second) {
    std::mt19937_64 a{1}, b{2};
    auto x = first.start(prompt, options);
    auto y = second.start(other, options);
    while (!x.done() || !y.done()) {
      x.step(a);
      y.step(b);
    }
    CHECK(copy(x.tokens()) == expected_first);
    CHECK(copy(y.tokens()) == expected_second);
  };
  {
    Referring first{target, ModelDrafter{small}, GreedyBlockVerifier{}};
    Referring second{target, ModelDrafter{small_twin}, GreedyBlockVerifier{}};
    check(first, second);
  }
  {
    ModelDrafter drafter{twin(small)};
    SpecDec first{twin(target), drafter, GreedyBlockVerifier{}},
        second{twin(target), drafter, GreedyBlockVerifier{}};
    check(first, second);
  }
  {
    Referring first{target, ModelDrafter{small}, GreedyBlockVerifier{}};
    Referring second{target_twin, ModelDrafter{small}, GreedyBlockVerifier{}};
    check(first, second);
  }
}

namespace {

// One sequence of a decoder with a target that a test calls.
struct Half {
  std::function<Index(std::mt19937_64&)> propose;  // returns the number of rows wanted
  std::function<void(Index, std::mt19937_64&)> accept;
};
template <class Drafter>
using HalfDecoder = SpecDec<ExternalTarget, Drafter, SampleMatchVerifier>;
template <class Drafter>
HalfDecoder<Drafter> drafting_by(Drafter&& drafter) {
  return {ExternalTarget{4}, std::forward<Drafter>(drafter)};
}
template <class Drafter>
Half half_of(HalfDecoder<Drafter>& decoder) {
  const auto sequence =
      std::make_shared<typename HalfDecoder<Drafter>::Sequence>(decoder.start(prompt, {.gamma = 3}));
  return {[sequence](std::mt19937_64& rng) { return sequence->propose(rng).rows; },
          [sequence](Index rows, std::mt19937_64& rng) { sequence->accept(uniform(rows, 4), rng); }};
}

// Drafters that overwrite each other's drafts: the overwritten proposal is lost, and accept() says so.
void check_overwritten(const Half& one, const Half& other) {
  std::mt19937_64 rng{3};
  const Index rows = one.propose(rng);
  const Index other_rows = other.propose(rng);
  CHECK_THROWS_AS(one.accept(rows, rng), InvalidCall);
  CHECK_NOTHROW(other.accept(other_rows, rng));
}

}  // namespace

TEST_CASE("wrappers held by value know that they share the model that they wrap") {
  std::mt19937_64 seed{33};
  const auto table = TableModel<>::random(4, 3, seed), small = TableModel<>::random(4, 3, seed);
  const Options options{.max_new_tokens = 20, .gamma = 3};
  LogitsOfTable engine{table}, apart{table}, first_small{small}, second_small{small}, small_apart{small};
  const auto wrapped = [](LogitsOfTable& model) { return ProcessedModel{model, Chain{Temperature{1}}}; };
  const SampleMatchVerifier rule;
  SpecDec first{wrapped(engine), ModelDrafter{wrapped(first_small)}, rule};
  SpecDec second{wrapped(engine), ModelDrafter{wrapped(second_small)}, rule};
  SpecDec alone{wrapped(apart), ModelDrafter{wrapped(small_apart)}, rule};
  std::mt19937_64 a{1}, b{2}, a_alone{1}, b_alone{2};
  auto x = first.start(prompt, options), y = second.start(prompt, options);
  while (!x.done() || !y.done()) {
    x.step(a);
    y.step(b);
  }
  CHECK(copy(x.tokens()) == alone.generate(prompt, options, a_alone).tokens);
  CHECK(copy(y.tokens()) == alone.generate(prompt, options, b_alone).tokens);
  SpecDec itself{wrapped(engine), ModelDrafter{wrapped(engine)}, rule};
  CHECK_THROWS_AS(itself.generate(prompt, options, a), InvalidCall);

  const auto check = [](auto&& left, auto&& right) {
    auto left_decoder = drafting_by(std::move(left)), right_decoder = drafting_by(std::move(right));
    check_overwritten(half_of(left_decoder), half_of(right_decoder));
  };
  StableModel stable{small};
  check(ModelDrafter{stable}, ModelDrafter{stable});
#ifndef SPECDEC_TEST_SOME
  check(CascadeDrafter{stable, NoDrafter{}, rule, 4}, CascadeDrafter{stable, NoDrafter{}, rule, 4});
  ModelDrafter drafter{LoopModel(small)};
  check(FallbackDrafter{PromptLookupDrafter{}, drafter}, FallbackDrafter{PromptLookupDrafter{}, drafter});
  check(AuditedDrafter{drafter}, AuditedDrafter{drafter});
#endif
}

TEST_CASE("a step on a target that is also called by hand feeds the target anew") {
  std::mt19937_64 seed{34};
  LoopModel target = LoopModel::random(4, 3, seed), small = LoopModel::random(4, 3, seed);
  const Options options{.max_new_tokens = 24, .gamma = 3};
  const std::vector<Token> other{3, 2, 1};
  LoopModel small_by_hand = twin(small), target_alone = twin(target), small_alone = twin(small);
  Referring decoder{target, ModelDrafter{small}, GreedyBlockVerifier{}};
  Referring by_hand{target, ModelDrafter{small_by_hand}, GreedyBlockVerifier{}};
  Referring alone{target_alone, ModelDrafter{small_alone}, GreedyBlockVerifier{}};
  std::mt19937_64 a{1}, a_alone{1}, b{2};
  auto x = decoder.start(prompt, options), y = by_hand.start(other, options);
  while (!x.done()) {
    x.step(a);
    const Feed feed = y.propose(b);
    target.truncate(0);  // the caller feeds all of its text again
    const std::vector<Token> text = copy(y.context().first(static_cast<std::size_t>(feed.from)));
    if (!text.empty()) target.forward(text, 1);
    if (feed.rows > 0) y.accept(target.forward(feed.tokens, feed.rows), b);
  }
  CHECK(copy(x.tokens()) == alone.generate(prompt, options, a_alone).tokens);
}

namespace {

// Refers to a drafter, and declares it.
struct Pointing {
  ModelDrafter<LoopModel>* drafter;
  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    return drafter->draft(context, {gamma}, chance);
  }
  void truncate(Index length) { drafter->truncate(length); }
  std::vector<const void*> identities() const { return specdec::identities(*drafter); }
};

// The error message of a first decoder after a second one has used the part that they share.
std::string said_after(const Half& first, const std::function<void(std::mt19937_64&)>& use_the_other) {
  std::mt19937_64 rng{1};
  // No error when used alone.
  CHECK(message_of<InvalidCall>([&] { first.accept(first.propose(rng), rng); }).empty());
  const Index rows = first.propose(rng);
  use_the_other(rng);
  return message_of<InvalidCall>([&] { first.accept(rows, rng); });
}

}  // namespace

TEST_CASE("a proposal is lost when another user touches anything that it depends on") {
  std::mt19937_64 seed{28};
  const auto table = TableModel<>::random(4, 3, seed);
  const auto said_after_the_other = [](auto& first, auto& other) {
    return said_after(half_of(first), half_of(other).propose);
  };
  const std::string_view lost = "specdec: the drafter, or a model that it refers to, was used elsewhere";

  // The rows of a model that keeps its own, which is another decoder's target.
  StableModel stable{table};
  auto drafting = drafting_by(ModelDrafter{stable});
  SpecDec stepping{stable, NoDrafter{}, SampleMatchVerifier{}};
  CHECK(said_after(half_of(drafting), [&](std::mt19937_64& rng) {
          auto sequence = stepping.start(prompt, {.gamma = 3});
          sequence.step(rng);
        }).starts_with(lost));
  CHECK(said_after(half_of(drafting), [&](std::mt19937_64& rng) {
          auto sequence = stepping.start(prompt, {.gamma = 3});
          sequence.propose(rng);
        }).starts_with(lost));

#ifndef SPECDEC_TEST_SOME
  // Wrappers by value around one model.
  LogitsOfTable logits{table};
  auto one = drafting_by(ModelDrafter{ProcessedModel{logits, Chain{Temperature{1}}}});
  auto other = drafting_by(ModelDrafter{ProcessedModel{logits, Chain{Temperature{0.5}}}});
  CHECK(said_after_the_other(one, other).starts_with(lost));
#endif

  // Any member of a chain, in any order, also under an audit.
  ModelDrafter drafter{LoopModel(table)};
  PromptLookupDrafter lookup;
  auto chained = drafting_by(FallbackDrafter{lookup, drafter});
  auto alone = drafting_by(drafter);
  CHECK(said_after_the_other(chained, alone).starts_with(lost));
  CHECK(said_after_the_other(alone, chained).starts_with(lost));
#ifndef SPECDEC_TEST_SOME
  auto turned = drafting_by(FallbackDrafter{drafter, lookup});
  auto audited = drafting_by(AuditedDrafter{FallbackDrafter{lookup, drafter}});
  auto looking = drafting_by(lookup);
  CHECK(said_after_the_other(turned, looking).starts_with(lost));
  CHECK(said_after_the_other(audited, turned).starts_with(lost));
  CHECK(said_after_the_other(alone, looking).empty());
#endif

  // A user's drafter that points at another drafter.
  ModelDrafter pointed{LoopModel::random(4, 3, seed)};
  auto a = drafting_by(Pointing{&pointed}), b = drafting_by(Pointing{&pointed});
  CHECK(said_after_the_other(a, b).starts_with(lost));
}

TEST_CASE("target rows over fewer tokens than the target's vocabulary are refused") {
  ByHand decoder{ExternalTarget{.vocabulary = 3}, always({}), {}};
  auto sequence = decoder.start(prompt, {});
  std::mt19937_64 rng{1};
  const auto accept = [&](Index size) {
    sequence.propose(rng);
    return message_of([&] { sequence.accept(uniform(1, size), rng); });
  };
  CHECK(accept(2) == "specdec: the target's rows are over 2 tokens, fewer than its vocabulary of 3");
  CHECK(sequence.stats().target_calls == 0);
  CHECK(accept(3).empty());
}

TEST_CASE("a sequence that was moved from has no tokens") {
  ByHand decoder{ExternalTarget{.vocabulary = 3}, always({}), {}};
  auto sequence = decoder.start(prompt, {});
  const auto moved = std::move(sequence);
  CHECK(sequence.tokens().empty());  // NOLINT: use after move is intended
  CHECK(moved.context().size() == prompt.size());
}

TEST_CASE("a target that is its own draft model is refused") {
  std::mt19937_64 seed{28};
  LoopModel model = LoopModel::random(4, 3, seed);
  Referring decoder{model, ModelDrafter{model}, GreedyBlockVerifier{}};
  std::mt19937_64 rng{1};
  for (int n = 0; n < 2; ++n)
    CHECK(message_of<InvalidCall>([&] { decoder.generate(prompt, {.max_new_tokens = 9}, rng); }) ==
          "specdec: the drafter has used the target itself: give each a model of its own");
}

static_assert(!std::is_copy_constructible_v<Decoder> && std::is_move_constructible_v<Decoder>);
static_assert(!std::is_copy_assignable_v<Decoder> && !std::is_move_assignable_v<Decoder>);

// ---- What a verifier remembers ----

TEST_CASE("a failure after the verdict does not bend the law of a rule that remembers") {
  std::mt19937_64 seed{4};
  LoopModel target = LoopModel::random(2, 2, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(2, 2, seed), script);
  const Options options{.max_new_tokens = std::max(support::bound(4), 3), .gamma = 2};
  for (bool* trip : {&script.observer_fails, &script.verifier_fails})
    CHECK(largest_difference(law_with_retries(decoder, *trip, options), target_law(target, prompt, options))
              .size < 1e-12);
}

namespace {

// A user's greedy block verification that does not declare that it remembers.
struct Unsaid {
  GreedyBlockVerifier rule = {};
  Script* script = nullptr;
  Verdict judge(const auto& drafted, auto& chance) {
    const Verdict verdict = rule.judge(drafted, chance);
    rule.commit();
    if (script->verifier_fails) throw std::runtime_error("verifier");
    return verdict;
  }
  Index min_draft_length() const { return rule.min_draft_length(); }
};

}  // namespace

TEST_CASE("a rule that does not declare that it remembers is restored after a failure, too") {
  std::mt19937_64 seed{4};
  LoopModel target = LoopModel::random(2, 2, seed);
  Script script;
  SpecDec decoder{LoopModel(target), ScriptedDrafter{ModelDrafter{LoopModel::random(2, 2, seed)}, &script},
                  Unsaid{{}, &script}};
  const Options options{.max_new_tokens = std::max(support::bound(4), 3), .gamma = 2};
  for (bool* trip : {&script.observer_fails, &script.verifier_fails})
    CHECK(largest_difference(law_with_retries(decoder, *trip, options), target_law(target, prompt, options))
              .size < 1e-12);
}

TEST_CASE(
    "a text resumed between steps keeps what its verifier remembers; a text that had ended starts afresh") {
  std::mt19937_64 seed{30};
  LoopModel target = LoopModel::random(2, 2, seed);
  Script script;
  Decoder decoder = scripted(target, LoopModel::random(2, 2, seed), script);
  const Options all{.max_new_tokens = 4, .gamma = 2};
  const Law expected = target_law(target, prompt, all);
  Law by_step, by_budget;
  enumerate([&](Enumerator& chance) {
    auto sequence = decoder.start(prompt, all);
    while (!sequence.done()) {
      sequence.step(chance);
      const Index left = 4 - (std::ssize(sequence.context()) - 2);
      if (left > 0) sequence.resume(sequence.context(), {.max_new_tokens = left, .gamma = 2});
    }
    by_step[copy(sequence.context().subspan(2))] += chance.probability();
  });
  CHECK(largest_difference(by_step, expected).size < 1e-12);
  enumerate([&](Enumerator& chance) {
    auto sequence = decoder.start(prompt, {.max_new_tokens = 1, .gamma = 2});
    for (Index left = 3; left >= 0; --left) {
      while (!sequence.done()) sequence.step(chance);
      if (left > 0) sequence.resume(sequence.context(), {.max_new_tokens = 1, .gamma = 2});
    }
    by_budget[copy(sequence.context().subspan(2))] += chance.probability();
  });
  CHECK(largest_difference(by_budget, expected).size < 1e-12);
  // After a stop token: the expected law is that of the text up to the stop, times that of the target's text after it.
  const Options first{.max_new_tokens = 3, .gamma = 3, .stop_tokens = {1}};
  const Options then{.max_new_tokens = 2, .gamma = 3};
  Law by_stop, both;
  enumerate([&](Enumerator& chance) {
    auto sequence = decoder.start(prompt, first);
    while (!sequence.done()) sequence.step(chance);
    sequence.resume(sequence.context(), then);
    while (!sequence.done()) sequence.step(chance);
    by_stop[copy(sequence.context().subspan(2))] += chance.probability();
  });
  for (const auto& [text, p] : target_law(target, prompt, first)) {
    std::vector<Token> context = prompt;
    context.insert(context.end(), text.begin(), text.end());
    for (const auto& [more, q] : target_law(target, context, then)) {
      std::vector<Token> all_of_it = text;
      all_of_it.insert(all_of_it.end(), more.begin(), more.end());
      both[all_of_it] += p * q;
    }
  }
  CHECK(largest_difference(by_stop, both).size < 1e-12);
}

TEST_CASE("stop tokens and results have ids of any width") {
  std::mt19937_64 seed{31};
  Script script;
  Decoder decoder = scripted(LoopModel::random(4, 2, seed), LoopModel::random(4, 2, seed), script);
  const std::vector<std::int64_t> wide{2, 3};
  const std::vector<Token> narrow{2, 3};
  std::mt19937_64 a{1}, b{1}, c{1};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 50, .stop_tokens = wide}, a);
  CHECK(r.stop_reason == StopReason::stop_token);
  CHECK(decoder.generate(prompt, {.max_new_tokens = 50, .stop_tokens = narrow}, b).tokens == r.tokens);
  CHECK(decoder.generate(prompt, {.max_new_tokens = 50, .stop_tokens = {2, 3}}, c).tokens == r.tokens);
  Options grown{.max_new_tokens = 50};
  for (const Token x : narrow) grown.stop_tokens.push_back(x);
  std::mt19937_64 d{1};
  CHECK(decoder.generate(prompt, grown, d).tokens == r.tokens);
  CHECK(grown.stop_tokens.contains(2));
  CHECK_FALSE(grown.stop_tokens.contains(1));
  CHECK(StopTokens{}.empty());
  CHECK(message_of([&] {
          decoder.start(prompt, {.stop_tokens = {1, std::int64_t{1} << 32}});
        }) == "specdec: stop_tokens[1] = 4294967296 is outside the vocabulary 0..3");
}

namespace {

DrafterByHand three_tokens() {
  return {[](std::span<const Token>, Index gamma) {
    std::vector<Token> tokens{1, 0, 1};
    tokens.resize(static_cast<std::size_t>(std::min<Index>(gamma, 3)));
    return tokens;
  }};
}

}  // namespace

TEST_CASE(
    "with unlimited, the policy, the budget or the context bounds the draft; without any bound it is an "
    "error") {
  const auto drafted = [&](Index context, const Options& options, const Length& length) {
    ByHand decoder{ExternalTarget{.vocabulary = 2, .context = context}, three_tokens(), {}, Length(length)};
    auto sequence = decoder.start(prompt, options);
    std::mt19937_64 rng{1};
    Index wanted = 0;
    const std::string complaint = message_of([&] { wanted = sequence.propose(rng).rows; });
    if (complaint.empty()) {
      CHECK_FALSE(sequence.accept(uniform(wanted, 2), rng).empty());
      return std::to_string(wanted - 1);
    }
    CHECK(sequence.context().size() == prompt.size());
    CHECK(sequence.stats().target_calls == 0);
    return complaint;
  };
  const Options open{.max_new_tokens = unlimited, .gamma = unlimited};
  CHECK(drafted(unlimited, {.max_new_tokens = 10, .gamma = unlimited}, {FixedLength{}}) == "3");
  CHECK(drafted(unlimited, {.max_new_tokens = unlimited, .gamma = 3}, {FixedLength{}}) == "3");
  CHECK(drafted(10, open, {FixedLength{}}) == "3");
  CHECK(drafted(unlimited, open, {Falling{2}}) == "2");
  CHECK(drafted(unlimited, open, {CostOptimalLength{}}) == "2");
  CHECK(drafted(2 + longest_draft, open, {FixedLength{}}) == "3");
  CHECK(drafted(3 + longest_draft, open, {FixedLength{}}) ==
        "specdec: gamma = 9223372036854775807 and nothing else keeps drafts to 1048576 tokens, neither the "
        "draft "
        "length nor max_new_tokens = 9223372036854775807 nor the target's context");
}

TEST_CASE("a draft length is asked once a step, by draft_limits() if that is called first") {
  const Options options{.max_new_tokens = 10, .gamma = 8};
  std::mt19937_64 rng{1};
  ByHand decoder{ExternalTarget{.vocabulary = 2}, three_tokens(), {}, {Falling{4}}};
  auto sequence = decoder.start(prompt, options);
  CHECK(sequence.draft_limits().nodes == 4);
  CHECK(sequence.draft_limits().depth == 4);  // the answer is not asked for twice
  CHECK(sequence.propose(rng).rows == 1 + 3);
  CHECK(sequence.propose(rng).rows == 1 + 3);  // the answer still holds when the step is tried again
  CHECK_THROWS(sequence.accept(uniform(1, 2), rng));
  CHECK(sequence.draft_limits().nodes == 4);
  CHECK(sequence.propose(rng).rows == 1 + 3);
  CHECK(sequence.draft_limits().nodes == 4);  // the answer holds while the proposal is open
  CHECK_FALSE(sequence.accept(uniform(4, 2), rng).empty());
  CHECK(sequence.draft_limits().nodes == 3);  // the text has gone on, so the length is asked anew
  CHECK(sequence.propose(rng).rows == 1 + 3);
  CHECK_FALSE(sequence.accept(uniform(4, 2), rng).empty());
  CHECK(sequence.propose(rng).rows == 1 + 2);

  ByHand another{ExternalTarget{.vocabulary = 2}, three_tokens(), {}, {Falling{3}}};
  auto resumed = another.start(prompt, options);
  CHECK(resumed.draft_limits().nodes == 3);
  resumed.resume(prompt, {.max_new_tokens = 2, .gamma = 8});
  CHECK(resumed.propose(rng).rows == 1 + 1);
}

TEST_CASE("the sizes that targets report are checked") {
  const auto complaint = [](Index vocabulary, Index context) {
    ByHand decoder{ExternalTarget{.vocabulary = vocabulary, .context = context}, always({}), {}};
    return message_of([&] { decoder.start(prompt, {}); });
  };
  constexpr Index least = std::numeric_limits<Index>::min();
  CHECK(complaint(2, 2).empty());
  CHECK(complaint(0, 2) == "specdec: the target has a vocabulary of 0 tokens");
  CHECK(complaint(least, 2) == "specdec: the target has a vocabulary of -9223372036854775808 tokens");
  CHECK(complaint(2, least) ==
        "specdec: prompt has 2 tokens, but the target's context holds -9223372036854775808");
  struct Unsigned {
    std::uint64_t most;
    std::uint64_t context_size() const { return most; }
  };
  CHECK(context_size(Unsigned{7}) == 7);
  CHECK(context_size(Unsigned{std::numeric_limits<std::uint64_t>::max()}) == unlimited);
}

TEST_CASE("a sequence that was moved from is done, and may be resumed") {
  std::mt19937_64 seed{41}, rng{1};
  Script script;
  Decoder decoder = scripted(LoopModel::random(2, 2, seed), LoopModel::random(2, 2, seed), script);
  auto sequence = decoder.start(prompt, {.max_new_tokens = 20, .gamma = 2});
  sequence.step(rng);
  auto moved = std::move(sequence);
  CHECK(sequence.done());  // NOLINT: use after move is intended
  CHECK(sequence.step(rng).empty());
  CHECK(sequence.propose(rng).rows == 0);
  CHECK(sequence.generate(rng).tokens.empty());
  CHECK_FALSE(moved.done());
  sequence.resume(prompt, {.max_new_tokens = 5, .gamma = 2});
  CHECK(sequence.generate(rng).tokens.size() == 5);
  CHECK(moved.generate(rng).tokens.size() == 20);
}

// What a temporary shows would not outlive it.
template <class S>
concept ShowsWhatIsGone =
    requires(S&& s) { std::forward<S>(s).tokens(); } || requires(S&& s) { std::forward<S>(s).context(); } ||
    requires(S&& s) { std::forward<S>(s).stats(); } || requires(S&& s) { std::forward<S>(s).verifier(); } ||
    requires(S&& s, std::mt19937_64& rng) { std::forward<S>(s).step(rng); } ||
    requires(S&& s, std::mt19937_64& rng) { std::forward<S>(s).propose(rng); } ||
    requires(S&& s, std::mt19937_64& rng, const Eigen::MatrixXd& rows) {
      std::forward<S>(s).accept(rows, rng);
    };
static_assert(ShowsWhatIsGone<Decoder::Sequence&>);
static_assert(!ShowsWhatIsGone<Decoder::Sequence>);
static_assert(!ShowsWhatIsGone<const Decoder::Sequence>);
template <class T>
concept ShowsIds = requires(T&& t) { std::forward<T>(t).ids(); };
static_assert(ShowsIds<const StopTokens&> && !ShowsIds<StopTokens>);

}  // namespace test_loop_sequence

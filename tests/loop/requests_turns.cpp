// Requests with a life: what the target holds already, texts that stay for another turn, calls that are under way at a time,
// and texts that leave while their proposal is out.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <specdec/more/models/windowed.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/processors.hpp"
#include "support/rules.hpp"

namespace test_loop_requests_turns {

namespace {

using specdec::Batch;
using specdec::BatchFeed;
using specdec::BatchOptions;
using specdec::ExternalTarget;
using specdec::Finished;
using specdec::Index;
using specdec::ModelDrafter;
using specdec::ModelPerSequence;
using specdec::Options;
using specdec::Philox;
using specdec::Result;
using specdec::StopReason;
using specdec::Token;
using support::Bookkeeper;
using support::message_of;
using support::Models;
using support::models_of;
using support::prompt_of;
using Table = specdec::testing::TableModel<>;
using Tokens = std::vector<Token>;

struct Rule : support::AnyOf<false, specdec::BlockVerifier, specdec::GreedyBlockVerifier> {};

using Together = ModelDrafter<Bookkeeper&>;
using Lines = Batch<Bookkeeper&, Together, Rule>;
using LinesOfEngine = Batch<ExternalTarget, Together, Rule>;
const Options options{.max_new_tokens = 12, .gamma = 3};

Tokens joined(Tokens a, std::span<const Token> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Tokens alone(const Models& models, const Tokens& prompt, std::uint64_t seed, const Options& how = options) {
  specdec::SpecDec decoder{Table(models.target), ModelDrafter{Table(models.small)}, Rule{}};
  std::mt19937_64 rng(seed);
  return decoder.generate(prompt, how, rng).tokens;
}

// The words that an error must have: its argument, its place and its value.
template <class F>
void check_message(const F& f, const std::vector<std::string>& words) {
  const std::string message = message_of<std::exception>(f);
  for (const std::string& word : words) {
    INFO(message);
    CHECK(message.find(word) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a prompt that the target holds in part is read from there on") {
  const Models models = models_of(1);
  const Tokens prompt{0, 1, 2, 1, 0, 3, 3, 1, 2, 2};
  for (const Index most : {specdec::unlimited, Index{6}})
    for (const Index longer : {0, 2})  // how much more the context holds
      for (Index cached = 0; cached <= std::ssize(prompt); ++cached) {
        Bookkeeper target(models.target), small(models.small);
        Lines batch{target, Together{small}, {}, {.tokens_per_call = most}};
        target.contexts[7] = Tokens(prompt.begin(), prompt.begin() + cached);
        for (Index i = 0; i < longer; ++i) target.contexts[7].push_back(3);
        if (cached == 0) target.contexts.clear();
        batch.add({.prompt = prompt,
                   .options = {.max_new_tokens = 1, .gamma = 0},
                   .source = std::mt19937_64{5},
                   .cached = cached,
                   .number = 7});
        const auto finished = batch.run();
        REQUIRE(finished.size() == 1);
        CHECK(finished[0].result.tokens == alone(models, prompt, 5, {.max_new_tokens = 1, .gamma = 0}));
        CHECK(target.fed == std::max<Index>(std::ssize(prompt) - cached, 1));
        CHECK(finished[0].result.cached == std::ssize(prompt) - target.fed);
      }
}

TEST_CASE("a paused text goes on from what the target holds of it") {
  const Models models = models_of(2);
  const Tokens prompt{0, 1, 2, 1, 0, 3};
  for (const Index most : {specdec::unlimited, Index{6}}) {
    Bookkeeper target(models.target), there(models.target), small(models.small), small_there(models.small);
    Lines batch{target, Together{small}, {}, {.tokens_per_call = most}},
        other{there, Together{small_there}, {}, {.tokens_per_call = most}};
    const Index text = batch.add(prompt, options, std::mt19937_64{5});
    while (batch.sequence(text).tokens().size() < 4) batch.step();
    Lines::Paused paused = batch.pause(text);
    const Tokens context(paused.sequence().context().begin(), paused.sequence().context().end());
    const Index size = std::ssize(context);
    for (const Index wrong : {Index{-1}, size + 1})
      check_message([&] { other.add(std::move(paused), {.cached = wrong}); },
                    {"cached = " + std::to_string(wrong), "0.." + std::to_string(size)});
    there.contexts[text] = joined(context, Tokens{3});
    other.add(std::move(paused), {.cached = size});
    check_message([&] { other.add(std::move(paused)); }, {"added before"});
    other.step();
    CHECK(there.fed <= 1 + 3);
    const auto finished = other.run();
    CHECK(finished[0].result.tokens == alone(models, prompt, 5));
    CHECK(finished[0].result.cached == 0);  // before the pause
  }
}

TEST_CASE("a target that keeps contexts of its own, and wrong numbers, are refused in words") {
  const Models models = models_of(3);
  const auto processed = [](Index order) {
    return specdec::ProcessedModel{
        specdec::Windowed{ModelPerSequence{support::LogTable(4, order, 3)}, 2, 8},
        [](Index) { return support::AnyProcessor{support::penalties(specdec::unlimited)}; }};
  };
  Batch own{processed(2), ModelDrafter{processed(1)}};
  const auto request = [](Index cached, Index number) {
    return Lines::Request{
        .prompt = {}, .options = options, .source = std::mt19937_64{1}, .cached = cached, .number = number};
  };
  const Tokens prompt{1, 2, 3};
  const auto add = [&](auto& batch, Index cached, Index number) {
    auto wanted = request(cached, number);
    wanted.prompt = prompt;
    return batch.add(std::move(wanted));
  };
  check_message([&] { add(own, 2, -1); }, {"cached = 2", "keeps contexts of its own"});
  CHECK(own.empty());
  const Index text = own.add(prompt, options, std::mt19937_64{1});
  check_message([&] { own.fork(text, {.source = std::mt19937_64{1}, .cached = 1}); },
                {"cached = 1", "contexts of its own"});
  auto paused = own.pause(text);
  check_message([&] { own.add(std::move(paused), {.cached = 1}); }, {"cached = 1", "contexts of its own"});
  own.add(std::move(paused));
  CHECK(own.size() == 1);

  Bookkeeper target(models.target), small(models.small);
  Lines batch{target, Together{small}};
  check_message([&] { add(batch, -1, -1); }, {"cached = -1", "0..3"});
  check_message([&] { add(batch, 4, -1); }, {"cached = 4", "0..3"});
  check_message([&] { add(batch, 0, -2); }, {"number = -2"});
  check_message([&] { add(batch, 0, std::numeric_limits<Index>::max()); }, {"number = "});
  CHECK(add(batch, 0, 5) == 5);
  check_message([&] { add(batch, 0, 5); }, {"sequence 5"});
  CHECK(add(batch, 0, -1) == 6);
  CHECK(add(batch, 0, 2) == 2);
  batch.cancel(6);
  CHECK(add(batch, 0, -1) == 7);  // 6 was used before
  CHECK(add(batch, 0, 6) == 6);
  CHECK(batch.size() == 4);
}

TEST_CASE("processors and drafters that are functions of the number get it, wherever the text goes") {
  const Models models = models_of(4);
  std::vector<Index> asked;
  const auto make = [&](Index sequence) {
    asked.push_back(sequence);
    return ModelDrafter{Table(models.small)};
  };
  const auto processed = [](std::vector<Index>& seen) {
    return specdec::ProcessedModel{ModelPerSequence{support::LogTable(4, 2, 3)}, [&seen](Index sequence) {
                                     seen.push_back(sequence);
                                     return support::AnyProcessor{support::penalties(specdec::unlimited)};
                                   }};
  };
  std::vector<Index> here, there;
  Batch batch{processed(here), make};
  decltype(batch) other{processed(there), make};
  batch.add({.prompt = Tokens{1, 2}, .options = options, .source = std::mt19937_64{1}, .number = 40});
  other.add({.prompt = Tokens{1, 2}, .options = options, .source = std::mt19937_64{2}});
  other.step();
  const bool before_a_step = GENERATE(true, false);
  if (!before_a_step) batch.step();
  other.add(batch.pause(40));
  other.step();
  CHECK(here == (before_a_step ? std::vector<Index>{} : std::vector<Index>{40}));
  CHECK(there == std::vector<Index>{0, 40});
  CHECK(std::ranges::count(asked, 40) == 1);
  CHECK(other.add(Tokens{1}, options, std::mt19937_64{3}) == 41);
}

TEST_CASE("a text that moves to a target with a smaller context keeps within it") {
  const Models models = models_of(5);
  for (const bool proposed : {false, true}) {
    Bookkeeper target(models.target), there(models.target, 4), small(models.small), small_there(models.small);
    Lines batch{target, Together{small}}, other{there, Together{small_there}};
    const Index text = batch.add(Tokens{1, 2}, {.max_new_tokens = 20, .gamma = 8}, std::mt19937_64{1});
    if (proposed) batch.propose();
    other.add(batch.pause(text));
    const auto finished = other.run();
    REQUIRE(finished.size() == 1);
    CHECK_FALSE(finished[0].error);
    CHECK(finished[0].result.stop_reason == StopReason::context);
  }
}

TEST_CASE("a text with a draft length of its own drafts less in a smaller context, and only there") {
  const Models models = models_of(5);
  const Tokens prompt{1, 2};
  const auto batch_on = [](Bookkeeper& target, Bookkeeper& small) {
    return Batch{target, Together{small}, Rule{}, specdec::each(specdec::FixedLength{})};
  };
  Bookkeeper target(models.target), there(models.target, 4), tiny(models.target, 1), small(models.small),
      small_there(models.small), small_tiny(models.small);
  auto batch = batch_on(target, small), other = batch_on(there, small_there),
       refuses = batch_on(tiny, small_tiny);
  const auto propose = [&] {
    const Index text = batch.add(prompt, {.max_new_tokens = 20, .gamma = 8}, std::mt19937_64{1});
    batch.propose();  // asks for the length
    return batch.pause(text);
  };
  other.add(propose());
  const auto finished = other.run();
  CHECK_FALSE(finished.at(0).error);
  CHECK(finished.at(0).result.stop_reason == StopReason::context);

  auto paused = propose();
  check_message([&] { refuses.add(std::move(paused)); }, {"2 tokens", "holds 1"});
  check_message(
      [&] {
        other.add_turn(std::move(paused), Tokens{3, 3, 3}, {.max_new_tokens = 9});
      },
      {"5 tokens", "holds 4"});
  batch.add(std::move(paused));
  CHECK(batch.propose()[0].tokens.size() == 2 + 8);
}

TEST_CASE("a text that has filled its context comes back from a pause, and goes on where there is room") {
  const Models models = models_of(5);
  const Tokens prompt{1, 2}, turn{3};
  const Options second{.max_new_tokens = 6, .gamma = 2};
  Bookkeeper target(models.target, 4), there(models.target), small(models.small), small_there(models.small);
  Lines batch{target, Together{small}}, other{there, Together{small_there}};
  const Index text = batch.add(
      {.prompt = prompt, .options = options, .source = std::mt19937_64{1}, .number = 3, .stays = true});
  const auto finished = batch.run();
  CHECK(finished.at(0).result.stop_reason == StopReason::context);
  Lines::Paused paused = batch.pause(text);
  const Tokens context(paused.sequence().context().begin(), paused.sequence().context().end());
  const auto is_full = [&](const Lines::Sequence& sequence) {
    return sequence.done() && sequence.result().stop_reason == StopReason::context &&
           std::ranges::equal(sequence.context(), context);
  };
  batch.add(std::move(paused));
  CHECK(is_full(batch.sequence(text)));
  CHECK(batch.empty());
  CHECK(batch.run().empty());
  check_message([&] { batch.add_turn(text, turn, second); }, {"6 tokens", "holds 4"});
  CHECK(is_full(batch.sequence(text)));

  // A turn that is refused elsewhere leaves it as it was here.
  paused = batch.pause(text);
  check_message([&] { other.add_turn(std::move(paused), Tokens{9}, second); }, {"= 9"});
  CHECK(is_full(paused.sequence()));
  // Where there is more room it waits for its turn, too. A draft length of all texts hears of the others only.
  other.add(std::move(paused));
  CHECK(other.empty());
  CHECK(other.run().empty());
  other.add_turn(text, turn, second);
  CHECK(other.run().at(0).result.tokens.size() == 6);
}

TEST_CASE("kept() is what the target holds, also while a prompt is read in parts") {
  const Models models = models_of(5);
  Bookkeeper target(models.target), small(models.small);
  Lines batch{target, Together{small}, {}, {.tokens_per_call = 6}};
  for (Index i = 0; i < 3; ++i)
    batch.add(Tokens(static_cast<std::size_t>(9 + 4 * i), 1), options, std::mt19937_64{1});
  int in_part = 0;
  while (!batch.empty()) {
    for (Index i = 0; i < 3; ++i) {
      const auto context = target.contexts.find(i);
      if (context == target.contexts.end()) continue;
      CHECK(batch.sequence(i).kept() == std::ssize(context->second));
      in_part += batch.sequence(i).kept() < 8;
    }
    batch.step();
  }
  CHECK(in_part > 0);
}

namespace {

// When a text is interrupted: between steps, while its proposal is with the target, or after a step whose target call or second
// draft call failed. The text then goes on with other tokens than those that were drafted.
enum class When { between_steps, in_flight, target_failed, draft_failed };

}  // namespace

TEST_CASE(
    "a text that stays writes its next turn as a sequence that is resumed, and only new tokens are fed") {
  const Models models = models_of(6);
  const Tokens prompt{0, 1, 2, 0, 1, 3, 2, 2}, turn{3, 3, 1};
  const Options second{.max_new_tokens = 9, .gamma = 2};
  const auto check = [&](const Rule& rule, Index most, int steps, bool paused, When when,
                         const Tokens& text) {
    INFO(steps << " steps, room " << most << ", paused " << paused << ", when " << static_cast<int>(when));
    specdec::SpecDec decoder{Table(models.target), ModelDrafter{Table(models.small)}, rule};
    auto sequence = decoder.start(prompt, options);
    Philox rng{7}, expected{7};
    for (int step = 0; step < steps && !sequence.done(); ++step) sequence.step(expected);
    const Tokens context = joined(Tokens(sequence.context().begin(), sequence.context().end()), text);
    sequence.resume(context, second);
    const Result whole = sequence.generate(expected);

    Bookkeeper target(models.target), small(models.small);
    Lines batch{target, Together{small}, rule, {.tokens_per_call = most}};
    const Index number =
        batch.add({.prompt = prompt, .options = options, .source = std::ref(rng), .stays = true});
    if (steps == 0 && most == 5) batch.step();  // a part of the prompt
    while (!batch.empty() && batch.sequence(number).stats().target_calls < steps) batch.step();
    CHECK(batch.size() == (steps < 1000 ? 1 : 0));
    const auto go_on = [&] {
      const Index fed = target.fed;
      if (paused) batch.add_turn(batch.pause(number), text, second);
      else batch.add_turn(number, text, second);
      CHECK(batch.size() == 1);
      return fed;
    };
    const bool drafts = !batch.empty() && (steps > 0 || most != 5);  // in its next step
    if (when == When::target_failed && !batch.empty()) target.fails_behind = target.calls + 1;
    if (when == When::draft_failed && drafts) small.fails_at = small.calls + 2;
    if (target.fails_behind > 0 || small.fails_at > 0) CHECK_THROWS_AS(batch.step(), Bookkeeper::Failure);
    if (when == When::in_flight) {
      const auto rows = target.forward(batch.propose());
      go_on();
      CHECK(batch.accept(rows).empty());
    } else {
      const Index fed = go_on();
      batch.step();
      if (!paused && steps > 0) CHECK(target.fed - fed <= 1 + std::ssize(text) + second.gamma);
    }
    const auto finished = batch.run();
    REQUIRE(finished.size() == 1);
    CHECK_FALSE(finished[0].error);
    CHECK(finished[0].result.tokens == whole.tokens);
    CHECK(finished[0].result.stats.emitted == whole.stats.emitted);
    CHECK(rng.offset() == expected.offset());
    // It stays again, until somebody removes it.
    CHECK(batch.empty());
    CHECK(batch.run().empty());
    CHECK(std::ranges::equal(batch.sequence(number).tokens(), whole.tokens));
    CHECK(batch.cancel(number).stop_reason == StopReason::length);
    CHECK(target.contexts.empty());
    CHECK(small.contexts.empty());
  };
  for (const Rule& rule : {Rule{{specdec::BlockVerifier{}}}, Rule{{specdec::GreedyBlockVerifier{}}}})
    for (const Index most : {specdec::unlimited, Index{5}})
      for (const int steps : {0, 1, 2, 1000})  // where the text is interrupted; 1000: it has ended
        for (const bool paused : {false, true})
          for (const When when :
               {When::between_steps, When::in_flight, When::target_failed, When::draft_failed})
            for (const Tokens& text : {turn, Tokens{}}) check(rule, most, steps, paused, when, text);
}

namespace {

// Notes what a batch tells a draft length that is one for all texts.
struct Told {
  std::vector<Index> texts = {}, most = {};

  void batch(Index n) { texts.push_back(n); }
  Index next(Index longest) {
    most.push_back(longest);
    return longest;
  }
  void observe(const specdec::StepRecord&) {}
};

}  // namespace

TEST_CASE("a draft length for all texts does not hear of texts that have ended and stay") {
  const Models models = models_of(6);
  const Tokens prompt{0, 1, 2};
  Bookkeeper target(models.target), small(models.small);
  Told told;
  Batch batch{target, Together{small}, Rule{}, told};
  const Options longer{.max_new_tokens = 2, .gamma = 5};
  batch.add({.prompt = prompt, .options = longer, .source = std::mt19937_64{1}, .stays = true});
  CHECK(batch.run().size() == 1);
  CHECK(told.most.front() == 5);
  told = {};
  CHECK(batch.step().empty());
  CHECK(batch.propose().empty());
  CHECK(told.texts.empty());
  batch.add(prompt, options, std::mt19937_64{2});
  batch.step();
  CHECK(told.texts == std::vector<Index>{1});
  CHECK(told.most == std::vector<Index>{options.gamma});

  // One that has filled the context of another target would have room here.
  Bookkeeper full(models.target, 4), small_full(models.small);
  Batch other{full, Together{small_full}, Rule{}, told};
  const Options longest{.max_new_tokens = 9, .gamma = 5};
  other.add({.prompt = prompt, .options = longest, .source = std::mt19937_64{3}, .number = 7, .stays = true});
  CHECK(other.run().size() == 1);
  batch.add(other.pause(7));
  told = {};
  batch.step();
  CHECK(told.texts == std::vector<Index>{1});
  CHECK(told.most == std::vector<Index>{options.gamma});
}

TEST_CASE("a draft length for all texts hears of the texts that decode, not of those that read") {
  const Models models = models_of(6);
  support::ForkingBookkeeper target(models.target);
  Bookkeeper small(models.small);
  Told told;
  Batch batch{target, Together{small}, Rule{}, told, BatchOptions{.tokens_per_call = 8}};
  batch.add(Tokens(30, 1), {.max_new_tokens = 30, .gamma = 5}, std::mt19937_64{1});
  batch.fork(0, std::mt19937_64{2});  // it waits for a copy of the context
  for (int part = 0; part < 2; ++part) batch.step();
  CHECK(batch.sequence(0).kept() == 16);
  CHECK(told.texts.empty());
  CHECK(told.most.empty());
  batch.add(Tokens{0}, {.max_new_tokens = 30, .gamma = 1}, std::mt19937_64{3});
  while (batch.sequence(0).kept() < 29) {
    told = {};
    batch.step();
    CHECK(told.texts == std::vector<Index>{1});
    CHECK(told.most == std::vector<Index>{1});
  }
  told = {};
  batch.step();
  CHECK(told.texts == std::vector<Index>{3});
  CHECK(told.most == std::vector<Index>{5});
}

TEST_CASE("a turn that is refused leaves the text as before, with its proposal") {
  const Models models = models_of(7);
  const Tokens prompt{0, 1, 2};
  Bookkeeper target(models.target), small(models.small);
  Lines batch{target, Together{small}, {}, {.tokens_per_call = 8}};
  const Index text = batch.add(prompt, options, std::mt19937_64{5});
  batch.step();
  const std::vector<Index> all{text};
  const auto rows = target.forward(batch.propose_for(all));
  const auto refuse = [&](auto&& which) {
    check_message([&] { batch.add_turn(which(), Tokens{1, 9}, options); }, {"context[", "= 9"});
    check_message(
        [&] {
          batch.add_turn(which(), std::vector<std::int64_t>{1, std::int64_t{1} << 40}, options);
        },
        {"text[1] = 1099511627776"});
    check_message([&] { batch.add_turn(which(), Tokens{1}, {.gamma = 8}); }, {"gamma = 8"});
    check_message([&] { batch.add_turn(which(), Tokens{1}, {.max_new_tokens = -1}); },
                  {"max_new_tokens = -1"});
  };
  refuse([&] { return text; });
  check_message([&] { batch.add_turn(8, Tokens{1}, options); }, {"no sequence 8"});
  batch.accept_for(all, rows);
  Lines::Paused paused = batch.pause(text);
  refuse([&]() -> Lines::Paused&& { return std::move(paused); });
  check_message([&] { batch.add_turn(std::move(paused), Tokens{1}, options, {.cached = 100}); },
                {"cached = 100"});
  batch.add(std::move(paused));
  CHECK(batch.run()[0].result.tokens == alone(models, prompt, 5));
}

TEST_CASE("texts that stay do not count, and a batch that has nobody else has nothing to do") {
  const Models models = models_of(8);
  Bookkeeper target(models.target), small(models.small);
  Lines batch{target, Together{small}};
  const auto request = [&](std::uint64_t seed, bool stays) {
    static const Tokens prompt{1, 2};
    return Lines::Request{
        .prompt = prompt, .options = options, .source = std::mt19937_64{seed}, .stays = stays};
  };
  const Index a = batch.add(request(1, true)), b = batch.add(request(2, false)),
              c = batch.add(request(3, true));
  CHECK(batch.size() == 3);
  CHECK(batch.run().size() == 3);
  CHECK(batch.size() == 0);
  CHECK(batch.step().empty());
  CHECK(target.contexts.contains(a));
  CHECK_FALSE(target.contexts.contains(b));
  check_message([&] { batch.sequence(b); }, {"no sequence 1"});
  CHECK(batch.cancel(a).tokens == alone(models, Tokens{1, 2}, 1));
  CHECK_FALSE(target.contexts.contains(a));
  Lines::Paused paused = batch.pause(c);
  batch.add(std::move(paused));
  CHECK(batch.empty());
  const Index twin = batch.fork(c, std::mt19937_64{4});
  batch.add_turn(c, Tokens{3}, options);
  CHECK(batch.run().size() == 2);
  batch.add_turn(twin, Tokens{3}, options);
  const Tokens context = joined(joined(Tokens{1, 2}, alone(models, Tokens{1, 2}, 3)), Tokens{3});
  CHECK(batch.run()[0].result.tokens == alone(models, context, 4));
}

namespace {

// Texts of an engine, some of which are in a call.
class Engine {
 public:
  Engine(const Models& models, BatchOptions how = {})
      : models_(models),
        small_(models.small),
        model_{models.target},
        batch{ExternalTarget{.vocabulary = models.target.vocab_size()}, Together{small_}, Rule{}, how} {}

  // Begins a call for these texts.
  void call(std::span<const Index> sequences) {
    const auto feeds = batch.propose_for(sequences);
    if (feeds.empty()) return;
    Call call;
    call.rows.resize(0, models_.target.vocab_size());
    for (const BatchFeed& feed : feeds) {
      model_.keep(feed.sequence, feed.from);
      const auto rows = model_.forward(std::span(&feed, 1));
      const Index first = call.rows.rows();
      call.texts.push_back(feed.sequence);
      call.rows.conservativeResize(first + feed.rows, models_.target.vocab_size());
      for (Index i = 0; i < feed.rows; ++i)
        for (Index x = 0; x < models_.target.vocab_size(); ++x)
          call.rows(first + i, x) =
              specdec::probability(specdec::distributions(rows).row(i), static_cast<Token>(x));
    }
    calls.push_back(std::move(call));
  }
  // The rows of a call have come. Rows of texts that have left since are dropped.
  void end(std::size_t which) {
    const Call call = std::move(calls[which]);
    calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(which));
    for (const Finished& done : batch.accept_for(call.texts, call.rows)) {
      CHECK_FALSE(done.error);
      texts[done.sequence] = done.result.tokens;
    }
  }
  bool in_call(Index text) const {
    return std::ranges::any_of(calls,
                               [=](const Call& call) { return std::ranges::count(call.texts, text) > 0; });
  }

  struct Call {
    std::vector<Index> texts;
    support::RowMajor<double> rows;
  };

 private:
  const Models& models_;
  Bookkeeper small_;
  ModelPerSequence<Table> model_;

 public:
  LinesOfEngine batch;
  std::vector<Call> calls;
  std::map<Index, Tokens> texts;
};

}  // namespace

TEST_CASE("several calls may be under way at a time, and end in any order") {
  const Models models = models_of(9);
  std::mt19937_64 dice(1);
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(specdec::uniform01(dice) * static_cast<double>(n));
  };
  for (const Index most : {specdec::unlimited, Index{6}})
    for (int run = 0; run < support::bound(16, 100); ++run) {
      Engine engine(models, {.tokens_per_call = most});
      constexpr Index count = 6;
      for (Index i = 0; i < count; ++i)
        engine.batch.add(prompt_of(i), options, std::mt19937_64{static_cast<std::uint64_t>(i)});
      for (int rounds = 0; !engine.batch.empty(); ++rounds) {
        REQUIRE(rounds < 1000);
        if (engine.calls.size() < 3 && below(2) == 0) {
          std::vector<Index> free;
          for (Index i = 0; i < count; ++i)
            if (!engine.texts.contains(i) && !engine.in_call(i) && below(2) == 0) free.push_back(i);
          std::ranges::shuffle(free, dice);
          engine.call(free);
        } else if (!engine.calls.empty()) {
          engine.end(below(engine.calls.size()));
        }
      }
      for (Index i = 0; i < count; ++i)
        CHECK(engine.texts.at(i) == alone(models, prompt_of(i), static_cast<std::uint64_t>(i)));
    }
}

TEST_CASE("a call for some texts names the texts that it refuses, and loses nothing") {
  const Models models = models_of(10);
  Engine engine(models);
  for (Index i = 0; i < 4; ++i)
    engine.batch.add(prompt_of(i), options, std::mt19937_64{static_cast<std::uint64_t>(i)});
  const std::vector<Index> half{2, 0}, rest{1, 3};
  engine.call(half);
  using Numbers = std::vector<Index>;
  const Eigen::MatrixXd none(0, 4);
  auto& batch = engine.batch;
  check_message([&] { batch.propose_for(Numbers{1, 9}); }, {"sequences[1] = 9"});
  check_message([&] { batch.propose_for(Numbers{1, 3, 1}); }, {"sequences[2] = 1", "twice"});
  check_message([&] { batch.accept_for(Numbers{2, 9}, none); }, {"sequences[1] = 9"});
  check_message([&] { batch.accept_for(Numbers{2, 0, 2}, none); }, {"sequences[2] = 2", "twice"});
  check_message([&] { batch.accept_for(Numbers{1}, none); }, {"sequences[0] = 1", "no proposal"});
  check_message([&] { batch.accept(none); }, {"no proposal"});
  engine.call(rest);
  // Wrong rows cost the texts of this call their proposal, and nobody else anything.
  check_message([&] { batch.accept_for(rest, none); }, {"0 rows, expected"});
  check_message([&] { batch.accept_for(rest, none); }, {"sequences[0] = 1", "no proposal"});
  engine.calls.pop_back();
  engine.end(0);
  for (int rounds = 0; !batch.empty(); ++rounds) {
    REQUIRE(rounds < 100);
    for (const auto& texts : {rest, half}) {
      Numbers left;
      for (const Index text : texts)
        if (!engine.texts.contains(text)) left.push_back(text);
      engine.call(left);
    }
    while (!engine.calls.empty()) engine.end(engine.calls.size() - 1);
  }
  for (Index i = 0; i < 4; ++i)
    CHECK(engine.texts.at(i) == alone(models, prompt_of(i), static_cast<std::uint64_t>(i)));
}

TEST_CASE("the rows of a call for some texts are no rows of an earlier call for all") {
  const Models models = models_of(10);
  Engine engine(models);
  const std::vector<Index> text{engine.batch.add(prompt_of(1), options, std::mt19937_64{1})};
  while (!engine.batch.empty()) {
    engine.batch.propose();
    engine.call(text);
    const auto& rows = engine.calls.front().rows;
    check_message([&] { engine.batch.accept(rows); }, {"no proposal"});
    engine.end(0);
  }
  CHECK(engine.texts.at(text[0]) == alone(models, prompt_of(1), 1));
}

TEST_CASE(
    "texts that are named for a call have no earlier proposal, whether the call has room for them or not") {
  const Models models = models_of(10);
  Engine engine(models, {.tokens_per_call = 5});
  auto& batch = engine.batch;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    batch.add(Tokens{static_cast<Token>(seed)}, options, std::mt19937_64{seed});
  for (const Index text : {0, 1, 2, 3}) engine.call(std::span(&text, 1));
  const std::vector<Index> named{0, 1, 2};
  const auto feeds = batch.propose_for(named);
  REQUIRE(feeds.size() == 1);
  CHECK(feeds[0].sequence == 0);
  for (const Index text : {1, 2})
    check_message([&] { batch.accept_for(std::vector<Index>{text}, Eigen::MatrixXd(0, 4)); },
                  {"= " + std::to_string(text), "no proposal"});
  const auto last = engine.calls.back();
  engine.calls = {last};
  engine.end(0);  // text 3, which was not named
  while (!batch.empty()) {
    for (Index text = 0; text < 4; ++text)
      if (!engine.texts.contains(text)) engine.call(std::span(&text, 1));
    while (!engine.calls.empty()) engine.end(0);
  }
  for (Index i = 0; i < 4; ++i)
    CHECK(engine.texts.at(i) == alone(models, {static_cast<Token>(i)}, static_cast<std::uint64_t>(i)));
}

TEST_CASE("who leaves while a call is under way takes only its own rows out of it") {
  const Models models = models_of(11);
  for (const std::string how : {"cancel", "pause", "pause and add", "add_turn"})
    for (const Index who : {0, 1, 2}) {
      INFO(how << " of " << who);
      Bookkeeper target(models.target), small(models.small);
      Lines batch{target, Together{small}};
      Philox rng{5};
      for (Index i = 0; i < 3; ++i)
        if (i == who) batch.add(prompt_of(i), options, std::ref(rng));
        else batch.add(prompt_of(i), options, std::mt19937_64{static_cast<std::uint64_t>(i)});
      batch.step();
      const std::uint64_t offset = rng.offset();
      std::map<Index, Index> steps;
      for (Index i = 0; i < 3; ++i) steps[i] = batch.sequence(i).stats().target_calls;
      const Tokens before(batch.sequence(who).tokens().begin(), batch.sequence(who).tokens().end());
      const auto rows = target.forward(batch.propose());
      if (how == "cancel") CHECK(batch.cancel(who).tokens == before);
      if (how == "pause") {
        const Lines::Paused paused = batch.pause(who);
        CHECK(std::ranges::equal(paused.sequence().tokens(), before));
      }
      if (how == "pause and add") batch.add(batch.pause(who));
      if (how == "add_turn") batch.add_turn(who, Tokens{3}, options);
      CHECK(rng.offset() == offset);
      CHECK(batch.accept(rows).empty());
      for (Index i = 0; i < 3; ++i)
        if (i != who) CHECK(batch.sequence(i).stats().target_calls == steps[i] + 1);
      for (const Finished& done : batch.run()) {
        CHECK_FALSE(done.error);
        if (done.sequence != who)
          CHECK(done.result.tokens ==
                alone(models, prompt_of(done.sequence), static_cast<std::uint64_t>(done.sequence)));
      }
      CHECK(target.contexts.empty());
    }
}

}  // namespace test_loop_requests_turns

// A twin of a text writes what the text would have written with the twin's random numbers. Where the target can copy a
// context, a prompt is read once for all of its samples, whatever happens to the first of them.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/audits/audited_drafter.hpp>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/more/samplers/logit_bias.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"

namespace test_loop_requests_fork {

namespace {

using specdec::Batch;
using specdec::BatchOptions;
using specdec::Finished;
using specdec::Index;
using specdec::ModelDrafter;
using specdec::Options;
using specdec::Token;
using support::Bookkeeper;
using support::message_of;
using support::Models;
using support::models_of;
using Table = specdec::testing::TableModel<>;
using Tokens = std::vector<Token>;

struct Rule : support::AnyOf<false, specdec::BlockVerifier, specdec::ArgmaxVerifier> {};
using Remembering = specdec::GreedyBlockVerifier;
static_assert(specdec::remembers_sequence<Remembering> && !specdec::remembers_sequence<Rule>);

using Forking = support::ForkingBookkeeper;
using Together = ModelDrafter<Forking&>;
template <class Target, class V = Rule>
using Lines = Batch<Target&, Together, V>;

// The texts that a batch writes from here on.
template <class B>
std::map<Index, Tokens> texts_of(B& batch) {
  std::map<Index, Tokens> texts;
  for (int steps = 0; !batch.empty(); ++steps) {
    REQUIRE(steps < 1000);
    for (const Finished& done : batch.step()) {
      REQUIRE_FALSE(done.error);
      texts[done.sequence] = done.result.tokens;
    }
  }
  return texts;
}

// A text that draws from one generator for some steps, and then from another.
template <class V>
specdec::Result result_alone(const Models& models, const V& rule, const Tokens& prompt,
                             const Options& options, std::uint64_t seed, int steps, std::uint64_t then) {
  specdec::SpecDec decoder{Table(models.target), ModelDrafter{Table(models.small)}, rule};
  auto sequence = decoder.start(prompt, options);
  std::mt19937_64 first(seed), second(then);
  for (int step = 0; step < steps; ++step) sequence.step(first);
  return sequence.generate(second);
}
template <class V = Rule>
Tokens alone(const Models& models, const V& rule, const Tokens& prompt, const Options& options,
             std::uint64_t seed, int steps, std::uint64_t then) {
  return result_alone(models, rule, prompt, options, seed, steps, then).tokens;
}

const Options options{.max_new_tokens = 24, .gamma = 3};

// Twins after some steps, between steps or with a proposal out.
template <class Target, class V>
void check_twins(const V& rule, int steps, bool in_flight, BatchOptions how = {}) {
  const Models models = models_of(3);
  const Tokens prompt{0, 1, 2, 1, 0, 3, 3, 1};
  Target target(models.target);
  Forking small(models.small);
  Lines<Target, V> batch{target, Together{small}, rule, how};
  const Index first = batch.add(prompt, options, std::mt19937_64{1});
  while (batch.sequence(first).stats().target_calls < steps) batch.step();
  if (in_flight) batch.propose();
  const Index a = batch.fork(first, std::mt19937_64{2}), b = batch.fork(a, std::mt19937_64{3});
  CHECK(b == a + 1);
  if (in_flight) {
    const auto rows = target.forward(batch.propose());
    const Index late = batch.fork(first, std::mt19937_64{4});
    CHECK(batch.accept(rows).empty());
    const auto texts = texts_of(batch);
    CHECK(texts.at(late) == alone(models, rule, prompt, options, 1, steps, 4));
    CHECK(texts.at(a) == alone(models, rule, prompt, options, 1, steps, 2));
    return;
  }
  const auto texts = texts_of(batch);
  CHECK(texts.at(first) == alone(models, rule, prompt, options, 1, steps + 100, 0));
  CHECK(texts.at(a) == alone(models, rule, prompt, options, 1, steps, 2));
  CHECK(texts.at(b) == alone(models, rule, prompt, options, 1, steps, 3));
  CHECK(target.contexts.empty());
  CHECK(small.contexts.empty());
}

}  // namespace

TEST_CASE("a twin writes what its text would have written with the twin's random numbers") {
  for (const Rule& rule : {Rule{{specdec::BlockVerifier{}}}, Rule{{specdec::ArgmaxVerifier{}}}})
    for (const int steps : {0, 1, 3})
      for (const bool in_flight : {false, true})
        for (const Index most : {specdec::unlimited, Index{6}}) {
          check_twins<Bookkeeper>(rule, steps, in_flight, {.tokens_per_call = most});
          check_twins<Forking>(rule, steps, in_flight, {.tokens_per_call = most});
        }
  check_twins<Forking>(Remembering{}, 0, false);
}

// A twin would share the memory, and with it what the text is still to make up for.
TEST_CASE(
    "a text that a rule remembers is forked before it begins, or after it has ended, for its next turn") {
  const Models models = models_of(3);
  const Tokens prompt{0, 1, 2}, turn{3};
  Forking target(models.target);
  Forking small(models.small);
  Lines<Forking, Remembering> batch{target, Together{small}};
  const Index first =
      batch.add({.prompt = prompt, .options = options, .source = std::mt19937_64{0}, .stays = true});
  const Index before = batch.fork(first, std::mt19937_64{1});
  const auto refused = [&](Index text, const std::optional<Options>& other = {}) {
    const std::string message = message_of<specdec::InvalidCall>(
        [&] { batch.fork(text, {.source = std::mt19937_64{2}, .options = other}); });
    CHECK(message.find("sequence " + std::to_string(text) + " has begun") != std::string::npos);
    CHECK(message.find("before its first step, or use specdec::BlockVerifier") != std::string::npos);
  };
  batch.step();
  refused(first);
  // A turn without tokens goes on with the memory.
  while (is_fresh(batch.sequence(first).verifier())) batch.step();
  batch.add_turn(first, Tokens{}, options);
  REQUIRE(batch.sequence(first).tokens().empty());
  refused(first);
  const Tokens read = [&] {
    const auto context = batch.sequence(first).context();
    return Tokens(context.begin(), context.end());
  }();
  CHECK(batch.size() == 2);
  const auto texts = texts_of(batch);
  CHECK(texts.at(before) == alone(models, Remembering{}, prompt, options, 1, 0, 1));
  // It has ended. It goes on by other options, or by a turn.
  refused(first, Options{.max_new_tokens = 48, .gamma = 3});
  const Index after = batch.fork(first, std::mt19937_64{3});
  CHECK(texts_of(batch).at(after) == texts.at(first));
  batch.add_turn(after, turn, options);
  const Index last = batch.fork(after, std::mt19937_64{4});
  Tokens longer = read;
  longer.insert(longer.end(), texts.at(first).begin(), texts.at(first).end());
  longer.push_back(turn[0]);
  const auto turns = texts_of(batch);
  CHECK(turns.at(after) == alone(models, Remembering{}, longer, options, 3, 0, 3));
  CHECK(turns.at(last) == alone(models, Remembering{}, longer, options, 4, 0, 4));
}

TEST_CASE("the statistics of a twin begin at the fork, so that those of all samples add up") {
  const Models models = models_of(5);
  const Tokens prompt{0, 1, 2, 0, 1};
  for (const int steps : {0, 2}) {
    Forking target(models.target);
    Forking small(models.small);
    Lines<Forking> batch{target, Together{small}};
    const Index first = batch.add(prompt, options, std::mt19937_64{1});
    for (int i = 0; i < steps; ++i) batch.step();
    const specdec::Stats before = batch.sequence(first).stats();
    const Index twin = batch.fork(first, std::mt19937_64{2});
    CHECK(batch.sequence(twin).stats().target_calls == 0);
    CHECK(batch.sequence(twin).last().drafted == 0);
    for (const Finished& done : batch.run()) {
      const specdec::Stats whole =
          result_alone(models, Rule{}, prompt, options, 1, steps, done.sequence == twin ? 2 : 1).stats;
      if (done.sequence != twin) continue;
      specdec::Stats sum = before;
      sum += done.result.stats;
      CHECK(sum.target_calls == whole.target_calls);
      CHECK(sum.drafted == whole.drafted);
      CHECK(sum.accepted == whole.accepted);
      CHECK(sum.emitted == std::ssize(done.result.tokens));
      CHECK(sum.asked_by_position == whole.asked_by_position);
    }
  }
}

TEST_CASE("a twin may have other options from the fork on") {
  const Models models = models_of(7);
  const Tokens prompt{0, 1, 2, 1};
  Forking target(models.target);
  Forking small(models.small);
  Lines<Forking> batch{target, Together{small}};
  const Index first = batch.add(prompt, options, std::mt19937_64{1});
  batch.step();
  batch.propose();
  Options longer = options, shorter = options, narrow = options;
  longer.max_new_tokens = 40;
  shorter.max_new_tokens = 1;
  narrow.gamma = 1;
  const Index a = batch.fork(first, {.source = std::mt19937_64{2}, .options = longer}),
              b = batch.fork(first, {.source = std::mt19937_64{2}, .options = shorter}),
              c = batch.fork(first, {.source = std::mt19937_64{2}, .options = narrow});
  const Tokens begun(batch.sequence(first).tokens().begin(), batch.sequence(first).tokens().end());
  for (const Finished& done : batch.run()) {
    REQUIRE_FALSE(done.error);
    const auto [number, result, error] = done;
    if (number == first) CHECK(result.tokens == alone(models, Rule{}, prompt, options, 1, 100, 1));
    if (number == a) CHECK(result.tokens == alone(models, Rule{}, prompt, longer, 1, 1, 2));
    if (number == b) CHECK(result.tokens == begun);  // its budget is spent
    if (number == c) {
      CHECK(result.tokens.size() == 24);
      CHECK(result.stats.drafted <= result.stats.target_calls);
      CHECK(result.stats.drafted > 3);
    }
  }
}

TEST_CASE("a twin's own stop string may have begun before the fork") {
  // The text is 0 1 2 3 0 1 2 3 ...
  Table::Rows rows(5, 4);
  rows << 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0;
  const auto bytes = [](Token x) { return std::string(1, static_cast<char>('a' + x)); };
  Forking target{Table(rows, 1)};
  Forking small{Table(rows, 1)};
  Lines<Forking> batch{target, Together{small}};
  const Index first = batch.add(Tokens{3}, {.max_new_tokens = 12, .gamma = 2}, std::mt19937_64{1});
  batch.step();
  CHECK(batch.sequence(first).tokens().size() == 3);  // abc
  for (const std::string stop : {"bcd", "bc"}) {
    const Options stops{.max_new_tokens = 12, .gamma = 2, .stop_strings = {{stop}, bytes}};
    const Index twin = batch.fork(first, {.source = std::mt19937_64{1}, .options = stops});
    auto paused = batch.pause(first);
    const specdec::Result result = batch.run()[0].result;
    batch.add(std::move(paused));
    CHECK(result.tokens.size() == (stop == "bcd" ? 4 : 7));
    REQUIRE(result.stop_match);
    CHECK(result.stop_match->begin == (stop == "bcd" ? 1 : 5));
    CHECK(twin > first);
  }
}

#ifndef SPECDEC_TEST_SOME
namespace {

// Logits over four tokens after one token.
struct Unscaled {
  static constexpr bool copies_context = true;
  Tokens text = {};
  Eigen::MatrixXf rows = {};

  Index vocab_size() const { return 4; }
  const Eigen::MatrixXf& forward(std::span<const Token> tokens, Index count) {
    text.insert(text.end(), tokens.begin(), tokens.end());
    rows.resize(count, 4);
    for (Index i = 0; i < count; ++i)
      for (Token x = 0; x < 4; ++x)
        rows(i, x) =
            static_cast<float>(x * (1 + text[text.size() - static_cast<std::size_t>(count - i)]) % 5) / 2;
    return rows;
  }
  void truncate(Index length) { text.resize(static_cast<std::size_t>(length)); }
};

}  // namespace

TEST_CASE("settings go by number: a twin brings the number that has its own") {
  const Tokens prompt{0, 1, 2};
  std::map<Index, double> temperatures{{0, 1.0}, {7, 0.0}};
  std::map<Index, Token> forbidden{{0, 3}, {7, 0}};
  const auto chain_of = [&](Index n) { return specdec::Chain{specdec::Temperature{temperatures.at(n)}}; };
  const auto ban_of = [&](Index n) {
    return specdec::LogitBias{{forbidden.at(n), -std::numeric_limits<double>::infinity()}};
  };
  const auto model = [&] {
    return specdec::ProcessedModel{specdec::ModelPerSequence{Unscaled{}}, chain_of, ban_of};
  };
  Batch batch{model(), ModelDrafter{model()}};
  const Index first = batch.add(prompt, options, std::mt19937_64{1});
  for (const int steps : {0, 1}) {
    if (steps > 0) batch.step();
    // Nobody has said what chain, or what processor, these numbers have.
    CHECK_THROWS_AS(batch.fork(first, {.source = std::mt19937_64{2}, .number = 5}), std::out_of_range);
    temperatures[6] = 1;
    CHECK_THROWS_AS(batch.fork(first, {.source = std::mt19937_64{2}, .number = 6}), std::out_of_range);
    CHECK(batch.size() == 1);
  }
  CHECK(batch.fork(first, {.source = std::mt19937_64{2}, .number = 7}) == 7);
  CHECK(message_of([&] {
          batch.fork(first, {.source = std::mt19937_64{2}, .number = 7});
        }).find("there is a sequence 7 in the batch already") != std::string::npos);
  const auto begun = batch.sequence(7).tokens().size();
  const auto texts = texts_of(batch);
  const auto has = [](const Tokens& text, std::size_t from, Token x) {
    return std::find(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), x) != text.end();
  };
  CHECK_FALSE(has(texts.at(first), 0, 3));
  CHECK(has(texts.at(first), 0, 0));
  CHECK_FALSE(has(texts.at(7), begun, 0));
  CHECK(texts.at(7).size() == 24);
}
#endif

TEST_CASE("a twin has a copy of what its text's own drafter has learnt") {
  const Models models = models_of(5);
  const Tokens prompt{0, 1, 2, 0, 1};
  Bookkeeper target(models.target);
  Batch batch{target, specdec::SuffixDrafter<>{}, specdec::BlockVerifier{}};
  const Index first = batch.add(prompt, options, std::mt19937_64{1});
  batch.step();
  const Index twin = batch.fork(first, std::mt19937_64{2});
  specdec::SpecDec decoder{Table(models.target), specdec::SuffixDrafter<>{}, specdec::BlockVerifier{}};
  auto sequence = decoder.start(prompt, options);
  std::mt19937_64 one(1), two(2);
  sequence.step(one);
  const Index drafted_before = sequence.stats().drafted;
  const specdec::Result expected = sequence.generate(two);
  for (const Finished& done : batch.run()) {
    if (done.sequence != twin) continue;
    CHECK(done.result.tokens == expected.tokens);
    CHECK(done.result.stats.drafted == expected.stats.drafted - drafted_before);
    CHECK(done.result.stats.drafted > 5);
  }
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("a twin writes what its text would have written, drafted by a cascade") {
  const Models models = models_of(10);
  const Table middle = models_of(11).small;
  const Tokens prompt(500, 1);
  Bookkeeper target(models.target);
  Forking many_middle(middle);
  Batch batch{target,
              specdec::CascadeDrafter{many_middle, specdec::SuffixDrafter<>{}, specdec::BlockVerifier{}, 3,
                                      specdec::each(specdec::ScheduledLength{1})},
              specdec::BlockVerifier{}};
  const Index first = batch.add(prompt, options, std::mt19937_64{1});
  batch.step();
  const Index twin = batch.fork(first, std::mt19937_64{2});
  specdec::SpecDec decoder{Table(models.target),
                           specdec::CascadeDrafter{Table(middle), specdec::SuffixDrafter<>{},
                                                   specdec::BlockVerifier{}, 3, specdec::ScheduledLength{1}},
                           specdec::BlockVerifier{}};
  auto sequence = decoder.start(prompt, options);
  std::mt19937_64 one(1), two(2);
  sequence.step(one);
  CHECK(texts_of(batch).at(twin) == sequence.generate(two).tokens);
  CHECK(many_middle.contexts.empty());
  CHECK(many_middle.forks == 1);
  CHECK(many_middle.fed < 1000);  // of a prompt of 500 tokens
}
#endif

TEST_CASE("samples of one prompt read it once, if the target can copy a context") {
  const Models models = models_of(4);
  const Tokens prompt(1000, 2);
  for (const Index most : {specdec::unlimited, Index{64}}) {
    Forking target(models.target);
    Forking small(models.small);
    Lines<Forking> batch{target, Together{small}, {}, {.tokens_per_call = most}};
    const Index first = batch.add(prompt, options, std::mt19937_64{0});
    for (std::uint64_t seed = 1; seed < 4; ++seed) batch.fork(first, std::mt19937_64{seed});
    CHECK(batch.size() == 4);
    const auto texts = texts_of(batch);
    for (std::uint64_t seed = 0; seed < 4; ++seed)
      CHECK(texts.at(static_cast<Index>(seed)) == alone(models, {}, prompt, options, seed, 0, seed));
    CHECK(target.forks == 3);
    CHECK(target.fed <
          1000 + 4 * 24 * 4);  // at the worst, each step of a text feeds four tokens and emits one
    CHECK(small.forks == 3);
    CHECK(small.fed < 1000 + 4 * 24 * 5);
  }
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("a draft model copies contexts where the target cannot, and within other drafters") {
  const Models models = models_of(4);
  const Tokens prompt(1000, 2);
  for (const int steps : {0, 1, 2}) {
    Bookkeeper target(models.target);
    Forking small(models.small);
    Batch batch{target, specdec::testing::AuditedDrafter{
                            specdec::FallbackDrafter{specdec::NoDrafter{}, ModelDrafter{small}}}};
    const Index first = batch.add(prompt, options, std::mt19937_64{0});
    for (int i = 0; i < steps; ++i) batch.step();
    if (steps == 2) batch.propose();
    const Index a = batch.fork(first, std::mt19937_64{1}), b = batch.fork(a, std::mt19937_64{2});
    if (steps == 2) batch.cancel(first);
    CHECK((small.forks == 2) == (steps == 2));  // at the next step, or when the text leaves
    const auto texts = texts_of(batch);
    CHECK(texts.at(a) == alone(models, Rule{}, prompt, options, 0, steps, 1));
    CHECK(texts.at(b) == alone(models, Rule{}, prompt, options, 0, steps, 2));
    CHECK(small.forks == 2);
    CHECK(small.fed < 1000 + 3 * 24 * 5);
    CHECK(target.fed > 3 * 1000);
    CHECK(small.contexts.empty());
  }
}
#endif

namespace {

// What happens to a text that others wait for.
enum class Fate {
  cancelled,
  paused,
  replaced,
  draft_fails,
  call_fails,
  rows_spoilt,
  ends_at_once,
  copy_fails
};

}  // namespace

TEST_CASE("twins do not wait for a text that is gone, and write the same") {
  const Models models = models_of(6);
  const Tokens prompt{0, 1, 2, 1, 0, 3, 3, 1};
  for (const Fate fate : {Fate::cancelled, Fate::paused, Fate::replaced, Fate::draft_fails, Fate::call_fails,
                          Fate::rows_spoilt, Fate::ends_at_once, Fate::copy_fails})
    for (const Index most : {specdec::unlimited, Index{6}})
      for (const int steps :
           {0, 1}) {  // after a step, the prompt has been read, or with little room a part of it
        INFO("fate " << static_cast<int>(fate) << ", room " << most << ", steps " << steps);
        Forking target(models.target);
        Forking small(models.small);
        Lines<Forking> batch{target, Together{small}, {}, {.tokens_per_call = most}};
        Options parent = options;
        if (fate == Fate::ends_at_once) parent.max_new_tokens = 1;
        const Index first = batch.add(prompt, parent, std::mt19937_64{0});
        const Index a = batch.fork(first, std::mt19937_64{1}), b = batch.fork(a, std::mt19937_64{2});
        std::map<Index, Tokens> texts;
        const auto step = [&] {
          for (const Finished& done : batch.step())
            if (!done.error) texts[done.sequence] = done.result.tokens;
        };
        target.refuses = fate == Fate::copy_fails;
        if (fate == Fate::rows_spoilt) target.spoils = first;
        for (int i = 0; i < steps; ++i) step();
        if (fate == Fate::cancelled) batch.cancel(first);
        if (fate == Fate::paused) batch.pause(first);
        if (fate == Fate::replaced) {
          batch.cancel(first);
          batch.add({.prompt = Tokens{3}, .options = options, .source = std::mt19937_64{9}, .number = first});
        }
        if (fate == Fate::draft_fails) small.fails_at = small.calls + 1;
        if (fate == Fate::call_fails) target.fails_at = target.calls + 1;
        for (int tries = 0; !batch.empty(); ++tries) {
          REQUIRE(tries < 100);
          try {
            step();
          } catch (const Bookkeeper::Failure&) {
          }
        }
        CHECK(texts.at(a) == alone(models, {}, prompt, parent, 0, 0, 1));
        CHECK(texts.at(b) == alone(models, {}, prompt, parent, 0, 0, 2));
        CHECK(target.contexts.empty());
      }
}

TEST_CASE("a twin that waits for a text may leave: it reads for itself, here or elsewhere") {
  const Models models = models_of(7);
  const Tokens prompt{0, 1, 2, 1};
  Forking target(models.target), other(models.target);
  Forking small(models.small), small_there(models.small);
  Lines<Forking> batch{target, Together{small}}, there{other, Together{small_there}};
  there.add(
      {.prompt = Tokens{3, 3, 3, 3, 3, 3}, .options = options, .source = std::mt19937_64{9}, .number = 0});
  const Index first = batch.add(prompt, options, std::mt19937_64{0});
  const Index a = batch.fork(first, std::mt19937_64{1}), b = batch.fork(first, std::mt19937_64{2});
  there.add(batch.pause(a));
  batch.add(batch.pause(b));
  CHECK(texts_of(there).at(a) == alone(models, {}, prompt, options, 0, 0, 1));
  CHECK(texts_of(batch).at(b) == alone(models, {}, prompt, options, 0, 0, 2));
}

TEST_CASE("a twin that leaves while it waits leaves the others waiting, and who waits for it goes on") {
  const Models models = models_of(12);
  const Tokens prompt(20, 1);
  for (const bool paused : {false, true}) {
    Forking target(models.target);
    Forking small(models.small);
    Lines<Forking> batch{target, Together{small}, {}, {.tokens_per_call = 6}};
    const Index first = batch.add(prompt, options, std::mt19937_64{0});
    const auto twin_of = [&](Index text, std::uint64_t seed) {
      return batch.fork(text, std::mt19937_64{seed});
    };
    const Index gone = twin_of(first, 1), a = twin_of(first, 2), orphan = twin_of(gone, 3),
                b = twin_of(first, 4);
    const Index over = batch.fork(
        first, {.source = std::mt19937_64{5}, .options = Options{.max_new_tokens = 0, .gamma = 3}});
    batch.propose();
    if (paused) batch.pause(gone);
    else CHECK(batch.cancel(gone).tokens.empty());
    const auto finished = batch.step();
    REQUIRE(finished.size() == 1);
    CHECK(finished[0].sequence == over);
    CHECK(target.forks == 0);  // a and b still wait
    const auto texts = texts_of(batch);
    CHECK(target.forks == 2);
    CHECK(texts.size() == 4);
    CHECK(texts.at(first) == alone(models, {}, prompt, options, 0, 0, 0));
    CHECK(texts.at(a) == alone(models, {}, prompt, options, 0, 0, 2));
    CHECK(texts.at(orphan) == alone(models, {}, prompt, options, 0, 0, 3));
    CHECK(texts.at(b) == alone(models, {}, prompt, options, 0, 0, 4));
    CHECK(target.contexts.empty());
    CHECK(small.contexts.empty());
  }
}

TEST_CASE("a result tells how many tokens of its prompt were there already") {
  const Models models = models_of(13);
  const Tokens prompt{0, 1, 2, 1, 0, 3, 3, 1}, turn{2};
  const auto size = std::ssize(prompt);
  const auto check = [&](auto target, Index copied, Index copied_late) {
    Forking small(models.small);
    Lines<decltype(target)> batch{target, Together{small}};
    const Index first =
        batch.add({.prompt = prompt, .options = options, .source = std::mt19937_64{0}, .stays = true});
    const Index twin = batch.fork(first, std::mt19937_64{1});
    CHECK(batch.cancel(batch.fork(first, std::mt19937_64{1})).cached == 0);
    batch.step();
    const Index late = batch.fork(first, std::mt19937_64{2});
    std::map<Index, Index> cached;
    Index tokens = 0;
    for (const Finished& done : batch.run()) {
      cached[done.sequence] = done.result.cached;
      if (done.sequence == first) tokens = std::ssize(done.result.tokens);
    }
    CHECK(cached == std::map<Index, Index>{{first, 0}, {twin, copied}, {late, copied_late}});
    batch.add_turn(first, turn, options);
    const auto finished = batch.run();
    REQUIRE_FALSE(finished.empty());
    CHECK(finished[0].result.cached == size + tokens - 1);
  };
  check(Forking(models.target), size - 1, size);
  check(Bookkeeper(models.target), 0, 0);
}

TEST_CASE("a twin takes over no more than what its text still has in common with it") {
  const Models models = models_of(9);
  const Tokens prompt{0, 1, 2, 1}, turn{3, 2, 0};
  for (const bool of_twin : {false, true}) {
    Forking target(models.target);
    Forking small(models.small);
    Lines<Forking> batch{target, Together{small}};
    const Index first = batch.add(prompt, options, std::mt19937_64{0}),
                twin = batch.fork(first, std::mt19937_64{1});
    batch.add_turn(of_twin ? twin : first, turn, options);
    Tokens longer = prompt;
    longer.insert(longer.end(), turn.begin(), turn.end());
    const auto texts = texts_of(batch);
    CHECK(target.forks == 1);
    CHECK(texts.at(first) == alone(models, {}, of_twin ? prompt : longer, options, 0, 0, 0));
    CHECK(texts.at(twin) == alone(models, {}, of_twin ? longer : prompt, options, 0, 0, 1));
  }
}

// A target may make things of a number's own when it copies a context, and the caller knows the number only after fork().
TEST_CASE("the target copies a context at the next step, or when the parent leaves, and not within fork()") {
  for (const int way : {0, 1, 2}) {
    const support::Models models = models_of(31);
    Forking target{models.target};
    Forking small{models.small};
    Lines<Forking> batch{target, Together{small}, Rule{}};
    const Index text = batch.add(Tokens{1, 2, 3}, {.max_new_tokens = 6, .gamma = 2}, std::mt19937_64{1});
    batch.step();
    batch.fork(text, std::mt19937_64{2});
    CHECK(target.forks == 0);
    if (way == 0) batch.step();
    if (way == 1) batch.pause(text);
    if (way == 2) batch.cancel(text);
    CHECK(target.forks == 1);
    texts_of(batch);
  }
}

TEST_CASE("fork() names what it refuses, and leaves the batch as before") {
  const Models models = models_of(8);
  Bookkeeper target(models.target);
  Forking small(models.small);
  Lines<Bookkeeper> batch{target, Together{small}};
  const Index first = batch.add(Tokens{1, 2}, options, std::mt19937_64{0});
  CHECK(message_of([&] { batch.fork(5, std::mt19937_64{1}); }).find("no sequence 5") != std::string::npos);
  CHECK(message_of([&] {
          batch.fork(first, {.source = std::mt19937_64{1}, .cached = -1});
        }).find("cached = -1") != std::string::npos);
  CHECK(message_of([&] {
          batch.fork(first, {.source = std::mt19937_64{1}, .cached = 3});
        }).find("cached = 3") != std::string::npos);
  const auto refused = [&](const Options& other) {
    return message_of([&] { batch.fork(first, {.source = std::mt19937_64{1}, .options = other}); });
  };
  CHECK(refused({.gamma = -1}).find("gamma = -1") != std::string::npos);
  CHECK(refused({.stop_tokens = {9}}).find("stop_tokens[0] = 9") != std::string::npos);
  CHECK(refused({.log_probabilities = {.processed = true}}).find("log_probabilities differ") !=
        std::string::npos);
  CHECK(message_of([&] {
          batch.fork(first, {.source = std::mt19937_64{1}, .number = -2});
        }).find("number = -2") != std::string::npos);
  CHECK(message_of([&] {
          batch.fork(first, {.source = std::mt19937_64{1}, .number = first});
        }).find("there is a sequence 0") != std::string::npos);
  CHECK(batch.size() == 1);
  CHECK(texts_of(batch).at(first) == alone(models, Rule{}, Tokens{1, 2}, options, 0, 0, 0));
}

}  // namespace test_loop_requests_fork

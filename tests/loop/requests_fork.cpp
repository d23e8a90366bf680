// A twin of a text writes what the text would have written with the twin's random numbers. Where the target can copy a
// context, a prompt is read once for all of its samples, whatever happens to the first of them.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
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

struct Rule
    : support::AnyOf<false, specdec::BlockVerifier, specdec::GreedyBlockVerifier, specdec::ArgmaxVerifier> {};

// Gives a new sequence a copy of a context, now and then not.
class Forking : public Bookkeeper {
 public:
  using Bookkeeper::Bookkeeper;

  void fork(Index from, Index to) {
    ++forks;
    if (refuses) throw Failure();
    if (contexts.contains(to)) throw std::logic_error("the number has a context already");
    contexts[to] = contexts.at(from);
  }

  Index forks = 0;
  bool refuses = false;
};

using Together = ModelDrafter<Bookkeeper&>;
template <class Target>
using Lines = Batch<Target&, Together, Rule>;

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
Tokens alone(const Models& models, const Rule& rule, const Tokens& prompt, const Options& options,
             std::uint64_t seed, int steps, std::uint64_t then) {
  specdec::SpecDec decoder{Table(models.target), ModelDrafter{Table(models.small)}, rule};
  auto sequence = decoder.start(prompt, options);
  std::mt19937_64 first(seed), second(then);
  for (int step = 0; step < steps; ++step) sequence.step(first);
  return sequence.generate(second).tokens;
}

const Options options{.max_new_tokens = 24, .gamma = 3};

// Twins after some steps, between steps or with a proposal out.
template <class Target>
void check_twins(const Rule& rule, int steps, bool in_flight, BatchOptions how = {}) {
  const Models models = models_of(3);
  const Tokens prompt{0, 1, 2, 1, 0, 3, 3, 1};
  Target target(models.target);
  Bookkeeper small(models.small);
  Lines<Target> batch{target, Together{small}, rule, how};
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
  for (const Rule& rule : {Rule{{specdec::BlockVerifier{}}}, Rule{{specdec::GreedyBlockVerifier{}}},
                           Rule{{specdec::ArgmaxVerifier{}}}})
    for (const int steps : {0, 1, 3})
      for (const bool in_flight : {false, true})
        for (const Index most : {specdec::unlimited, Index{6}}) {
          check_twins<Bookkeeper>(rule, steps, in_flight, {.tokens_per_call = most});
          check_twins<Forking>(rule, steps, in_flight, {.tokens_per_call = most});
        }
}

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
  const specdec::Result expected = sequence.generate(two);
  for (const Finished& done : batch.run()) {
    if (done.sequence != twin) continue;
    CHECK(done.result.tokens == expected.tokens);
    CHECK(done.result.stats.drafted == expected.stats.drafted);
    CHECK(done.result.stats.drafted > 5);
  }
}

TEST_CASE("a twin writes what its text would have written, drafted by a cascade") {
  const Models models = models_of(10);
  const Table middle = models_of(11).small;
  const Tokens prompt{0, 1, 2, 0, 1};
  Bookkeeper target(models.target), many_middle(middle);
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
}

TEST_CASE("samples of one prompt read it once, if the target can copy a context") {
  const Models models = models_of(4);
  const Tokens prompt(1000, 2);
  for (const Index most : {specdec::unlimited, Index{64}}) {
    Forking target(models.target);
    Bookkeeper small(models.small);
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
  }
}

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
        Bookkeeper small(models.small);
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
  Bookkeeper small(models.small), small_there(models.small);
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

TEST_CASE("a twin takes over no more than what its text still has in common with it") {
  const Models models = models_of(9);
  const Tokens prompt{0, 1, 2, 1}, turn{3, 2, 0};
  for (const bool of_twin : {false, true}) {
    Forking target(models.target);
    Bookkeeper small(models.small);
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
    Bookkeeper small{models.small};
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
  Bookkeeper target(models.target), small(models.small);
  Lines<Bookkeeper> batch{target, Together{small}};
  const Index first = batch.add(Tokens{1, 2}, options, std::mt19937_64{0});
  CHECK(message_of([&] { batch.fork(5, std::mt19937_64{1}); }).find("no sequence 5") != std::string::npos);
  CHECK(message_of([&] { batch.fork(first, std::mt19937_64{1}, {}, {.cached = -1}); }).find("cached = -1") !=
        std::string::npos);
  CHECK(message_of([&] { batch.fork(first, std::mt19937_64{1}, {}, {.cached = 3}); }).find("cached = 3") !=
        std::string::npos);
  CHECK(batch.size() == 1);
}

}  // namespace test_loop_requests_fork

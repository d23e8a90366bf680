// A text that runs goes on with other options. Whenever they come, the text is as if they had come between two steps; and
// whatever gamma is from step to step, the text keeps its law.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/more/lengths/cost_optimal_length.hpp>
#include <specdec/more/lengths/early_stopping_length.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
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
#include "support/rows_asked.hpp"
#include "support/rules.hpp"

namespace test_loop_change {

using namespace specdec;
using namespace support;

namespace {

using Table = testing::TableModel<>;
using Tokens = std::vector<Token>;

const Tokens prompt{0, 1};

Tokens copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

std::string letters(Token x) { return std::string(1, static_cast<char>('a' + x)); }

template <class Sequence, class Source>
void take_step(const Table& target, Sequence& sequence, Source& source, const auto& in_flight) {
  const Feed feed = sequence.propose(source);
  const auto rows = rows_asked(target, sequence.context(), feed);
  in_flight();
  sequence.accept(rows, source);
}

// Chosen by the text so far and by how many steps it took, as by a scheduler that sees both.
Index any_gamma(const Tokens& tokens, Index steps) {
  Index sum = steps;
  for (const Token x : tokens) sum = 3 * sum + x;
  return sum % 4;
}

// The largest difference from the target's law if gamma changes after and within steps.
template <class V, class Make>
double difference(std::uint64_t seed, const V& rule, const Make& drafter_of) {
  const Models models = models_of(seed, 2);
  const Options options{.max_new_tokens = 4, .gamma = 2};
  testing::Law law;
  std::map<Index, int> drafted;
  testing::enumerate([&](testing::Enumerator& chance) {
    SpecDec decoder{ExternalTarget{2}, drafter_of(models.small), V(rule)};
    auto sequence = decoder.start(prompt, options);
    for (Index steps = 0; !sequence.done(); ++steps) {
      Options other = options;
      other.gamma = any_gamma(copy(sequence.tokens()), steps);
      if (steps % 2 == 1) sequence.change(other);
      take_step(models.target, sequence, chance, [&] {
        ++drafted[std::ssize(sequence.draft().tokens)];
        if (steps % 2 == 0) sequence.change(other);
      });
    }
    law[copy(sequence.tokens())] += chance.probability();
  });
  CHECK(drafted.size() >= (judges_trees<V> ? 2 : 3));
  return testing::largest_difference(law, testing::target_law(models.target, prompt, options)).size;
}

}  // namespace

TEST_CASE("a text keeps the target's law, to 1e-12, if gamma changes at will") {
  const auto line = [](const Table& small) { return ModelDrafter{Table(small)}; };
  for (const std::uint64_t seed : {1u, 2u, 3u})
    for (const AnyVerifier& rule : sampling_rules) {
      INFO(rule.name());
      CHECK(difference(seed, for_loops(rule), line) <= 1e-12);
    }
#ifndef SPECDEC_TEST_SOME
  const auto tree = [](const Table& small) {
    return ModelDrafter{Table(small), Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}};
  };
  CHECK(difference(4, TraversalVerifier{}, tree) <= 1e-12);
#endif
}

namespace {

// Rules that remember nothing.
struct Rule : AnyOf<true, BlockVerifier, TokenVerifier, SampleMatchVerifier> {};

// Options for a text with so many new tokens.
Options any_options(std::mt19937_64& dice, Index written, Index least_budget) {
  const auto below = [&](int n) { return static_cast<Index>(uniform01(dice) * n); };
  Options options{.max_new_tokens = std::max(written - 1 + below(16), least_budget),
                  .gamma = below(5),
                  .min_new_tokens = below(3) == 0 ? written + below(3) : 0};
  if (below(3) == 0) options.stop_tokens = {static_cast<int>(below(4))};
  if (below(3) == 0) options.stop_strings = {{"cbc", "dda", "bb"}, letters};
  if (below(4) == 0)
    options.ends = [](std::span<const Token> tokens) { return tokens.size() % 9 == 8 && tokens.back() == 2; };
  return options;
}

void check_same(const Result& a, const Result& b) {
  CHECK(a.tokens == b.tokens);
  CHECK(a.stop_reason == b.stop_reason);
  CHECK(a.stop_match == b.stop_match);
  CHECK(a.stats.target_calls == b.stats.target_calls);
  CHECK(a.stats.drafted == b.stats.drafted);
  CHECK(a.stats.accepted_lengths == b.stats.accepted_lengths);
}

// Two sequences in one state, with equal random numbers: the options of one change while its proposal is out, those of the
// other after the step, or before it if the proposal is taken back. Budgets that `grow` do not shrink. Returns how often a text
// had ended.
template <bool grow, class Make>
int check_waits(const Make& make, const Table& target, std::uint64_t seed) {
  std::mt19937_64 dice(seed), source(seed);
  const auto one_in = [&](int n) { return uniform01(dice) * n < 1; };
  const Options begun{.max_new_tokens = 20, .gamma = 3};
  auto early_decoder = make(), late_decoder = make();
  auto early = early_decoder.start(prompt, begun), late = late_decoder.start(prompt, begun);
  int ends = 0;
  Index least = grow ? begun.max_new_tokens : 0;
  const auto nothing = [] {};
  for (int round = 0; round < 60; ++round) {
    if (late.done()) {
      ++ends;
      least = grow ? begun.max_new_tokens : 0;
      early.add_turn(Tokens{2}, begun);
      late.add_turn(Tokens{2}, begun);
    }
    const Options other = any_options(dice, std::ssize(early.tokens()), least);
    const bool changes = one_in(2), fails = one_in(4);
    std::mt19937_64 again = source;
    const auto change = [&] {
      if (!changes) return;
      early.change(any_options(dice, 5, least));  // the last change counts
      early.change(other);
      if (grow) least = other.max_new_tokens;
    };
    if (fails) {
      early.propose(source);
      change();
      source = again;
      if (changes) late.change(other);
      early.propose(source);
      CHECK(early.done() == late.done());
      if (late.done()) continue;
      source = again;
      take_step(target, early, source, nothing);
      take_step(target, late, again, nothing);
    } else {
      take_step(target, early, source, change);
      take_step(target, late, again, nothing);
      if (changes && late.done() && !early.done()) {  // a larger budget came just in time
        CHECK(late.result().stop_reason == StopReason::length);
        CHECK(other.max_new_tokens > std::ssize(late.tokens()));
        CHECK(copy(early.tokens()) == copy(late.tokens()));
        continue;
      }
      if (changes && !late.done()) late.change(other);
    }
    check_same(early.result(), late.result());
    CHECK(early.done() == late.done());
    CHECK(source == again);
  }
  return ends;
}

}  // namespace

TEST_CASE("options that come while a proposal is out hold from the end of the step on") {
  const Models models = models_of(5);
  int ends = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(bound(24, 200)); ++seed) {
    const auto check = [&]<bool grow>(const auto& rule) {
      const auto make = [&] { return SpecDec{ExternalTarget{4}, ModelDrafter{Table(models.small)}, rule}; };
      ends += check_waits<grow>(make, models.target, seed);
    };
    for (const Rule& rule : {Rule{{BlockVerifier{}}}, Rule{{TokenVerifier{}}}, Rule{{SampleMatchVerifier{}}}})
      check.operator()<false>(rule);
    check.operator()<true>(GreedyBlockVerifier{});
  }
  CHECK(ends > bound(200));
#ifndef SPECDEC_TEST_SOME
  for (std::uint64_t seed = 0; seed < 16; ++seed)
    check_waits<false>(
        [&] {
          return SpecDec{
              ExternalTarget{4},
              ModelDrafter{Table(models.small), Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}},
              TraversalVerifier{}};
        },
        models.target, seed);
#endif
}

// Drafts never go beyond a budget that only grows, so nothing is remembered where it ends.
TEST_CASE(
    "a budget that grows lets the text go on, also while the last step is out, and the text keeps its law") {
  const Models models = models_of(3, 2);
  const Options options{.max_new_tokens = 5, .gamma = 3};
  testing::Law law;
  int just_in_time = 0;
  testing::enumerate([&](testing::Enumerator& chance) {
    SpecDec decoder{ExternalTarget{2}, ModelDrafter{Table(models.small)}, GreedyBlockVerifier{}};
    Options growing{.max_new_tokens = 2, .gamma = 3};
    auto sequence = decoder.start(prompt, growing);
    while (!sequence.done())
      take_step(models.target, sequence, chance, [&] {
        const Index left = growing.max_new_tokens - std::ssize(sequence.tokens());
        if (left > 2 || growing.max_new_tokens == options.max_new_tokens) return;
        ++growing.max_new_tokens;
        sequence.change(growing);
        ++just_in_time;
      });
    law[copy(sequence.tokens())] += chance.probability();
  });
  CHECK(just_in_time > 0);
  CHECK(testing::largest_difference(law, testing::target_law(models.target, prompt, options)).size <= 1e-12);
}

TEST_CASE("under a rule that remembers the text no budget shrinks") {
  const Models models = models_of(3, 2);
  SpecDec decoder{Table(models.target), ModelDrafter{Table(models.small)}, GreedyBlockVerifier{}};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 9, .gamma = 3});
  CHECK(
      message_of<InvalidArgument>([&] { sequence.change({.max_new_tokens = 8, .gamma = 0}); }) ==
      "specdec: max_new_tokens = 8 is less than before, up to where the rule remembers drafts: use cancel()");
  sequence.change({.max_new_tokens = 9, .gamma = 0});
}

// The text is a b c d a b c d ..., and all drafts are accepted.
namespace {

Table alphabet() {
  Table::Rows rows(5, 4);
  rows << 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0;
  return Table(rows, 1);
}

struct Alphabet {
  SpecDec<Table, ModelDrafter<Table>> decoder{alphabet(), ModelDrafter{alphabet()}};
  decltype(decoder)::Sequence sequence;
  std::mt19937_64 rng{1};

  explicit Alphabet(const Options& options) : sequence(decoder.start(Tokens{3}, options)) {}
  std::string text() const {
    std::string text;
    for (const Token x : sequence.tokens()) text += letters(x);
    return text;
  }
  std::string rest() {
    sequence.generate(rng);
    return text();
  }
};

}  // namespace

TEST_CASE("new options count what is written, and look for stops from there on") {
  const Options options{.max_new_tokens = 12, .gamma = 2};
  const auto changed = [&](const Options& other, int steps = 1) {
    Alphabet run(options);
    while (steps-- > 0) run.sequence.step(run.rng);
    run.sequence.change(other);
    const std::string text = run.rest();
    return std::pair{text, run.sequence.result()};
  };
  const auto ends = [&](const Options& other, const std::string& text, StopReason reason) {
    const auto [written, result] = changed(other);  // after abc
    CHECK(written == text);
    CHECK(result.stop_reason == reason);
  };
  ends(options, "abcdabcdabcd", StopReason::length);
  ends({.max_new_tokens = 20, .gamma = 1}, "abcdabcdabcdabcdabcd", StopReason::length);
  ends({.max_new_tokens = 4, .gamma = 5}, "abcd", StopReason::length);
  for (const Index spent : {3, 2, 0}) ends({.max_new_tokens = spent}, "abc", StopReason::length);
  ends({.max_new_tokens = 12, .stop_tokens = {1}}, "abcdab", StopReason::stop_token);
  ends({.max_new_tokens = 12, .stop_tokens = {1}, .min_new_tokens = 7}, "abcdabcdab", StopReason::stop_token);
  ends({.max_new_tokens = 12, .ends = [](std::span<const Token> tokens) { return tokens.size() == 5; }},
       "abcda", StopReason::condition);
  ends({.max_new_tokens = 12, .stop_strings = {{"bcd"}, letters}}, "abcd", StopReason::stop_string);
  ends({.max_new_tokens = 12, .stop_strings = {{"bc"}, letters}}, "abcdabc", StopReason::stop_string);
  CHECK(changed({.max_new_tokens = 12, .stop_strings = {{"bc"}, letters}}).second.stop_match ==
        StopMatch{0, 5, 7});
  CHECK(changed({.max_new_tokens = 0}, 0).first.empty());

  Alphabet stops({.max_new_tokens = 12, .gamma = 2, .stop_tokens = {3}});
  stops.sequence.step(stops.rng);
  stops.sequence.change(options);  // nothing stops it any more
  CHECK(stops.rest() == "abcdabcdabcd");
}

TEST_CASE("drafts end with gamma = 0 and come back, while everything else stays") {
  Options options{.max_new_tokens = 9, .gamma = 3};
  Alphabet run(options);
  run.sequence.step(run.rng);
  CHECK(run.sequence.stats().drafted == 3);
  for (int step = 0; step < 2; ++step) {
    options.gamma = 0;
    run.sequence.change(options);
    CHECK(run.sequence.step(run.rng).size() == 1);
  }
  CHECK(run.sequence.stats().drafted == 3);
  options.gamma = 3;
  run.sequence.change(options);
  run.sequence.step(run.rng);
  CHECK(run.sequence.stats().drafted > 3);
  CHECK(run.sequence.stats().target_calls == 4);
}

TEST_CASE("the prompt's log-probabilities are told if the new budget asks for nothing else") {
  const LogProbabilityOptions of_prompt{.processed = true, .prompt = true};
  SpecDec decoder{alphabet(), ModelDrafter{alphabet()}};
  std::mt19937_64 rng{1};
  const Tokens text{0, 1, 2};
  auto sequence = decoder.start(text, {.max_new_tokens = 5, .log_probabilities = of_prompt});
  sequence.change({.max_new_tokens = 0, .log_probabilities = of_prompt});
  const Result result = sequence.generate(rng);
  CHECK(result.tokens.empty());
  CHECK(result.prompt_log_probabilities.size() == 2);
}

TEST_CASE("options that cannot be are refused by name, and the text goes on as before") {
  Options options{.max_new_tokens = 8, .gamma = 2};
  const auto throwing = [](Token x) {
    if (x == 2) throw std::runtime_error("no such token");
    return letters(x);
  };
  for (const bool out : {false, true}) {
    SpecDec decoder{ExternalTarget{4}, ModelDrafter{alphabet()}};
    auto sequence = decoder.start(Tokens{3}, options);
    std::mt19937_64 rng{1};
    take_step(alphabet(), sequence, rng, [] {});
    const auto refuse = [&] {
      const auto refused = [&](const Options& other) {
        return message_of<InvalidArgument>([&] { sequence.change(other); });
      };
      CHECK(refused({.gamma = -1}) == "specdec: gamma = -1 is negative");
      CHECK(refused({.max_new_tokens = -1}) == "specdec: max_new_tokens = -1 is negative");
      CHECK(refused({.min_new_tokens = -1}) == "specdec: min_new_tokens = -1 is negative");
      CHECK(refused({.stop_tokens = {0, 4}}).starts_with("specdec: stop_tokens[1] = 4"));
      CHECK(refused({.log_probabilities = {.processed = true}}) ==
            "specdec: log_probabilities differ from those that the text was begun with");
      CHECK(message_of<std::runtime_error>([&] {
              sequence.change({.max_new_tokens = 4, .stop_strings = {{"x"}, throwing}});
            }) == "no such token");
    };
    if (out) take_step(alphabet(), sequence, rng, refuse);
    else refuse();
    while (!sequence.done()) take_step(alphabet(), sequence, rng, [] {});
    CHECK(copy(sequence.tokens()) == Tokens{0, 1, 2, 3, 0, 1, 2, 3});
    CHECK(message_of<InvalidCall>([&] { sequence.change(options); }) ==
          "specdec: sequence 0 has ended: it goes on by add_turn()");
  }
}

TEST_CASE("new stop strings that fail at a token of the step that was out cost no token of it") {
  bool fails = true;
  const auto bytes = [&](Token x) {
    if (fails && x == 3) throw std::runtime_error("no such token");
    return letters(x);
  };
  const Options options{.max_new_tokens = 12, .gamma = 2},
      other{.max_new_tokens = 12, .gamma = 1, .stop_strings = {{"cdab"}, bytes}};
  SpecDec decoder{ExternalTarget{4}, ModelDrafter{alphabet()}};
  auto sequence = decoder.start(Tokens{3}, options);
  std::mt19937_64 rng{1};
  take_step(alphabet(), sequence, rng, [] {});
  take_step(alphabet(), sequence, rng, [&] { sequence.change(other); });
  CHECK(copy(sequence.tokens()) == Tokens{0, 1, 2, 3, 0, 1});
  CHECK(message_of<std::runtime_error>([&] { sequence.propose(rng); }) == "no such token");
  fails = false;
  while (!sequence.done()) take_step(alphabet(), sequence, rng, [] {});
  CHECK(copy(sequence.tokens()) == Tokens{0, 1, 2, 3, 0, 1, 2, 3, 0, 1});
  CHECK(sequence.result().stop_match == StopMatch{0, 6, 10});
}

TEST_CASE("options that wait go with a copy of the text, and not with its next turn") {
  const Options options{.max_new_tokens = 8, .gamma = 2}, none{.max_new_tokens = 6, .gamma = 0};
  SpecDec decoder{ExternalTarget{4}, ModelDrafter{alphabet()}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(Tokens{3}, options);
  sequence.propose(rng);
  sequence.change(none);
  auto twin = sequence.fork(), other = sequence.fork(options), same = sequence;
  CHECK(twin.propose(rng).rows == 1);
  CHECK(other.propose(rng).rows == 3);
  CHECK(same.propose(rng).rows == 1);
  for (auto* each : {&twin, &other, &same}) {
    while (!each->done()) take_step(alphabet(), *each, rng, [] {});
    CHECK(std::ssize(each->tokens()) == (each == &other ? 8 : 6));
  }
  sequence.add_turn(Tokens{}, options);
  CHECK(sequence.propose(rng).rows == 3);
}

namespace {

using Together = ModelDrafter<Bookkeeper&>;

// Requests whose options change at any time: between steps, while their proposals are out, from callbacks, while they are
// paused or in a call that fails. Nothing but the end of a keyed text depends on them.
template <class V, class Of>
void check_schedule(const V& rule, const Of& source_of, Index most, std::uint64_t seed) {
  const Models models = models_of(7);
  std::mt19937_64 dice(seed);
  const auto below = [&](Index n) { return static_cast<Index>(uniform01(dice) * static_cast<double>(n)); };
  Bookkeeper target(models.target), small(models.small);
  Batch<Bookkeeper&, Together, V> batch{target, Together{small}, rule, {.tokens_per_call = most}};
  constexpr Index texts = 4;
  std::vector<Index> budgets(texts, 30), written_then(texts, 0);  // of the last change
  const auto options_of = [&](Index text, Index written) {
    Options options{.max_new_tokens = std::max<Index>(written - 2 + below(20), 0), .gamma = below(5)};
    budgets[static_cast<std::size_t>(text)] = options.max_new_tokens;
    written_then[static_cast<std::size_t>(text)] = written;
    return options;
  };
  const auto change = [&](Index text) {
    const auto& sequence = batch.sequence(text);
    if (sequence.done()) return;
    batch.change(text, options_of(text, std::ssize(sequence.tokens())));
  };
  const auto on_step = [&](Index text) {
    return [&, text](std::span<const Token>) {
      if (below(3) == 0) change(text);
      if (below(9) == 0) change((text + 1) % texts);
    };
  };
  std::map<Index, Tokens> written;
  const auto tell = [&](std::span<const Finished> finished) {
    for (const Finished& done : finished) {
      REQUIRE_FALSE(done.error);
      written[done.sequence] = done.result.tokens;
    }
  };
  for (Index i = 0; i < texts; ++i)
    batch.add({.prompt = prompt_of(i),
               .options = {.max_new_tokens = 30, .gamma = 3},
               .source = source_of(i),
               .on_step = OnStep(on_step(i)),
               .stays = true});
  for (int round = 0; !batch.empty(); ++round) {
    REQUIRE(round < 1000);
    const Index some = below(texts);
    switch (below(6)) {
      case 0:
        change(some);
        break;
      case 1: {
        auto paused = batch.pause(some);
        if (!paused.sequence().done())
          paused.change(options_of(some, std::ssize(paused.sequence().tokens())));
        batch.add(std::move(paused));
        break;
      }
      case 2: {
        const auto rows = target.forward(batch.propose());
        change(some);
        tell(batch.accept(rows));
        break;
      }
      case 3:
        target.fails_behind = target.calls + 1;
        try {
          tell(batch.step());
        } catch (const Bookkeeper::Failure&) {
        }
        target.fails_behind = -1;
        change(some);
        break;
      default:
        tell(batch.step());
    }
  }
  for (Index i = 0; i < texts; ++i) {
    SpecDec decoder{Table(models.target), ModelDrafter{Table(models.small)}, rule};
    auto source = source_of(i);
    const Tokens& text = written.at(i);
    const Index budget = budgets[static_cast<std::size_t>(i)], size = std::ssize(text),
                then = written_then[static_cast<std::size_t>(i)];
    if (size != budget) {  // it was spent when it came, or by the step that was out
      CHECK(size > budget);
      CHECK(size <= then + 5);
    }
    CHECK(decoder.generate(prompt_of(i), {.max_new_tokens = size, .gamma = 2}, source).tokens == text);
  }
}

}  // namespace

TEST_CASE("a request's options change at any time, and a text for a seed is as it was") {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(bound(40, 300)); ++seed)
    for (const Index most : {unlimited, Index{7}}) {
      check_schedule(
          KeyedVerifier{}, [](Index text) { return Keyed{static_cast<std::uint64_t>(text)}; }, most, seed);
#ifndef SPECDEC_TEST_SOME
      check_schedule(
          ArgmaxVerifier{}, [](Index text) { return std::mt19937_64{static_cast<std::uint64_t>(text)}; },
          most, seed);
#endif
    }
}

TEST_CASE("a condition may change the options of the text that asks it") {
  const Models models = models_of(8);
  for (const bool fails : {false, true}) {
    Bookkeeper target(models.target), small(models.small);
    Batch batch{target, Together{small}, BlockVerifier{}};
    Options options{.max_new_tokens = 9, .gamma = 3};
    Index text = -1;
    int asked = 0;
    options.ends = [&, held = std::string(1000, 'x')](std::span<const Token>) {
      if (asked++ == 0) {
        batch.change(text, {.max_new_tokens = 5, .gamma = 0});
        if (fails) throw std::runtime_error("not now");
      }
      return held[999] != 'x';
    };
    text = batch.add(prompt, options, std::mt19937_64{1});
    const auto done = batch.run();
    if (fails && done.at(0).error) continue;  // the target accepted the token
    CHECK(done.at(0).result.tokens.size() == 5);
    CHECK(asked > 0);
  }
}

TEST_CASE("a batch refuses a change by the number of the text, and for what does not fit in a call") {
  const Models models = models_of(8);
  Bookkeeper target(models.target), small(models.small);
  Batch batch{target, Together{small}, BlockVerifier{}, {.tokens_per_call = 6}};
  const Options options{.max_new_tokens = 6, .gamma = 2};
  const Index text =
      batch.add({.prompt = prompt, .options = options, .source = std::mt19937_64{1}, .stays = true});
  CHECK(message_of([&] { batch.change(3, options); }) == "specdec: there is no sequence 3 in the batch");
  CHECK(message_of([&] {
          batch.change(text, {.gamma = 6});
        }).starts_with("specdec: gamma = 6 and one more token do not fit in a call"));
  auto paused = batch.pause(text);
  CHECK(message_of([&] { paused.change({.gamma = -2}); }) == "specdec: gamma = -2 is negative");
  paused.change({.max_new_tokens = 6, .gamma = 9});  // it may go elsewhere
  CHECK(message_of([&] { batch.add(std::move(paused)); }).starts_with("specdec: gamma = 9"));
  paused.change(options);
  batch.add(std::move(paused));
  CHECK(message_of<InvalidCall>([&] { paused.change(options); }).find("added before") != std::string::npos);
  CHECK(batch.run().at(0).result.tokens.size() == 6);
  CHECK(message_of<InvalidCall>([&] { batch.change(text, options); }) ==
        "specdec: sequence 0 has ended: it goes on by add_turn()");
}

TEST_CASE("a paused request is forked, stays paused, and is as before") {
  const Models models = models_of(9);
  const Options options{.max_new_tokens = 20, .gamma = 3};
  const auto batch_of = [&] {
    return Batch{ModelPerSequence{Table(models.target)}, SuffixDrafter<>{}, BlockVerifier{}};
  };
  const auto result_of = [](auto& batch, Index number) {
    for (const Finished& done : batch.run())
      if (done.sequence == number) return done.result;
    return Result{};
  };
  for (const bool elsewhere : {false, true}) {
    // What the text and a twin of it would write.
    auto alone = batch_of();
    const Index text = alone.add(prompt, options, std::mt19937_64{1});
    for (int step = 0; step < 3; ++step) alone.step();
    const Index twin = alone.fork(text, std::mt19937_64{2});
    std::map<Index, Result> expected;
    for (const Finished& done : alone.run()) expected[done.sequence] = done.result;

    auto batch = batch_of(), other = batch_of();
    batch.add(prompt, options, std::mt19937_64{1});
    for (int step = 0; step < 3; ++step) batch.step();
    auto paused = batch.pause(text);
    auto& there = elsewhere ? other : batch;
    CHECK(message_of([&] {
            there.fork(paused, {.source = std::mt19937_64{2}, .options = Options{.gamma = -1}});
          }) == "specdec: gamma = -1 is negative");
    const Index forked = there.fork(paused, {.source = std::mt19937_64{2}});
    CHECK(forked == text + 1);
    const Index same = there.fork(paused, {.source = std::mt19937_64{2}, .number = 9});
    CHECK(same == 9);
    CHECK(there.size() == 2);
    CHECK(paused.number() == text);
    const Result written = result_of(there, forked);
    CHECK(written.tokens == expected[twin].tokens);
    CHECK(written.stats.drafted == expected[twin].stats.drafted);
    there.add(std::move(paused));
    const Result rest = result_of(there, text);
    CHECK(rest.tokens == expected[text].tokens);
    CHECK(rest.stats.drafted == expected[text].stats.drafted);
    CHECK(message_of<InvalidCall>([&] {
            there.fork(paused, {.source = std::mt19937_64{2}});
          }).find("added before") != std::string::npos);
  }
}

namespace {

template <class Length>
void check_length(Length length) {
  const Models models = models_of(11);
  std::mt19937_64 dice(3), rng(4);
  SpecDec decoder{ExternalTarget{4}, ModelDrafter{Table(models.small)}, BlockVerifier{}, std::move(length)};
  Options options{.max_new_tokens = 600, .gamma = 4};
  auto sequence = decoder.start(prompt, options);
  Index drafted = 0;
  while (!sequence.done()) {
    const Index before = options.gamma;
    take_step(models.target, sequence, rng, [&] {
      CHECK(std::ssize(sequence.draft().tokens) <= before);
      drafted += std::ssize(sequence.draft().tokens);
      if (uniform01(dice) < 0.3) options.gamma = static_cast<Index>(uniform01(dice) * 9);
      sequence.change(options);
    });
  }
  CHECK(drafted > 0);
}

}  // namespace

TEST_CASE("a draft length that learns asks for no more than the new gamma") {
  check_length(ScheduledLength{});
#ifndef SPECDEC_TEST_SOME
  check_length(CostOptimalLength{});
#endif
  check_length(EarlyStoppingLength{});
}

}  // namespace test_loop_change

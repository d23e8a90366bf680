// Drafters of one text, lifted: whose copy drafts for which text, what the copies learn, and what is refused.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/audits/audited_drafter.hpp>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/threads.hpp"

namespace test_draft_lifted_drafter {

using namespace specdec;
using support::message_of;
using testing::AuditedDrafter;
using testing::TableModel;
using Tokens = std::vector<Token>;

static_assert(Drafter<LiftedDrafter<PromptLookupDrafter>> &&
              !OneTextDrafter<LiftedDrafter<PromptLookupDrafter>>);
static_assert(Drafter<LiftedDrafter<SuffixDrafter<>&>>);
static_assert(!drafts_trees<LiftedDrafter<SuffixDrafter<>>> &&
              drafts_trees<LiftedDrafter<SuffixDrafter<Branching>>>);
static_assert(is_steady<LiftedDrafter<PromptLookupDrafter>>);

namespace {

using Many = ModelPerSequence<TableModel<>>;

// What happened to the drafters and to the target, in order.
struct Event {
  enum Kind { begun, drafted, observed, rolled_back, kept_by_target } kind;
  Index text;        // the first token of the text, or its number where the target says so
  Index length = 0;  // of the context, of the emitted tokens or of what stays
  Index learnt = 0;  // how many calls the drafter had observed
};
using Events = std::vector<Event>;

// Repeats the last token. Writes down what it is told, and knows its text by the first token.
struct Diarist {
  std::shared_ptr<Events> events;
  Tokens tokens = {};
  Index text = -1, learnt = 0;

  static constexpr bool drafts_trees = false, steady = false;

  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) {
    text = context.front();
    tokens.assign(static_cast<std::size_t>(std::max<Index>(gamma, 0)), context.back());
    write(Event::drafted, std::ssize(context));
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index length) { write(length == 0 ? Event::begun : Event::rolled_back, length); }
  void observe(const auto& judged) {
    CHECK(judged.rows.rows() == std::ssize(judged.tokens) + 1);
    if (text >= 0) CHECK(std::ranges::equal(judged.tokens, std::span<const Token>(tokens)));
    CHECK(judged.parents.empty());
    ++learnt;
    write(Event::observed, judged.verdict.node + 1);
  }
  void write(Event::Kind kind, Index length) { events->push_back({kind, text, length, learnt}); }
};

// Writes down what it keeps.
struct DiaryTarget : Many {
  DiaryTarget(const TableModel<>& table, std::shared_ptr<Events> to) : Many(table), events(std::move(to)) {}
  void keep(Index sequence, Index length) {
    events->push_back({Event::kept_by_target, sequence, length});
    Many::keep(sequence, length);
  }
  std::shared_ptr<Events> events;
};

TableModel<> random_table(std::uint64_t seed, Index vocab_size = 4) {
  SplitMix64 rng{seed};
  return TableModel<>::random(vocab_size, 2, rng);
}

const Options options{.max_new_tokens = 30, .gamma = 3};
constexpr Index texts = 3;

// Text i begins with token i.
void add_texts(auto& batch) {
  for (Index i = 0; i < texts; ++i)
    REQUIRE(batch.add(Tokens{static_cast<Token>(i), 0}, options, SplitMix64(static_cast<std::uint64_t>(i))) ==
            i);
}

// The same text, written alone.
Result alone(Index i, const TableModel<>& target, auto&& drafter) {
  SpecDec decoder{TableModel<>(target), std::forward<decltype(drafter)>(drafter)};
  SplitMix64 rng{static_cast<std::uint64_t>(i)};
  return decoder.generate(Tokens{static_cast<Token>(i), 0}, options, rng);
}

}  // namespace

TEST_CASE(
    "in a batch each text has a drafter of its own, which observes its steps before it is rolled back") {
  const TableModel<> table = random_table(1);
  const auto events = std::make_shared<Events>();
  Diarist given{events};
  Batch batch{DiaryTarget(table, events), given};
  add_texts(batch);
  std::map<Index, Index> context, calls;
  for (Index i = 0; i < texts; ++i) context[i] = 2;
  while (!batch.empty()) {
    events->clear();
    std::vector<Index> stepping;
    for (Index i = 0; i < texts; ++i)
      if (context.contains(i)) stepping.push_back(i);
    const auto finished = batch.step();
    std::erase_if(*events, [](const Event& event) { return event.kind == Event::begun; });
    // All drafts, then text after text what its drafter observes and drops, then what the target drops.
    const std::size_t n = stepping.size();
    REQUIRE(events->size() == 4 * n);
    for (std::size_t k = 0; k < n; ++k) {
      const Index i = stepping[k];
      const Event &drafted = (*events)[k], &observed = (*events)[n + 2 * k],
                  &rolled = (*events)[n + 2 * k + 1], &kept = (*events)[3 * n + k];
      CHECK(drafted.kind == Event::drafted);
      CHECK(observed.kind == Event::observed);
      CHECK(rolled.kind == Event::rolled_back);
      CHECK(kept.kind == Event::kept_by_target);
      for (const Event& event : {drafted, observed, rolled, kept}) CHECK(event.text == i);
      CHECK(drafted.length == context[i]);
      CHECK(drafted.learnt == calls[i]);
      CHECK(observed.learnt == ++calls[i]);
      CHECK(rolled.length == context[i] + observed.length - 1);  // the last token is not cached
      CHECK(kept.length == rolled.length);
      context[i] += observed.length;
    }
    for (const Finished& done : finished) {
      REQUIRE_FALSE(done.error);
      CHECK(calls[done.sequence] == done.result.stats.target_calls);
      CHECK(done.result.tokens == alone(done.sequence, table, Diarist{std::make_shared<Events>()}).tokens);
      context.erase(done.sequence);
    }
  }
  CHECK(given.text == -1);  // only copies of it were asked
  CHECK(given.learnt == 0);
}

namespace {

// Guesses a 0 after short texts, and nothing after longer ones.
struct GuessesEarly {
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) {
    tokens.assign(context.size() < 12 && gamma > 0 ? 1 : 0, 0);
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index) {}
  Tokens tokens = {};
};

}  // namespace

TEST_CASE(
    "a drafter in a chain observes the steps before its first draft, too, for one text and in a batch") {
  const TableModel<> table = random_table(1);
  const auto learnt_at_first = [](const Events& events, Index text) {
    return std::ranges::find_if(
               events, [=](const Event& event) { return event.kind == Event::drafted && event.text == text; })
        ->learnt;
  };
  const auto events = std::make_shared<Events>();
  Batch batch{Many{table}, FallbackDrafter{GuessesEarly{}, Diarist{events}}};
  add_texts(batch);
  batch.run();
  const auto expected = [&](Index i) {
    const auto of_one = std::make_shared<Events>();
    alone(i, table, FallbackDrafter{GuessesEarly{}, Diarist{of_one}});
    return learnt_at_first(*of_one, i);
  };
  for (Index i = 0; i < texts; ++i) {
    CHECK(expected(i) > 3);
    CHECK(learnt_at_first(*events, i) == expected(i));
  }
#ifndef SPECDEC_TEST_SOME
  const auto by_number = std::make_shared<Events>();
  Batch numbered{Many{table}, FallbackDrafter{GuessesEarly{}, [&](Index) { return Diarist{by_number}; }}};
  add_texts(numbered);
  numbered.run();
  for (Index i = 0; i < texts; ++i) {
    const auto of_function = std::make_shared<Events>();
    alone(i, table, FallbackDrafter{GuessesEarly{}, [&](Index) { return Diarist{of_function}; }});
    CHECK(learnt_at_first(*by_number, i) == expected(i));
    CHECK(learnt_at_first(*of_function, i) == expected(i));
  }
#endif
}

TEST_CASE("a copy begins without the text that the drafter was in, and with what it had learnt") {
  const TableModel<> table = random_table(1);
  const auto events = std::make_shared<Events>();
  Diarist given{events};
  alone(2, table, given);
  const Index learnt = given.learnt;
  REQUIRE(learnt > 0);
  Batch batch{Many{table}, given};
  add_texts(batch);
  events->clear();
  batch.step();
  for (std::size_t k = 0; k < texts; ++k) {
    CHECK((*events)[k].kind == Event::begun);
    CHECK((*events)[texts + k].kind == Event::drafted);
    CHECK((*events)[texts + k].learnt == learnt);
  }
  CHECK(given.learnt == learnt);
}

TEST_CASE("one text is served by the given drafter itself, and what it learnt stays") {
  const TableModel<> table = random_table(1);
  const auto check = [&](auto&& decoder, const Diarist& given) {
    Index calls = 0;
    for (Index i = 0; i < texts; ++i) {
      SplitMix64 rng{static_cast<std::uint64_t>(i)};
      calls += decoder.generate(Tokens{static_cast<Token>(i), 0}, options, rng).stats.target_calls;
      CHECK(given.learnt == calls);
      CHECK(given.text == i);
    }
  };
  Diarist given{std::make_shared<Events>()}, in_chain = given, in_audit = given, in_cascade = given;
  check(SpecDec{TableModel<>(table), given}, given);
  check(SpecDec{TableModel<>(table), FallbackDrafter{NoDrafter{}, in_chain}}, in_chain);
#ifndef SPECDEC_TEST_SOME
  check(SpecDec{TableModel<>(table), AuditedDrafter{FallbackDrafter{in_audit}}}, in_audit);
#endif

  const auto events = std::make_shared<Events>();  // of a drafter that was moved in
  SpecDec decoder{TableModel<>(table), Diarist{events}};
  std::mt19937_64 rng{1};
  Index calls = decoder.generate(Tokens{0}, options, rng).stats.target_calls;
  calls += decoder.generate(Tokens{1}, options, rng).stats.target_calls;
  const auto observed = [](const Event& event) { return event.kind == Event::observed; };
  CHECK(std::ranges::count_if(*events, observed) == calls);
  CHECK(std::ranges::find_if(events->rbegin(), events->rend(), observed)->learnt == calls);
}

TEST_CASE("a const drafter is copied, for one text or many") {
  const TableModel<> table = random_table(1), small = random_table(2);
  const ModelDrafter drafter{TableModel<>(small)};
  const Result expected = alone(0, table, ModelDrafter(drafter));
  CHECK(alone(0, table, drafter).tokens == expected.tokens);
#ifndef SPECDEC_TEST_SOME
  CHECK(alone(0, table, FallbackDrafter{drafter, PromptLookupDrafter{}}).tokens == expected.tokens);
#endif
  Batch batch{Many{table}, drafter};
  add_texts(batch);
  for (const Finished& done : batch.run()) {
    REQUIRE_FALSE(done.error);
    CHECK(done.result.tokens == alone(done.sequence, table, ModelDrafter(drafter)).tokens);
  }
}

namespace {

// Proposes one token again and again, but not after a text that begins with `poison`.
struct Insists {
  Token token;
  std::shared_ptr<int> alive = {};  // a count of the copies
  Token poison = -1;
  Tokens tokens = {};

  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) {
    if (context.front() == poison) throw std::runtime_error("poisoned");
    tokens.assign(static_cast<std::size_t>(std::max<Index>(gamma, 0)), token);
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("a function of a text's number returns the text's drafter, which lives as long as the text") {
  // Text i is made of token i, so a drafter of another text would guess nothing.
  TableModel<>::Rows rows(5, 4);
  rows << 0.25, 0.25, 0.25, 0.25, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1;
  const TableModel<> table(rows, 1);
  const auto alive = std::make_shared<int>();
  std::vector<Index> asked;
  Batch batch{Many{table}, [&](Index sequence) {
                asked.push_back(sequence);
                return Insists{static_cast<Token>(sequence), alive};
              }};
  for (Index i = 0; i < texts; ++i)
    batch.add(Tokens{static_cast<Token>(i)}, {.max_new_tokens = 8 * (i + 1), .gamma = 3}, SplitMix64{1});
  for (Index left = texts; left > 0;) {
    for (const Finished& done : batch.step()) {
      --left;
      CHECK(done.result.tokens ==
            Tokens(static_cast<std::size_t>(8 * (done.sequence + 1)), static_cast<Token>(done.sequence)));
      CHECK(done.result.stats.target_calls == 2 * (done.sequence + 1));
    }
    CHECK(alive.use_count() == 1 + left);
  }
  CHECK(asked == std::vector<Index>{0, 1, 2});
}

namespace {

// Proposes what belongs to its request.
struct Recites {
  const Tokens* words;  // of the request
  Tokens tokens = {};

  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) {
    tokens.assign(static_cast<std::size_t>(gamma), words->at(context.size() % words->size()));
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("a twin has the drafter that the function returns for its own number") {
  // After a 3 come 1 and 2 with equal probability, and then these for ever. Only a drafter of the same text's guesses them.
  TableModel<>::Rows rows(5, 4);
  rows << 0, 0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0.5, 0.5, 0;
  const TableModel<> table(rows, 1);
  const auto check = [&](auto&& drafter_of) {
    std::map<Index, Tokens> words;
    words[0] = {1};
    std::vector<Index> asked;
    Batch batch{Many{table}, drafter_of([&](Index sequence) {
                  asked.push_back(sequence);
                  return Recites{&words.at(sequence)};
                })};
    const Index parent = batch.add(Tokens{3}, {.max_new_tokens = 21, .gamma = 3}, SplitMix64{1});
    batch.step();
    words[parent] = {batch.sequence(parent).tokens().front()};
    const Index twin = batch.fork(parent, SplitMix64{2});
    words[twin] = words[parent];
    batch.cancel(parent);
    words.erase(parent);  // what its drafter refers to is gone
    const std::vector<Finished> finished = batch.run();
    REQUIRE(finished.size() == 1);
    REQUIRE_FALSE(finished.front().error);
    CHECK(finished.front().result.tokens.size() == 21);
    CHECK(asked == std::vector<Index>{parent, twin});
  };
  check([](auto function) { return function; });
#ifndef SPECDEC_TEST_SOME
  check([](auto function) { return FallbackDrafter{NoDrafter{}, std::move(function)}; });
  check([](auto function) { return AuditedDrafter{std::move(function)}; });
#endif
}

TEST_CASE("a function's drafter serves one text as text 0, from one generation to the next") {
  const TableModel<> table = random_table(1);
  std::vector<Index> asked;
  const auto events = std::make_shared<Events>();
  SpecDec decoder{TableModel<>(table), [&](Index sequence) {
                    asked.push_back(sequence);
                    return Diarist{events};
                  }};
  Index calls = 0;
  for (Index i = 0; i < texts; ++i) {
    SplitMix64 rng{static_cast<std::uint64_t>(i)};
    const Result result = decoder.generate(Tokens{static_cast<Token>(i), 0}, options, rng);
    CHECK(result.tokens == alone(i, table, Diarist{std::make_shared<Events>()}).tokens);
    calls += result.stats.target_calls;
  }
  CHECK(asked == std::vector<Index>{0});
  CHECK(std::ranges::count_if(*events, [](const Event& e) { return e.kind == Event::observed; }) == calls);
}

TEST_CASE("if the function throws for a text, this costs this text only") {
  const TableModel<> table = random_table(1);
  const auto check = [&](auto&& batch) {
    add_texts(batch);
    for (const Finished& done : batch.run()) {
      if (done.sequence == 1) {
        CHECK(message_of<std::runtime_error>([&] { std::rethrow_exception(done.error); }) == "no drafter");
        CHECK(done.result.tokens.empty());
      } else {
        REQUIRE_FALSE(done.error);
        CHECK(done.result.tokens == alone(done.sequence, table, PromptLookupDrafter{}).tokens);
      }
    }
  };
  const auto make = [](Index sequence) {
    if (sequence == 1) throw std::runtime_error("no drafter");
    return PromptLookupDrafter{};
  };
  check(Batch{Many{table}, make});
#ifndef SPECDEC_TEST_SOME
  check(Batch{Many{table}, AuditedDrafter{make}});
  check(Batch{Many{table}, FallbackDrafter{make, NoDrafter{}}});
#endif
}

TEST_CASE(
    "a drafter that fails for one text costs this text only, lifted by itself or in a chain or an audit") {
  const TableModel<> table = random_table(1);
  const auto check = [&](auto&& batch) {
    for (const Token first : {0, 3, 1})
      batch.add(Tokens{first}, {.max_new_tokens = 5, .gamma = 2}, SplitMix64{1});
    for (const Finished& done : batch.run()) {
      if (done.sequence == 1)
        CHECK(message_of<std::runtime_error>([&] { std::rethrow_exception(done.error); }) == "poisoned");
      CHECK(done.result.tokens.size() == (done.sequence == 1 ? 0 : 5));
    }
  };
  const Insists drafter{.token = 0, .poison = 3};
  check(Batch{Many{table}, Insists(drafter)});
#ifndef SPECDEC_TEST_SOME
  check(Batch{Many{table}, AuditedDrafter{Insists(drafter)}});
  check(Batch{Many{table}, FallbackDrafter{NoDrafter{}, Insists(drafter), PromptLookupDrafter{}}});
#endif
}

// ---- Copies that would share a model

TEST_CASE("a batch refuses a drafter whose copies would share a model, wherever the drafter is held") {
  const TableModel<> table = random_table(1);
  TableModel<> small = random_table(2);
  const auto refused = [&](auto&& drafter) {
    const std::string message = message_of<std::invalid_argument>([&] {
      Batch{Many{table}, std::forward<decltype(drafter)>(drafter)};
    });
    CHECK(message.find("each sequence's copy would use") != std::string::npos);
    return !message.empty();
  };
  CHECK(refused(ModelDrafter{small}));
  ModelDrafter held{small};
  CHECK(refused(held));
  CHECK(refused(FallbackDrafter{PromptLookupDrafter{}, ModelDrafter{small}}));
#ifndef SPECDEC_TEST_SOME
  CHECK(refused(FallbackDrafter{PromptLookupDrafter{}, held}));
  CHECK(refused(AuditedDrafter{ModelDrafter{small}}));
  CHECK(
      refused(AuditedDrafter{FallbackDrafter{FallbackDrafter{PromptLookupDrafter{}, ModelDrafter{small}}}}));
  CHECK(refused(CascadeDrafter{small, PromptLookupDrafter{}}));
  CHECK(refused(CascadeDrafter{TableModel<>(small), ModelDrafter{small}}));
#endif
}

TEST_CASE("a batch refuses the drafters of a function that would share a model, and loses nothing") {
  const TableModel<> table = random_table(1);
  TableModel<> small = random_table(2);
  const auto refused = [&](auto&& batch) {
    add_texts(batch);
    for (int again = 0; again < 2; ++again)
      CHECK(message_of<std::invalid_argument>([&] { batch.step(); }).find("each sequence's copy would use") !=
            std::string::npos);
    CHECK(batch.size() == texts);
    CHECK(batch.sequence(0).tokens().empty());
  };
  const auto shared = [&](Index) { return ModelDrafter{small}; };
  refused(Batch{Many{table}, shared});
#ifndef SPECDEC_TEST_SOME
  refused(Batch{Many{table}, FallbackDrafter{PromptLookupDrafter{}, shared}});
  refused(Batch{Many{table}, AuditedDrafter{shared}});
#endif
}

TEST_CASE("what is held by value, is made for one text or drafts for all texts together is not refused") {
  const TableModel<> table = random_table(1);
  TableModel<> small = random_table(2);
  const auto check = [&](auto&& batch) {
    add_texts(batch);
    for (const Finished& done : batch.run()) {
      REQUIRE_FALSE(done.error);
      CHECK(done.result.tokens == alone(done.sequence, table, ModelDrafter{small}).tokens);
    }
  };
  Many many{small};
  check(Batch{Many{table}, ModelDrafter{TableModel<>(small)}});
  check(Batch{Many{table}, ModelDrafter{many}});
#ifndef SPECDEC_TEST_SOME
  check(Batch{Many{table}, FallbackDrafter{ModelDrafter{many}}});
  check(Batch{Many{table}, AuditedDrafter{ModelDrafter{Many{small}}}});
  check(Batch{Many{table}, [&](Index) { return ModelDrafter{TableModel<>(small)}; }});
  CHECK(alone(0, table, FallbackDrafter{[&](Index) { return ModelDrafter{small}; }}).tokens ==
        alone(0, table, ModelDrafter{small}).tokens);
#endif
}

// ---- An audit of many texts

TEST_CASE("an audit in a batch sees the drafts of all texts, and changes none") {
  const TableModel<> table = random_table(1), small = random_table(2);
  const auto check = [&](auto&& audited, auto&&... executor) {
    Batch batch{Many{table}, audited};
    for (std::uint64_t i = 0; i < 8; ++i)
      batch.add(Tokens{0}, {.max_new_tokens = 200, .gamma = 3}, SplitMix64{i});
    Index drafted = 0;
    while (!batch.empty())
      for (const Finished& done : batch.step(executor...)) {
        REQUIRE_FALSE(done.error);
        drafted += done.result.stats.drafted;
        SpecDec decoder{TableModel<>(table), ModelDrafter{TableModel<>(small)}};
        SplitMix64 rng{static_cast<std::uint64_t>(done.sequence)};
        CHECK(done.result.tokens ==
              decoder.generate(Tokens{0}, {.max_new_tokens = 200, .gamma = 3}, rng).tokens);
      }
    CHECK(audited.report().tokens == drafted);
    CHECK(audited.report().acquitted());
  };
#ifndef SPECDEC_TEST_SOME
  AuditedDrafter together{ModelDrafter{Many{small}}};
  check(together);
#endif
  AuditedDrafter apart{ModelDrafter{TableModel<>(small)}};
  check(apart, support::TwoThreads{});
}

}  // namespace test_draft_lifted_drafter

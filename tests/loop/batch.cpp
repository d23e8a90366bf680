// Each sequence of a batch writes what it would write alone, although other sequences come and go. A failing sequence
// does not affect the others.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/one_of_drafters.hpp"
#include "support/one_text.hpp"
#include "support/rules.hpp"
#include "support/strict.hpp"
#include "support/threads.hpp"
#include "support/tree_models.hpp"

namespace test_loop_batch {

namespace {

using specdec::Batch;
using specdec::BatchOptions;
using specdec::BlockVerifier;
using specdec::Finished;
using specdec::Index;
using specdec::ModelDrafter;
using specdec::ModelPerSequence;
using specdec::Options;
using specdec::Result;
using specdec::Token;
using support::Bookkeeper;
using support::Models;
using support::models_of;
using Table = specdec::testing::TableModel<>;
using Tokens = std::vector<Token>;

// Whatever a test does not compare has one type, so that few batches are compiled: the rules, the draft lengths, the
// drafters of one text, the ways to draw siblings, and the executors.
struct Rule
    : support::AnyOf<false, specdec::TokenVerifier, BlockVerifier, specdec::GreedyBlockVerifier,
                     specdec::SampleMatchVerifier, specdec::LenientVerifier, specdec::ArgmaxVerifier> {};
struct TreeRule {
  std::variant<specdec::TraversalVerifier, specdec::TrunkAndSpares<BlockVerifier>> rule;

  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& each) { return each.judge(drafted, chance); }, rule);
  }
};
const Rule block{{BlockVerifier{}}};
const TreeRule traversal{specdec::TraversalVerifier{}},
    block_and_spares{specdec::TrunkAndSpares<BlockVerifier>{}};

// Asks for the two lengths in turn, and counts the calls.
struct Fickle {
  Index next(Index most) { return ++*total, std::min(most, ++asked % 2 == 1 ? first : second); }
  void observe(const specdec::StepRecord&) {}

  Index* total;
  Index first, second, asked = 0;
};

struct Length {
  static constexpr bool counts_nodes = true;

  std::variant<specdec::FixedLength, specdec::ScheduledLength, Fickle> length;

  Index next(Index most) {
    return std::visit([most](auto& each) { return each.next(most); }, length);
  }
  void observe(const specdec::StepRecord& step) {
    std::visit([&step](auto& each) { each.observe(step); }, length);
  }
};

struct Siblings {
  std::variant<specdec::WithoutReplacement, specdec::Independent, specdec::Likeliest> siblings;

  template <specdec::Distribution Q>
  using Row = specdec::VariantRow<specdec::WithoutReplacement::Row<Q>, Q, specdec::OneHotRow>;

  template <specdec::Distribution Q>
  void grow(const Q& q, Index count, Index parent, auto& chance, specdec::TokenTree& tree,
            std::vector<Row<Q>>& rows) {
    grow_by<0>(q, count, parent, chance, tree, rows);
    grow_by<1>(q, count, parent, chance, tree, rows);
    grow_by<2>(q, count, parent, chance, tree, rows);
  }

 private:
  template <std::size_t I, class Q>
  void grow_by(const Q& q, Index count, Index parent, auto& chance, specdec::TokenTree& tree,
               std::vector<Row<Q>>& rows) {
    if (siblings.index() != I) return;
    auto& kind = std::get<I>(siblings);
    std::vector<typename std::remove_cvref_t<decltype(kind)>::template Row<Q>> grown;
    kind.grow(q, count, parent, chance, tree, grown);
    for (const auto& row : grown) rows.emplace_back(std::in_place_index<I>, row);
  }
};
using Tree = specdec::Tree<Siblings>;

// Drafts for one text, by one of several drafters; not for texts with the token `poison`.
template <bool trees, class... Drafters>
struct OwnDrafterOf : support::OneOfDrafters<Drafters...> {
  using Any = support::OneOfDrafters<Drafters...>;
  using Any::Any;
  static constexpr bool drafts_trees = trees;

  auto draft(std::span<const Token> context, const specdec::DraftLimits& limits, auto& chance) {
    if (std::ranges::find(context, poison) != context.end()) throw std::runtime_error("the drafter failed");
    return Any::draft(context, limits, chance);
  }

  Token poison = -1;
};
using OwnModel = support::WatchedTreeModel;
using FromText = support::OneText<specdec::FallbackDrafter<specdec::PromptLookupDrafter, specdec::NoDrafter>>;
using OwnDrafter = OwnDrafterOf<false, ModelDrafter<OwnModel>, FromText>;
using OwnTrees = OwnDrafterOf<true, ModelDrafter<OwnModel, Tree>, ModelDrafter<OwnModel, specdec::Spares>>;

OwnDrafter drafter_of(const Table& small, Index most = specdec::unlimited) {
  return ModelDrafter{OwnModel(small, most)};
}
template <class Strategy>
OwnTrees trees_of(const Table& small, const Strategy& strategy) {
  return ModelDrafter{OwnModel(small), strategy};
}

// Drafts trees for all texts at once, by one of two strategies.
using TreesTogether =
    support::OneOfDrafters<ModelDrafter<Bookkeeper&, Tree>, ModelDrafter<Bookkeeper&, specdec::Spares>>;
template <class Strategy>
TreesTogether trees_together(Bookkeeper& small, const Strategy& strategy) {
  return ModelDrafter<Bookkeeper&, Strategy>(small, strategy);
}

using Executor = std::function<void(Index, const std::function<void(Index)>&)>;

// Batches whose sequences draft together, lines or trees, or each by a drafter of its own. Each has a draft length of its own, so
// that it can be compared with a text alone.
using EachLength = specdec::Each<Length>;
using Lines = Batch<Bookkeeper&, ModelDrafter<Bookkeeper&>, Rule, EachLength>;
using Trees = Batch<Bookkeeper&, TreesTogether, TreeRule, EachLength>;
using Apart = Batch<Bookkeeper&, OwnDrafter, Rule, EachLength>;
using LinesOfEngine = Batch<specdec::ExternalTarget, ModelDrafter<Bookkeeper&>, Rule, EachLength>;
using Together = ModelDrafter<Bookkeeper&>;

// A job for a batch, or for a decoder alone.
struct Job {
  Tokens prompt;
  Options options;
  std::uint64_t seed;
};

// Stop strings that begin within one token and end within another.
const specdec::StopStrings& stop_strings() {
  static const specdec::StopStrings strings{
      {"cbb", "babc"}, [pieces = std::vector<std::string>{"a", "ba", "cb", "bc", "ab"}](Token x) {
        return pieces[static_cast<std::size_t>(x)];
      }};
  return strings;
}

Job random_job(Index vocab_size, int gamma, std::mt19937_64& rng) {
  const auto below = [&](int n) { return static_cast<Index>(specdec::uniform01(rng) * n); };
  Job job{.prompt = {}, .options = {.max_new_tokens = below(24), .gamma = below(gamma + 1)}, .seed = rng()};
  for (Index i = 0; i <= below(12); ++i)
    job.prompt.push_back(static_cast<Token>(below(static_cast<int>(vocab_size))));
  if (below(2) == 0) job.options.stop_tokens = {below(static_cast<int>(vocab_size))};
  if (below(6) == 0) job.options.stop_strings = stop_strings();
  if (below(3) == 0) job.options.log_probabilities = {.processed = true, .top = below(3)};
  return job;
}

template <class Drafter, class V, class L>
Result result_by(const Job& job, const Table& target, Drafter drafter, const V& verifier, L length) {
  specdec::SpecDec decoder{Table(target), std::move(drafter), verifier, std::move(length)};
  std::mt19937_64 rng(job.seed);
  return decoder.generate(job.prompt, job.options, rng);
}
Result result_alone(const Job& job, const Table& target, const OwnDrafter& drafter, const Rule& rule = block,
                    const Length& length = {}) {
  return result_by(job, target, drafter, rule, length);
}
Tokens alone(const Job& job, const Table& target, const OwnDrafter& drafter, const Length& length = {}) {
  return result_alone(job, target, drafter, block, length).tokens;
}

// Checks that the log-probabilities of a cut text are a beginning of the whole text's.
void check_beginning(const Result& cut, const Result& whole) {
  REQUIRE(cut.tokens.size() <= whole.tokens.size());
  CHECK(std::equal(cut.tokens.begin(), cut.tokens.end(), whole.tokens.begin()));
  const specdec::LogProbabilities &told = cut.log_probabilities, &all = whole.log_probabilities;
  REQUIRE(told.size() == (all.empty() ? 0 : std::ssize(cut.tokens)));
  for (Index i = 0; i < told.size(); ++i) {
    CHECK(told[i] == all[i]);
    CHECK(std::ranges::equal(told.top(i), all.top(i), {}, &specdec::TokenLogProbability::token,
                             &specdec::TokenLogProbability::token));
  }
}

using OnStep = std::function<void(std::span<const Token>)>;

// A batch of any type.
struct Running {
  std::function<Index(const Job&, OnStep)> add;
  std::function<Result(Index)> cancel;
  std::function<Index()> size;
  std::function<std::vector<Finished>()> step;
};
template <class B>
Running running(B& batch, std::function<std::vector<Finished>()> step) {
  return {[&batch](const Job& job, OnStep on_step) {
            return batch.add(job.prompt, job.options, std::mt19937_64(job.seed), std::move(on_step));
          },
          [&batch](Index number) { return batch.cancel(number); }, [&batch] { return batch.size(); },
          std::move(step)};
}

std::vector<Finished> copied(std::span<const Finished> finished) {
  return {finished.begin(), finished.end()};
}

// Jobs come and go at random steps. Each text must be a beginning of the text alone, and must be whole unless it was
// cancelled.
void come_and_go(const Running& batch, Index vocab_size, const std::function<Result(const Job&)>& alone,
                 std::mt19937_64& rng, int gamma = 4) {
  const int count = support::bound(24, 200);
  std::map<Index, Job> jobs;
  std::map<Index, Tokens> told;
  int finished = 0;
  int steps = 0;
  for (int left = count; left > 0 || batch.size() > 0;) {
    REQUIRE(++steps < 100 * count);
    for (; left > 0 && specdec::uniform01(rng) < 0.4; --left) {
      const Job job = random_job(vocab_size, gamma, rng);
      const Index number =
          batch.add(job, [&told, next = static_cast<Index>(jobs.size())](std::span<const Token> emitted) {
            told[next].insert(told[next].end(), emitted.begin(), emitted.end());
          });
      REQUIRE(number == static_cast<Index>(jobs.size()));
      jobs.emplace(number, job);
    }
    if (batch.size() > 0 && specdec::uniform01(rng) < 0.05) {
      const Index size = batch.size(), last = static_cast<Index>(jobs.size()) - 1;
      for (Index number = last; number >= 0 && batch.size() == size; --number) {
        try {
          const Result cut = batch.cancel(number);
          CHECK(cut.stop_reason == specdec::StopReason::callback);
          check_beginning(cut, alone(jobs.at(number)));
          ++finished;
        } catch (const std::invalid_argument&) {  // it has already finished
        }
      }
    }
    for (const Finished& done : batch.step()) {
      REQUIRE_FALSE(done.error);
      const Result whole = alone(jobs.at(done.sequence));
      check_beginning(done.result, whole);
      CHECK(done.result.tokens == whole.tokens);
      CHECK(done.result.tokens == told[done.sequence]);
      CHECK(done.result.stop_reason == whole.stop_reason);
      CHECK(done.result.stop_match == whole.stop_match);
      ++finished;
    }
  }
  CHECK(finished == count);
}

// Compares a batch with drafts made together by one model against decoders that draft alone.
void check_together(const Rule& rule, const Length& length = {}, BatchOptions options = {}) {
  std::mt19937_64 rng(7);
  const Models models = models_of(rng, 5);
  // If a batch forgot the limits, a draft would end where the draft model's context does, and not go on for ever.
  Bookkeeper target(models.target), small(models.small, 1000);
  Lines batch{target, Together{small}, rule, specdec::each(length), options};
  come_and_go(
      running(batch, [&] { return copied(batch.step()); }), 5,
      [&](const Job& job) {
        return result_alone(job, models.target, drafter_of(models.small), rule, length);
      },
      rng);
}

const Executor two_threads = support::TwoThreads{};

// Compares a batch of the library's own types, none of them hidden, against decoders alone.
template <class V, class L>
void check_plain(const V& verifier, const L& length) {
  std::mt19937_64 rng(7);
  const Models models = models_of(rng, 5);
  Batch batch{ModelPerSequence{models.target}, ModelDrafter{ModelPerSequence{models.small}}, verifier,
              specdec::each(length)};
  come_and_go(
      running(batch, [&] { return copied(batch.step()); }), 5,
      [&](const Job& job) {
        return result_by(job, models.target, ModelDrafter{Table(models.small)}, verifier, length);
      },
      rng);
}

// Compares a batch with a copy of the drafter for each sequence against decoders alone.
template <class Own, class V>
void check_apart(const Own& drafter, const V& verifier, BatchOptions options = {}) {
  std::mt19937_64 rng(8);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target);
  Batch<Bookkeeper&, Own, V, EachLength> batch{target, Own(drafter), verifier, options};
  come_and_go(
      running(batch, [&] { return copied(batch.step(two_threads)); }), 5,
      [&](const Job& job) { return result_by(job, models.target, drafter, verifier, Length{}); }, rng);
}

// Steps of a batch. Calls of the target or of the draft model fail now and then, and are tried again.
std::vector<Finished> step_at_last(const std::function<std::vector<Finished>()>& step, Bookkeeper& target,
                                   Bookkeeper& small, std::mt19937_64& rng) {
  for (int attempts = 0; attempts < 1000; ++attempts) {
    for (Bookkeeper* model : {&target, &small}) {
      const auto dice = [&] { return model->calls + 1 + static_cast<Index>(specdec::uniform01(rng) * 9); };
      model->fails_at = dice();
      model->fails_behind = dice();
      model->one_row_short_at = dice();
    }
    try {
      return step();
    } catch (const Bookkeeper::Failure&) {
    } catch (const std::invalid_argument& error) {
      REQUIRE(std::string(error.what()).find(" rows") != std::string::npos);
    }
  }
  FAIL("no step succeeds");
  return {};
}

// Compares a batch with trees drafted together against decoders that draft alone.
template <class Strategy>
void check_trees_together(const Strategy& strategy, const TreeRule& rule, BatchOptions options) {
  std::mt19937_64 rng(15);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target), small(models.small);
  Trees batch{target, trees_together(small, strategy), rule, options};
  const auto step = [&] { return copied(batch.step(two_threads)); };
  const auto by_itself = [&](const Job& job) {
    return result_by(job, models.target, trees_of(models.small, strategy), rule, Length{});
  };
  come_and_go(running(batch, [&] { return step_at_last(step, target, small, rng); }), 5, by_itself, rng, 12);
  const int enough = std::min(3, support::bound(24, 200) / 8);  // few texts make few failing calls
  CHECK(std::min(target.failures, small.failures) >= enough);
  CHECK(target.contexts.empty());
  CHECK(small.contexts.empty());
}

void check_levels_together(const specdec::TreeShape& shape, const Siblings& siblings,
                           BatchOptions options = {}) {
  check_trees_together(Tree{shape, siblings}, traversal, options);
}

void check_spares_together(Index second_trunk, BatchOptions options = {}) {
  check_trees_together(specdec::Spares{3, {2, 1}, second_trunk}, block_and_spares, options);
}

// The message of a sequence's failure.
std::string message_of_error(const Finished& finished) {
  if (!finished.error) return {};
  return support::message_of<std::exception>([&] { std::rethrow_exception(finished.error); });
}

[[maybe_unused]] Table small_model() {
  std::mt19937_64 rng(11);
  return Table::random(5, 1, rng);
}

}  // namespace

TEST_CASE("each text of a batch is what it is alone, under every rule") {
  for (const support::AnyVerifier& rule : support::all_rules)
    check_together(std::visit([](const auto& each) { return Rule{{each}}; }, rule.rule));
}

TEST_CASE("each text of a batch is what it is alone, with draft lengths of its own") {
  check_together(block, {specdec::ScheduledLength{2}});
#ifndef SPECDEC_TEST_SOME

  // A length that looks at rows is one for rules without memory.
  check_plain(BlockVerifier{}, specdec::ConfidentLength{0.5});
#endif
}

TEST_CASE("each text of a batch is what it is alone, under a rule that needs no draft rows") {
  check_plain(specdec::ArgmaxVerifier{}, specdec::FixedLength{});
}

TEST_CASE("each text of a batch is what it is alone, however little room a call has") {
  check_together(block, {}, {.tokens_per_call = 5});
  check_together({{specdec::GreedyBlockVerifier{}}}, {}, {.tokens_per_call = 9});
}

TEST_CASE("each text of a batch is what it is alone, with drafters of its own on two threads") {
  check_apart(
      OwnDrafter{FromText{specdec::FallbackDrafter{specdec::PromptLookupDrafter{}, specdec::NoDrafter{}}}},
      block);
#ifndef SPECDEC_TEST_SOME
  check_apart(ModelDrafter{small_model()}, BlockVerifier{}, {.tokens_per_call = 7});
#endif
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("each text of a batch is what it is alone, with drafts that branch") {
  check_apart(trees_of(small_model(), specdec::Spares{3, {1}}), block_and_spares);
  check_apart(trees_of(small_model(), specdec::Spares{2, {2}}), block_and_spares, {.tokens_per_call = 7});
}
#endif

TEST_CASE("each text of a batch is what it is alone, with trees drafted together, whichever calls fail") {
  const specdec::TreeShape bushy = specdec::TreeShape::of_widths({3, 2, 1}), uneven{-1, 0, 0, -1, 1, 2, 4};
  for (const specdec::TreeShape& shape : {bushy, uneven, specdec::TreeShape::linear(3)}) {
    check_levels_together(shape, {specdec::WithoutReplacement{}});
    check_levels_together(shape, {specdec::Independent{}});
  }
  check_levels_together(uneven, {specdec::Likeliest{}});
  check_levels_together(bushy, {specdec::Likeliest{}}, {.tokens_per_call = 17});
  check_spares_together(0);
  check_spares_together(2, {.tokens_per_call = 17});
}

TEST_CASE("a failing sequence leaves the batch with its error, and the others are not affected") {
  std::mt19937_64 rng(3);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target), small(models.small);
  Lines batch{target, Together{small}, block};
  const Options options{.max_new_tokens = 12, .gamma = 3};
  const auto prompt = [](std::uint64_t seed) { return support::prompt_of(static_cast<Index>(seed), 5); };
  const auto by_itself = [&](std::uint64_t seed) {
    return alone(Job{prompt(seed), options, seed}, models.target, drafter_of(models.small));
  };
  int told = 0;
  for (std::uint64_t seed = 0; seed < 3; ++seed) batch.add(prompt(seed), options, std::mt19937_64(seed));
  batch.add(prompt(3), options, std::mt19937_64(3), [&](std::span<const Token>) {
    if (++told == 2) throw std::runtime_error("the callback failed");
  });
  batch.add(prompt(4), options, std::mt19937_64(4), [&](std::span<const Token>) { return false; });
  std::vector<Finished> all;
  while (!batch.empty()) {
    if (target.calls == 2) target.spoils = 1;
    for (const Finished& finished : batch.step()) {
      all.push_back(finished);
      CHECK_FALSE(target.contexts.contains(finished.sequence));
    }
  }
  REQUIRE(all.size() == 5);
  std::ranges::sort(all, {}, &Finished::sequence);
  CHECK_FALSE(all[0].error);
  CHECK(all[0].result.tokens == by_itself(0));
  CHECK(message_of_error(all[1]).find("target row 0") != std::string::npos);
  CHECK(message_of_error(all[1]).find("nan") != std::string::npos);
  CHECK(all[2].result.tokens == by_itself(2));
  CHECK(message_of_error(all[3]) == "the callback failed");
  CHECK_FALSE(all[4].error);
  CHECK(all[4].result.stop_reason == specdec::StopReason::callback);
  for (const std::size_t i : {1u, 3u, 4u}) {
    const Tokens whole = by_itself(i), &cut = all[i].result.tokens;
    REQUIRE(cut.size() <= whole.size());
    CHECK(std::equal(cut.begin(), cut.end(), whole.begin()));
  }
  CHECK(target.contexts.empty());
}

TEST_CASE("a sequence's own drafter that throws costs this sequence only") {
  std::mt19937_64 rng(5);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target);
  OwnDrafter drafter = drafter_of(models.small);
  drafter.poison = 4;
  Apart batch{target, std::move(drafter), block};
  batch.add(Tokens{1}, {.max_new_tokens = 1, .gamma = 2}, std::mt19937_64(1));
  batch.add(Tokens{4}, {.max_new_tokens = 1, .gamma = 2}, std::mt19937_64(2));
  const auto finished = batch.step();
  REQUIRE(finished.size() == 2);
  CHECK_FALSE(finished[0].error);
  CHECK(finished[1].sequence == 1);
  CHECK(message_of_error(finished[1]) == "the drafter failed");
}

TEST_CASE("a drafter that knows a text is copied without it") {
  std::mt19937_64 rng(6);
  const Models models = models_of(rng, 5);
  const FromText fresh{specdec::FallbackDrafter{specdec::PromptLookupDrafter{}, specdec::NoDrafter{}}};
  OwnDrafter used{fresh};
  specdec::RandomChance chance(rng);
  used.draft(Tokens{0, 4, 0}, {.nodes = 2}, chance);
  const Job job{Tokens{1, 2, 3, 1}, {.max_new_tokens = 12, .gamma = 3}, 1};
  Bookkeeper target(models.target);
  Apart batch{target, std::move(used), block};
  batch.add(job.prompt, job.options, std::mt19937_64(job.seed));
  const Result expected = result_alone(job, models.target, fresh);
  const Result result = batch.run()[0].result;
  CHECK(result.tokens == expected.tokens);
  CHECK(result.stats.drafted == expected.stats.drafted);
  CHECK(result.stats.drafted > 3);
}

// Four texts, and what they must be at last.
Job one_of_four(Index i) {
  return {support::prompt_of(i, 5), {.max_new_tokens = 20, .gamma = 3}, static_cast<std::uint64_t>(i)};
}
void add_one_of_four(
    auto& batch, Index i, OnStep on_step = [](std::span<const Token>) {}) {
  const Job job = one_of_four(i);
  CHECK(batch.add(job.prompt, job.options, std::mt19937_64(job.seed), std::move(on_step)) == i);
}
void check_four(std::span<const Finished> all, const Models& models) {
  REQUIRE(all.size() == 4);
  for (const Finished& finished : all) {
    CHECK(message_of_error(finished).empty());
    CHECK(finished.result.tokens ==
          alone(one_of_four(finished.sequence), models.target, drafter_of(models.small)));
  }
}

// Runs only the first `some` when it is called for the `fails_at`-th time.
struct Unreliable {
  int fails_at = 0;
  Index some = 0;

  void operator()(Index n, const std::function<void(Index)>& f) {
    const bool fails = --fails_at == 0;
    specdec::InOrder{}(fails ? std::min(n, some) : n, f);
    if (fails) throw std::runtime_error("there are no threads");
  }
};

TEST_CASE("a failing call leaves the batch as before, and the step can be tried again") {
  std::mt19937_64 rng(6);
  const Models models = models_of(rng, 5);
  for (const Index most : {specdec::unlimited, Index{6}}) {  // with little room, prompts are read in parts
    Bookkeeper target(models.target), small(models.small);
    Lines batch{target, Together{small}, block, BatchOptions{.tokens_per_call = most}};
    for (Index i = 0; i < 4; ++i) add_one_of_four(batch, i);
    std::vector<Finished> all;
    Index target_fails = 0, small_fails = 0, short_calls = 0, unjudged = 0;
    for (int step = 0; !batch.empty(); ++step) {
      REQUIRE(step < 1000);
      const Index size = batch.size();
      const Index drafter_failed = small.failures;
      Unreliable executor;
      std::map<Index, Tokens> before;
      for (Index i = 0; i < 4; ++i)
        if (target.contexts.contains(i))
          before[i] = Tokens(batch.sequence(i).context().begin(), batch.sequence(i).context().end());
      if (specdec::uniform01(rng) < 0.3) target.fails_at = target.calls + 1, ++target_fails;
      else if (specdec::uniform01(rng) < 0.3) small.fails_at = small.calls + 1 + step % 3, ++small_fails;
      else if (specdec::uniform01(rng) < 0.3) target.one_row_short_at = target.calls + 1, ++short_calls;
      else if (specdec::uniform01(rng) < 0.3) executor.fails_at = 1, ++unjudged;
      try {
        for (const Finished& finished : batch.step(Executor(std::ref(executor)))) all.push_back(finished);
        for (const auto& [i, context] : target.contexts) {
          CHECK(context.size() < batch.sequence(i).context().size());
          if (most < specdec::unlimited) continue;
          CHECK(std::ssize(context) == batch.sequence(i).kept());
          CHECK(std::ssize(small.contexts[i]) <= batch.sequence(i).kept());
        }
      } catch (const std::exception& error) {
        REQUIRE(dynamic_cast<const support::Misuse*>(&error) == nullptr);
        CHECK(batch.size() == size);
        for (const auto& [i, context] : before) {
          CHECK(std::ranges::equal(batch.sequence(i).context(), context));
          CHECK(target.contexts[i].size() < context.size());  // no token that is not of the text
          if (small.failures > drafter_failed) CHECK(small.contexts[i].size() <= context.size());
        }
      }
      target.fails_at = small.fails_at = target.one_row_short_at = -1;
    }
    CHECK(target_fails * small_fails * short_calls * unjudged > 0);
    check_four(all, models);
    CHECK(target.contexts.empty());
    CHECK(small.contexts.empty());
  }
}

namespace {

struct HalfWay {
  int drafted = 0, judged = 0;
};

// Steps with an executor that often fails. Sequences that it has judged must have taken the step, others not.
template <class AnyBatch>
HalfWay step_unreliably(AnyBatch& batch, Bookkeeper& target, const Models& models) {
  std::map<Index, Tokens> told;
  for (Index i = 0; i < 4; ++i)
    add_one_of_four(batch, i, [&told, i](std::span<const Token> emitted) {
      told[i].insert(told[i].end(), emitted.begin(), emitted.end());
    });
  std::vector<Finished> all;
  HalfWay half;
  for (int step = 0; !batch.empty(); ++step) {
    REQUIRE(step < 1000);
    std::map<Index, Index> calls;
    for (const auto& [i, context] : target.contexts) calls[i] = batch.sequence(i).stats().target_calls;
    Unreliable executor{.fails_at = step % 3, .some = 1 + step % 2};
    const Index before = target.calls;
    try {
      for (const Finished& finished : batch.step(Executor(std::ref(executor)))) all.push_back(finished);
    } catch (const std::runtime_error&) {
      ++(target.calls > before ? half.judged : half.drafted);
      Index ran = 0;
      for (const auto& [i, n] : calls) ran += batch.sequence(i).stats().target_calls - n;
      if (!calls.empty()) CHECK(ran == (target.calls > before ? std::min(executor.some, batch.size()) : 0));
    }
    for (const auto& [i, context] : target.contexts) {
      CHECK(std::ssize(context) == batch.sequence(i).kept());
      CHECK(std::ranges::equal(batch.sequence(i).tokens(), told[i]));
    }
  }
  check_four(all, models);
  for (const Finished& finished : all) CHECK(finished.result.tokens == told[finished.sequence]);
  CHECK(target.contexts.empty());
  return half;
}

}  // namespace

TEST_CASE(
    "if an executor throws half-way, the sequences that it ran have taken the step and the others have not") {
  std::mt19937_64 rng(16);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target), small(models.small);
  Lines together{target, Together{small}, block};
  CHECK(step_unreliably(together, target, models).judged > 2);
  CHECK(small.contexts.empty());
  Apart apart{target, drafter_of(models.small), block};
  const HalfWay half = step_unreliably(apart, target, models);
  CHECK(std::min(half.drafted, half.judged) > 2);
}

namespace {

// Fails in its first draft, wherever it is copied to.
struct FailsOnce {
  std::shared_ptr<bool> failed = std::make_shared<bool>(false);

  auto draft(std::span<const Token> context, Index gamma, auto& chance) const {
    if (!std::exchange(*failed, true)) throw std::runtime_error("the first draft failed");
    return specdec::NoDrafter{}.draft(context, gamma, chance);
  }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("a draft that failed in a failed step is forgotten when the step is tried again") {
  std::mt19937_64 rng(9);
  const Models models = models_of(rng, 5);
  for (const bool breaks : {false, true}) {
    Bookkeeper target(models.target);
    Batch batch{target, FailsOnce{}};
    batch.add(Tokens{0}, {.max_new_tokens = 8, .gamma = 2}, std::mt19937_64{1});
    Unreliable executor{.fails_at = breaks ? 1 : 0, .some = 1};
    const Executor for_each(std::ref(executor));
    if (!breaks) {
      const std::vector<Finished> failed = copied(batch.step(for_each));
      REQUIRE(failed.size() == 1);
      CHECK(failed[0].error);
      continue;
    }
    CHECK_THROWS_AS(batch.step(for_each), std::runtime_error);
    CHECK(batch.step(for_each).empty());
    CHECK(batch.size() == 1);
  }
}

TEST_CASE("a call never has more tokens than allowed, and no sequence waits for ever") {
  std::mt19937_64 rng(9);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target), small(models.small);
  Lines batch{target, Together{small}, block, BatchOptions{.tokens_per_call = 8}};
  for (std::uint64_t seed = 0; seed < 6; ++seed)
    batch.add(Tokens(1 + 9 * seed, 2), {.max_new_tokens = 10, .gamma = 4}, std::mt19937_64(seed));
  CHECK(batch.run().size() == 6);
  CHECK(target.most_fed == 8);
  CHECK(small.most_fed == 8);
  CHECK(batch.target_calls() == target.calls);
  CHECK(batch.fed() == target.fed);
  CHECK(support::message_of<std::invalid_argument>([&] {
          batch.add(Tokens{1}, {.gamma = 8}, std::mt19937_64(1));
        }).find("gamma = 8") != std::string::npos);
  CHECK(batch.empty());
}

TEST_CASE("sequences take turns where a call has no room for all of them") {
  std::mt19937_64 rng(13);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target), small(models.small);
  Lines batch{target, Together{small}, block, BatchOptions{.tokens_per_call = 8}};
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    batch.add(Tokens{1}, {.max_new_tokens = 100, .gamma = 5}, std::mt19937_64(seed));
  for (Index call = 1; call <= 9; ++call) {
    batch.step();
    for (Index i = 0; i < 3; ++i) CHECK(batch.sequence(i).stats().target_calls == (call + 2 - i) / 3);
  }
}

TEST_CASE("who comes or leaves while a call is under way changes nobody's turn") {
  std::mt19937_64 rng(14);
  const Models models = models_of(rng, 5);
  const auto texts_of = [](std::span<const specdec::BatchFeed> feeds) {
    std::vector<Index> numbers;
    for (const specdec::BatchFeed& feed : feeds) numbers.push_back(feed.sequence);
    return numbers;
  };
  for (const Index room : {4, 10})  // for two texts, or for all of them
    for (Index leaves = -1; leaves < 5; ++leaves)
      for (const bool back : {false, true})
        for (const bool comes : {false, true}) {
          INFO("room " << room << ", " << leaves << " leaves" << (back ? " and comes back" : ""));
          Bookkeeper target(models.target), small(models.small);
          Lines batch{target, Together{small}, block, BatchOptions{.tokens_per_call = room}};
          const auto add = [&] {
            return batch.add(Tokens{1}, {.max_new_tokens = 100, .gamma = 1}, std::mt19937_64(1));
          };
          for (int i = 0; i < 5; ++i) add();
          const auto feeds = batch.propose();
          const std::vector<Index> served = texts_of(feeds);
          REQUIRE(std::ssize(served) == room / 2);
          const auto rows = target.forward(feeds);
          std::vector<Index> order;  // first those that had no turn
          for (Index i = room / 2; i < 5; ++i) order.push_back(i);
          if (leaves >= 0) {
            auto paused = batch.pause(leaves);
            std::erase(order, leaves);
            if (back) order.push_back(batch.add(std::move(paused)));
          }
          if (comes) order.push_back(add());
          for (const Index i : served)
            if (i != leaves) order.push_back(i);
          batch.accept(rows);
          for (std::size_t turn = 0; turn < order.size();) {
            const auto next = batch.propose();
            REQUIRE_FALSE(next.empty());
            for (const Index number : texts_of(next))
              if (turn < order.size()) CHECK(number == order[turn++]);
            batch.accept(target.forward(next));
          }
        }
}

namespace {

// A text that counts how often it is asked who it is.
struct Numbered {
  Index own;
  int* asked;

  Index number() const { return ++*asked, own; }
};

}  // namespace

TEST_CASE("a text is taken out of a batch without a look at the others") {
  for (const Index size : {8, 4096}) {
    int asked = 0;
    specdec::detail::BatchTexts<Numbered> texts;
    for (Index i = 0; i < size; ++i) texts.enter(std::make_unique<Numbered>(Numbered{i, &asked}));
    texts.served(texts.end());
    asked = 0;
    CHECK(texts.remove(size / 2)->own == size / 2);
    CHECK(asked <= 1);
    CHECK(texts.size() == size - 1);
    texts.end_turn();
    CHECK((*texts.begin())->own == 0);
    CHECK_THROWS_AS(texts.find(size / 2), specdec::InvalidArgument);
  }
}

TEST_CASE("finished sequences are reported in the order of their numbers, whatever the order of waiting") {
  std::mt19937_64 rng(18);
  const Models models = models_of(rng, 5);
  for (const bool at_once : {false, true}) {
    Bookkeeper target(models.target), small(models.small);
    Lines batch{target, Together{small}, block, BatchOptions{.tokens_per_call = 3}};
    for (const Index tokens : {2, 2, 2, 1})
      batch.add(Tokens{1}, {.max_new_tokens = tokens, .gamma = 0}, std::mt19937_64(1));
    std::vector<Index> numbers;
    const auto note = [&](std::span<const Finished> finished) {
      for (const Finished& each : finished) numbers.push_back(each.sequence);
    };
    if (at_once) note(batch.run());
    else
      for (int step = 0; step < 3; ++step) note(batch.step());
    CHECK(batch.empty());
    CHECK(numbers == (at_once ? std::vector<Index>{0, 1, 2, 3} : std::vector<Index>{0, 1, 3, 2}));
  }
}

TEST_CASE(
    "each text of a batch is what it is alone, with a draft model of another vocabulary and less context") {
  std::mt19937_64 rng(19);
  for (const Index known : {3, 6}) {  // tokens of the draft model; the target has 5, and is fed no other
    const Models models{Table::random(5, 2, rng), Table::random(known, 1, rng)};
    Bookkeeper target(models.target), small(models.small, 9);
    Lines batch{target, Together{small}, block};
    for (Index i = 0; i < 4; ++i) add_one_of_four(batch, i);
    const std::vector<Finished> all = batch.run();
    REQUIRE(all.size() == 4);
    Index drafted = 0;
    for (const Finished& finished : all) {
      CHECK(message_of_error(finished).empty());
      CHECK(finished.result.tokens ==
            alone(one_of_four(finished.sequence), models.target, drafter_of(models.small, 9)));
      drafted += finished.result.stats.drafted;
    }
    CHECK(drafted > 20);
  }
}

TEST_CASE("the models of a batch that was abandoned can serve another batch") {
  std::mt19937_64 rng(15);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target), small(models.small);
  const Job job{Tokens{1, 2}, {.max_new_tokens = 9, .gamma = 3}, 1};
  for (int n = 0; n < 2; ++n) {
    Lines batch{target, Together{small}, block};
    batch.add(job.prompt, job.options, std::mt19937_64(job.seed));
    batch.step();
    if (n == 0) continue;
    CHECK(batch.run()[0].result.tokens == alone(job, models.target, drafter_of(models.small)));
  }
}

TEST_CASE("a callback may add a sequence, but may neither step the batch nor remove a sequence") {
  std::mt19937_64 rng(14);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target), small(models.small);
  Lines batch{target, Together{small}, block};
  const Options options{.max_new_tokens = 3, .gamma = 0};
  int refused = 0;
  batch.add(Tokens{1}, options, std::mt19937_64(1), [&](std::span<const Token>) {
    batch.add(Tokens{2}, options, std::mt19937_64(2));
    try {
      batch.cancel(0);
    } catch (const std::logic_error&) {
      ++refused;
    }
    try {
      batch.step();
    } catch (const std::logic_error&) {
      ++refused;
    }
  });
  const auto finished = batch.run();
  CHECK(refused == 6);
  REQUIRE(finished.size() == 4);
  for (const Finished& each : finished) {
    CHECK_FALSE(each.error);
    CHECK(each.result.tokens.size() == 3);
  }
}

// Asks for the length that it is given, and counts the calls.
struct Counting {
  Index next(Index) { return ++asked, wanted; }
  void observe(const specdec::StepRecord& step) { drafted += step.drafted, ++told; }
  void batch(Index n) { size = n; }

  Index wanted = 2, asked = 0, told = 0, drafted = 0, size = 0;
};

TEST_CASE("a draft length of all texts is asked once a step, and observes every sequence") {
  std::mt19937_64 rng(10);
  const Models models = models_of(rng, 5);
  Counting length;
  Bookkeeper target(models.target), small(models.small);
  Batch batch{target, Together{small}, block, length};
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    batch.add(Tokens{1}, {.max_new_tokens = 9, .gamma = 1 + static_cast<Index>(seed)}, std::mt19937_64(seed));
  batch.step();
  CHECK(length.asked == 1);
  CHECK(length.size == 3);
  CHECK(length.told == 3);
  CHECK(length.drafted == 1 + 2 + 2);
  length.wanted = 0;
  batch.step(two_threads);
  CHECK(length.asked == 2);
  CHECK(length.told == 6);
  CHECK(length.drafted == 5);
  length.wanted = 1;
  CHECK_THROWS(batch.step(Executor(Unreliable{.fails_at = 1})));
  length.wanted = 0;
  batch.step();
  CHECK(length.asked == 4);
  CHECK(length.told == 9);
  CHECK(length.drafted == 5);
}

// Fickle alternates between its two lengths.
TEST_CASE("a draft length that is moved into a batch is one for all, and is forgotten by its caller") {
  std::mt19937_64 rng(10);
  const Models models = models_of(rng, 5);
  Index asked = 0;
  Bookkeeper target(models.target), small(models.small);
  Batch batch{target, Together{small}, block, Fickle{&asked, 1, 3}};
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    batch.add(Tokens{1}, {.max_new_tokens = 9, .gamma = 4}, std::mt19937_64(seed));
  batch.step();
  CHECK(asked == 1);
  for (Index i = 0; i < 3; ++i) CHECK(batch.sequence(i).stats().drafted == 1);
}

TEST_CASE("each() copies a draft length for each sequence, whether it is named or not") {
  std::mt19937_64 rng(10);
  const Models models = models_of(rng, 5);
  Index asked = 0;
  Bookkeeper target(models.target), small(models.small);
  const Length length{Fickle{&asked, 2, 2}};
  const auto named = specdec::each(length);
  const auto check = [&](auto&& batch) {
    asked = 0;
    for (std::uint64_t seed = 0; seed < 3; ++seed)
      batch.add(Tokens{1}, {.max_new_tokens = 9, .gamma = 4}, std::mt19937_64(seed));
    batch.step();
    CHECK(std::get<Fickle>(length.length).asked == 0);
    CHECK(asked == 3);
    for (Index i = 0; i < 3; ++i) CHECK(batch.sequence(i).stats().drafted == 2);
  };
  check(Lines{target, Together{small}, block, specdec::each(length)});
  check(Batch{target, Together{small}, block, named});
  check(Batch{target, Together{small}, block, named, BatchOptions{.tokens_per_call = 40}});
}

namespace {

// The texts of a batch, by their sequences' numbers, and how many target calls they took.
struct Written {
  std::map<Index, Tokens> texts = {};
  Index target_calls = 0;

  void take(const Finished& finished) {
    REQUIRE_FALSE(finished.error);
    texts[finished.sequence] = finished.result.tokens;
  }
};

void add_five(auto& batch) {
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    batch.add(Tokens{0, static_cast<Token>(seed), 0, 1},
              {.max_new_tokens = 12 + static_cast<Index>(seed), .gamma = 5}, std::mt19937_64(seed));
}

template <class D, class V>
Written written_by_steps(const Table& model, D drafter, const V& rule, BatchOptions options) {
  Bookkeeper target(model);
  Batch<Bookkeeper&, D, V, EachLength> batch{target, std::move(drafter), rule, options};
  add_five(batch);
  Written written;
  for (const Finished& done : batch.run()) written.take(done);
  written.target_calls = batch.target_calls();
  return written;
}

template <class D, class V>
Written written_by_halves(const Table& model, D drafter, const V& rule, BatchOptions options) {
  Batch<specdec::ExternalTarget, D, V, EachLength> batch{
      specdec::ExternalTarget{.vocabulary = model.vocab_size()}, std::move(drafter), rule, options};
  add_five(batch);
  ModelPerSequence engine{model};
  Written written;
  bool refused = false;
  try {
    batch.accept(Eigen::MatrixXd(0, 2));
  } catch (const std::logic_error&) {
    refused = true;
  }
  REQUIRE(refused);
  for (int call = 0; !batch.empty() && call < 1000; ++call) {
    if (call % 3 == 1) batch.propose();  // this proposal is forgotten
    const auto feeds = batch.propose();
    const std::vector<specdec::BatchFeed> fed(feeds.begin(), feeds.end());
    const auto rows = engine.forward(feeds);
    for (const Finished& done : batch.accept(rows)) written.take(done);
    for (const specdec::BatchFeed& feed : fed) {
      if (written.texts.contains(feed.sequence)) engine.release(feed.sequence);
      else if (feed.rows == 0) continue;
      else if (!feed.parents.empty()) engine.keep(feed.sequence, batch.sequence(feed.sequence).kept_path());
      else engine.keep(feed.sequence, batch.sequence(feed.sequence).kept());
    }
  }
  written.target_calls = batch.target_calls();
  return written;
}

void check_same(const Written& by_halves, const Written& by_steps) {
  CHECK(by_steps.texts.size() == 5);
  CHECK(by_halves.texts == by_steps.texts);
  CHECK(by_halves.target_calls == by_steps.target_calls);
}

}  // namespace

TEST_CASE("an engine that calls its own forward takes a step in two halves, and writes what step() writes") {
  std::mt19937_64 rng(21);
  const Models models = models_of(rng, 5);
  // `drafter` and `again` are equal, with models of their own.
  const auto check = [&](auto drafter, auto again, const auto& rule, BatchOptions options = {}) {
    check_same(written_by_halves(models.target, std::move(again), rule, options),
               written_by_steps(models.target, std::move(drafter), rule, options));
  };
  Bookkeeper small(models.small), small_again(models.small);
  check(Together{small}, Together{small_again}, block);
  check(Together{small}, Together{small_again}, block, {.tokens_per_call = 7});
#ifndef SPECDEC_TEST_SOME
  check(drafter_of(models.small), drafter_of(models.small), block);
  const Tree tree{specdec::TreeShape::of_widths({2, 1}), {specdec::WithoutReplacement{}}};
  check(trees_together(small, tree), trees_together(small_again, tree), traversal);
#endif

  // Rows are refused if their number is not the number that the feeds ask for. The step can then begin again.
  LinesOfEngine batch{specdec::ExternalTarget{.vocabulary = models.target.vocab_size()}, Together{small},
                      block};
  add_five(batch);
  batch.propose();
  const Eigen::MatrixXd none(0, models.target.vocab_size());
  const auto complaint = [&] { return support::message_of<std::exception>([&] { batch.accept(none); }); };
  CHECK(complaint().find("rows, expected") != std::string::npos);
  CHECK(complaint().find("no proposal") != std::string::npos);
  batch.propose();
  batch.cancel(0);  // its feed is out: its rows are still expected
  CHECK(complaint().find("rows, expected") != std::string::npos);
}

TEST_CASE(
    "an engine with its own scheduler may add a text during its call, and interrupt one and go on later") {
  std::mt19937_64 rng(22);
  const Models models = models_of(rng, 5);
  const Tokens prompt{0, 1, 0};
  const auto by_itself = [&](std::uint64_t seed, Index most) {
    return alone({prompt, {.max_new_tokens = most, .gamma = 4}, seed}, models.target,
                 drafter_of(models.small));
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Bookkeeper small(models.small);
    LinesOfEngine batch{specdec::ExternalTarget{.vocabulary = models.target.vocab_size()}, Together{small},
                        block};
    ModelPerSequence engine{models.target};
    std::map<Index, Tokens> texts;
    std::mt19937_64 kept_generator(seed);
    Index text = batch.add(prompt, {.max_new_tokens = 40, .gamma = 4}, std::ref(kept_generator)), late = 0;
    Tokens before;
    for (int round = 0; !batch.empty(); ++round) {
      if (round == 3) {
        before = batch.cancel(text).tokens;
        engine.release(text);
      }
      if (round == 5) {
        Tokens context = prompt;
        context.insert(context.end(), before.begin(), before.end());
        text = batch.add(context, {.max_new_tokens = 40 - std::ssize(before), .gamma = 4},
                         std::ref(kept_generator));
      }
      const auto rows = engine.forward(batch.propose());
      if (round == 1)
        late = batch.add(prompt, {.max_new_tokens = 30, .gamma = 4}, std::mt19937_64(seed + 100));
      for (const Finished& done : batch.accept(rows)) {
        texts[done.sequence] = done.result.tokens;
        engine.release(done.sequence);
      }
      for (const Index number : {text, late})
        if (!texts.contains(number) && (number != text || round < 3 || round >= 5))
          engine.keep(number, batch.sequence(number).kept());
    }
    before.insert(before.end(), texts[text].begin(), texts[text].end());
    CHECK(before == by_itself(seed, 40));
    CHECK(texts[late] == by_itself(seed + 100, 30));
  }
}

TEST_CASE("the context of a text that is over holds the text without its last token") {
  std::mt19937_64 rng(22);
  const Models models = models_of(rng, 5);
  const auto check = [&](auto drafter, const auto& rule) {
    specdec::Batch batch{specdec::ExternalTarget{.vocabulary = 5}, std::move(drafter), rule};
    Bookkeeper engine(models.target);
    const Tokens prompt{0, 2, 1};
    std::map<Index, std::vector<Index>> kept;
    for (Index i = 0; i < 8; ++i)
      batch.add({.prompt = prompt,
                 .options = {.max_new_tokens = 3 + i, .gamma = 4, .stop_tokens = {i % 5}},
                 .source = std::mt19937_64(static_cast<std::uint64_t>(i)),
                 .on_step =
                     [&, i](std::span<const Token>) {
                       const auto path = batch.sequence(i).kept_path();
                       kept[i].assign(path.begin(), path.end());
                     },
                 .number = i});
    Index over = 0;
    while (!batch.empty()) {
      const auto proposed = batch.propose();
      const std::vector<specdec::BatchFeed> feeds(proposed.begin(), proposed.end());
      const auto finished = batch.accept(engine.forward(proposed));
      for (const specdec::BatchFeed& feed : feeds)
        if (engine.keeps_path(feed.sequence)) engine.keep(feed.sequence, kept[feed.sequence]);
        else engine.keep(feed.sequence, feed.from + std::ssize(kept[feed.sequence]));
      for (const Finished& done : finished) {
        REQUIRE_FALSE(done.error);
        Tokens text = prompt;
        text.insert(text.end(), done.result.tokens.begin(), done.result.tokens.end());
        text.pop_back();
        CHECK(engine.contexts.at(done.sequence) == text);
        ++over;
      }
    }
    CHECK(over == 8);
  };
  Bookkeeper small(models.small);
  check(Together{small}, BlockVerifier{});
  Bookkeeper small_of_trees(models.small);
  check(ModelDrafter{small_of_trees,
                     specdec::Tree{specdec::TreeShape::of_widths({2, 2}), specdec::Independent{}}},
        specdec::TraversalVerifier{});
}

TEST_CASE("a sequence's own draft length is asked once a step, even if the step fails or has to wait") {
  std::mt19937_64 rng(17);
  const Models models = models_of(rng, 5);
  Bookkeeper target(models.target), small(models.small);
  Index asked = 0, asked_alone = 0, steps = 0;
  const auto job = [](std::uint64_t seed) {
    return Job{Tokens{0}, {.max_new_tokens = 20, .gamma = 7}, seed};
  };
  const auto run = [&](auto&& batch, Fickle length, std::uint64_t count) {
    for (std::uint64_t seed = 0; seed < count; ++seed)
      batch.add(job(seed).prompt, job(seed).options, std::mt19937_64(seed));
    for (int step = 0; !batch.empty(); ++step) {
      REQUIRE(step < 1000);
      if (step % 3 == 1) target.fails_at = target.calls + 1;
      try {
        for (const Finished& finished : batch.step()) {
          CHECK(message_of_error(finished).empty());
          length.total = &asked_alone;
          CHECK(finished.result.tokens == alone(job(static_cast<std::uint64_t>(finished.sequence)),
                                                models.target, drafter_of(models.small), {length}));
          steps += finished.result.stats.target_calls;
        }
      } catch (const Bookkeeper::Failure&) {
      }
    }
  };
  const Fickle five_or_two{&asked, 5, 2}, none_or_seven{&asked, 0, 7};
  run(Lines{target, Together{small}, block, EachLength{{five_or_two}}}, five_or_two, 2);
  CHECK(target.most_fed == 2 * 6);
  target.most_fed = 0;
  run(Apart{target, drafter_of(models.small), block, EachLength{{none_or_seven}},
            BatchOptions{.tokens_per_call = 8}},
      none_or_seven, 8);
  CHECK(target.failures > 5);
  CHECK(target.most_fed == 8);
  CHECK(asked == asked_alone);
  CHECK(asked == steps);
}

TEST_CASE("a batch names the arguments that it refuses") {
  std::mt19937_64 rng(12);
  const Models models = models_of(rng, 5);
  Table own = models.small;
  Bookkeeper target(models.target), small(models.small);
  const auto message = [](auto&& f) { return support::message_of<std::invalid_argument>(f); };
  CHECK(message([&] {
          Lines batch{target, Together{small}, block, BatchOptions{.tokens_per_call = 0}};
        }).find("tokens_per_call = 0") != std::string::npos);
  CHECK(message([&] {
          Batch<Bookkeeper&, ModelDrafter<Table&>, Rule, EachLength> batch{target, ModelDrafter{own}, block};
        }).find("each sequence's copy") != std::string::npos);
  Lines batch{target, Together{small}, block};
  CHECK(message([&] { batch.add(Tokens{}, {}, std::mt19937_64(1)); }).find("prompt is empty") !=
        std::string::npos);
  CHECK(message([&] { batch.add(Tokens{5}, {}, std::mt19937_64(1)); }).find("prompt") != std::string::npos);
  CHECK(message([&] { batch.cancel(0); }).find("no sequence 0") != std::string::npos);
  CHECK(message([&] { batch.sequence(7); }).find("no sequence 7") != std::string::npos);
  CHECK(batch.step().empty());
  CHECK(batch.target_calls() == 0);
  CHECK(batch.add(Tokens{1}, {.max_new_tokens = 0}, std::mt19937_64(1)) == 0);
  CHECK(batch.step().size() == 1);
  CHECK(batch.target_calls() == 0);
  // A text that is complete has ended by itself, whoever takes it out.
  CHECK(batch.cancel(batch.add(Tokens{1}, {.max_new_tokens = 0}, std::mt19937_64(1))).stop_reason ==
        specdec::StopReason::length);
}

}  // namespace test_loop_batch

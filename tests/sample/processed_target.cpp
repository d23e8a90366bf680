// Rows of a target that the caller runs, processed before they are judged: the texts are those of a processed model.
// SPDX-License-Identifier: MIT
#include <specdec/sample/processed_target.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/samplers/feed_masks.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/processors.hpp"
#include "support/rows_asked.hpp"

namespace test_sample_processed_target {

using namespace specdec;
using namespace support;

namespace {

using Table = testing::TableModel<>;
using Tokens = std::vector<Token>;
using Rows = RowMajor<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
const Tokens prompt{0, 2, 1, 1, 0, 2};  // a Rhythm
const Chain chain{Temperature{0.8}, TopK{3}};
const Options options{
    .max_new_tokens = 14,
    .gamma = 4,
    .stop_tokens = {3},
    .log_probabilities = {.processed = true, .raw = true, .top = 2, .ids = {1}, .prompt = true}};
const Tree tree{TreeShape::of_widths({2, 1, 2}), WithoutReplacement{}};

Tokens copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

// The engine's call for one feed: logits, which are garbage after a token that the processor refuses.
struct Engine {
  LogTable model{4, 2, 5};
  Index garbage = 0;

  void fill(Rows& rows, Index first, std::span<const Token> text, const Feed& feed,
            const AnyProcessor& processor) {
    for (Index i = 0; i < feed.rows; ++i) {
      const Tokens before = before_row(text, feed, i);
      const bool reached = from_scratch(model, processor, before).has_value();
      if (reached) rows.row(first + i) = model.logits(before);
      else rows.row(first + i).setConstant(nan);
      if (!reached) ++garbage;
    }
  }
  Rows call(std::span<const Token> text, const Feed& feed, const AnyProcessor& processor) {
    Rows rows(feed.rows, model.vocab_size());
    fill(rows, 0, text, feed, processor);
    return rows;
  }
};

void check_same(const LogProbabilities& a, const LogProbabilities& b) {
  REQUIRE(a.size() == b.size());
  for (Index i = 0; i < a.size(); ++i) {
    CHECK(a[i] == b[i]);
    for (const bool top : {false, true}) {
      const auto one = top ? a.top(i) : a.of_ids(i), other = top ? b.top(i) : b.of_ids(i);
      CHECK(std::ranges::equal(
          one, other, [](const auto& x, const auto& y) { return x.token == y.token && x.value == y.value; }));
    }
  }
}
// Bit for bit.
void check_same(const Result& a, const Result& b) {
  CHECK(a.tokens == b.tokens);
  CHECK(a.stop_reason == b.stop_reason);
  CHECK(a.stats.target_calls == b.stats.target_calls);
  CHECK(a.stats.accepted == b.stats.accepted);
  check_same(a.log_probabilities, b.log_probabilities);
  check_same(a.raw_log_probabilities, b.raw_log_probabilities);
  check_same(a.prompt_log_probabilities, b.prompt_log_probabilities);
  check_same(a.raw_prompt_log_probabilities, b.raw_prompt_log_probabilities);
}

auto drafter_of(const BlockVerifier&) { return ModelDrafter{LogTable(4, 1, 9).table}; }
auto drafter_of(const GreedyBlockVerifier&) { return ModelDrafter{LogTable(4, 1, 9).table}; }
auto drafter_of(const TraversalVerifier&) { return ModelDrafter{LogTable(4, 1, 9).table, tree}; }

template <class V>
Result generated(const V& rule, const AnyProcessor& processor, const Options& how, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  return SpecDec{ProcessedModel{Engine().model, chain, processor}, drafter_of(rule), rule}.generate(prompt,
                                                                                                    how, rng);
}

// What may happen between propose() and accept() happens now and then.
template <class V>
void check_sequences(const V& rule) {
  Index garbage = 0;
  for (const AnyProcessor& processor : all_processors(std::ssize(prompt)))
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      Engine engine;
      std::mt19937_64 rng(seed), dice(seed + 50);
      const auto one_in = [&](double n) { return uniform01(dice) * n < 1; };
      SpecDec decoder{ProcessedModel{ExternalTarget{4}, chain, processor}, drafter_of(rule), rule};
      auto sequence = decoder.start(prompt, options);
      auto other = decoder.start(Tokens{1, 0, 2}, {.max_new_tokens = 20, .gamma = 2});
      while (!sequence.done()) {
        if (one_in(6)) {  // takes turns with another sequence, which may not be read anew here: it goes on
          std::mt19937_64 own(seed);
          const Feed feed = other.propose(own);
          other.accept(engine.call(other.context(), feed, processor), own);
        }
        std::mt19937_64 again = rng;
        Feed feed = sequence.propose(rng);
        if (one_in(4)) {
          rng = again;
          feed = sequence.propose(rng);
        }
        const Rows rows = engine.call(sequence.context(), feed, processor);
        if (one_in(4)) {
          const Tokens text = copy(sequence.context());
          const Rows wide = Rows::Zero(feed.rows, 5), many = Rows::Zero(feed.rows + 1, 4);
          CHECK(message_of([&] { sequence.accept(wide, rng); }).find("rows over 5 tokens, expected") !=
                std::string::npos);
          CHECK(message_of([&] {
                  sequence.accept(many, rng);
                }).find("expected " + std::to_string(feed.rows)) != std::string::npos);
          CHECK(copy(sequence.context()) == text);
        }
        sequence.accept(rows, rng);
      }
      garbage += engine.garbage;
      check_same(sequence.result(), generated(rule, processor, options, seed));
    }
  CHECK(garbage > 100);  // rows that were cut off
}

}  // namespace

TEST_CASE("a text of rows that are handed in is the text of a processed model") {
  check_sequences(BlockVerifier{});
  check_sequences(GreedyBlockVerifier{});
}

TEST_CASE("a text of trees whose rows are handed in is the text of a processed model") {
  check_sequences(TraversalVerifier{});
}

namespace {

// Each request has a chain and a processor of its own.
auto chain_of(Index number) {
  return Chain{Temperature{0.6 + 0.2 * static_cast<double>(number % 3)}, TopK{number % 2 == 0 ? 3 : 0}};
}
AnyProcessor processor_of(Index number) {
  const std::vector<AnyProcessor> all = all_processors(std::ssize(prompt));
  return all[std::size_t(number) % all.size()];
}
ModelDrafter<ModelPerSequence<Table>> drafters_of(const BlockVerifier&) {
  return ModelDrafter{ModelPerSequence{LogTable(4, 1, 9).table}};
}
auto drafters_of(const TraversalVerifier&) {
  return ModelDrafter{ModelPerSequence{LogTable(4, 1, 9).table}, tree};
}

// Calls are out for several texts at a time, and end in any order; texts pause, go on, leave and fork.
template <class V>
void check_schedule(const V& rule, BatchOptions how, std::uint64_t seed) {
  constexpr Index count = 9;
  std::mt19937_64 dice(seed);
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(uniform01(dice) * static_cast<double>(n));
  };
  Engine engine;
  Batch batch{ProcessedModel{ExternalTarget{4}, chain_of, processor_of}, drafters_of(rule), rule, how};
  struct Call {
    std::vector<Index> texts;
    Rows rows;
  };
  std::vector<Call> calls;
  std::map<Index, Result> results;
  std::map<Index, typename decltype(batch)::Paused> paused;
  for (Index i = 0; i + 1 < count; ++i) batch.add(prompt, options, std::mt19937_64(std::uint64_t(i)));
  batch.fork(3, {.source = std::mt19937_64(count - 1), .number = count - 1});

  const auto in_call = [&](Index text) {
    return std::ranges::any_of(calls,
                               [=](const Call& call) { return std::ranges::count(call.texts, text) > 0; });
  };
  const auto leave = [&](Index text) {
    std::erase_if(calls, [=](const Call& call) { return call.texts.size() == 1 && call.texts[0] == text; });
  };
  while (!batch.empty() || !paused.empty()) {
    const auto text = static_cast<Index>(below(count));
    const bool here = !results.contains(text) && !paused.contains(text);
    const std::size_t what = below(12);
    if (what == 0 && here) {
      paused.emplace(text, batch.pause(text));
      leave(text);
    } else if (what == 1 && !paused.empty()) {
      batch.add(std::move(paused.begin()->second));
      paused.erase(paused.begin());
    } else if (what < 6 && calls.size() < 3) {
      std::vector<Index> free;
      for (Index i = 0; i < count; ++i)
        if (!results.contains(i) && !paused.contains(i) && !in_call(i) && below(3) == 0) {
          free.push_back(i);
          if (below(3) == 0) break;
        }
      for (const BatchFeed& feed : batch.propose_for(free))
        calls.push_back(
            {{feed.sequence},
             engine.call(batch.sequence(feed.sequence).context(), feed, processor_of(feed.sequence))});
    } else if (!calls.empty()) {
      std::ranges::shuffle(calls, dice);
      Call all{{}, Rows(0, 4)};
      for (const std::size_t taken = 1 + below(calls.size()); all.texts.size() < taken; calls.pop_back()) {
        all.texts.push_back(calls.back().texts[0]);
        Rows both(all.rows.rows() + calls.back().rows.rows(), 4);
        both << all.rows, calls.back().rows;
        all.rows = both;
      }
      if (below(4) == 0) {
        const Rows wide = Rows::Zero(all.rows.rows(), 5);
        if (wide.rows() > 0)
          CHECK(message_of([&] { batch.accept_for(all.texts, wide); }).find("rows over 5 tokens, expected") !=
                std::string::npos);
      }
      for (const Finished& done : batch.accept_for(all.texts, all.rows)) {
        CHECK_FALSE(done.error);
        results[done.sequence] = done.result;
      }
    }
  }
  CHECK(engine.garbage > 0);
  for (Index i = 0; i < count; ++i) {
    std::mt19937_64 rng{std::uint64_t(i)};
    const Result alone = SpecDec{ProcessedModel{LogTable(Engine().model), chain_of(i), processor_of(i)},
                                 drafter_of(rule), rule}
                             .generate(prompt, options, rng);
    CHECK(results.at(i).tokens == alone.tokens);
    check_same(results.at(i).log_probabilities, alone.log_probabilities);
    check_same(results.at(i).raw_log_probabilities, alone.raw_log_probabilities);
  }
}

}  // namespace

TEST_CASE("many texts of rows that are handed in late are what they are alone") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) check_schedule(BlockVerifier{}, {}, seed);
}

TEST_CASE("many texts of trees whose rows are handed in late are what they are alone") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) check_schedule(TraversalVerifier{}, {}, seed);
}

TEST_CASE("a text that leaves between propose() and accept() takes no row from the others") {
  for (const Index leaves : {0, 1, 2}) {
    Engine engine;
    Batch batch{ProcessedModel{ExternalTarget{4}, chain_of, processor_of}, drafters_of(BlockVerifier{})};
    for (Index i = 0; i < 3; ++i) batch.add(prompt, {.max_new_tokens = 8, .gamma = 3}, std::mt19937_64(7));
    std::map<Index, Tokens> texts;
    for (bool first = true; !batch.empty(); first = false) {
      const std::span<const BatchFeed> feeds = batch.propose();
      Rows rows(0, 4);
      for (const BatchFeed& feed : feeds) {
        const Rows own =
            engine.call(batch.sequence(feed.sequence).context(), feed, processor_of(feed.sequence));
        Rows both(rows.rows() + own.rows(), 4);
        both << rows, own;
        rows = both;
      }
      if (first) {
        auto paused = batch.pause(leaves);
        batch.add(std::move(paused));  // its rows come, and are for a text that is no more
      }
      for (const Finished& done : batch.accept(rows)) texts[done.sequence] = done.result.tokens;
    }
    for (Index i = 0; i < 3; ++i) {
      std::mt19937_64 rng(7);
      CHECK(texts.at(i) ==
            SpecDec{ProcessedModel{Engine().model, chain_of(i), processor_of(i)}, drafter_of(BlockVerifier{})}
                .generate(prompt, {.max_new_tokens = 8, .gamma = 3}, rng)
                .tokens);
    }
  }
}

TEST_CASE("rows and verdicts may take turns: processors are shown what was settled") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Options how{.max_new_tokens = 30, .gamma = 3};
    const AnyProcessor processor{penalties(unlimited)};
    Engine engine;
    std::mt19937_64 rng(seed), dice(seed + 9);
    SpecDec decoder{ProcessedModel{ExternalTarget{4}, chain, processor}, drafter_of(BlockVerifier{})};
    auto sequence = decoder.start(prompt, how);
    while (!sequence.done()) {
      const Feed feed = sequence.propose(rng);
      if (uniform01(dice) < 0.5) {
        sequence.accept(engine.call(sequence.context(), feed, processor), rng);
        continue;
      }
      Rows rows(feed.rows, 4);
      for (Index i = 0; i < feed.rows; ++i)
        rows.row(i) = *from_scratch(engine.model, processor, before_row(sequence.context(), feed, i));
      const auto& draft = sequence.draft();
      sequence.settle(BlockVerifier{}(ProcessedRows{rows, chain}, draft.rows, draft.tokens, rng));
    }
    CHECK(copy(sequence.tokens()) == generated(BlockVerifier{}, processor, how, seed).tokens);
  }
}

TEST_CASE("a text goes on after a filled context, a pause and another turn, processed as it should be") {
  const AnyProcessor processor{penalties(unlimited)};
  const Options how{.max_new_tokens = 6, .gamma = 3};
  for (const Index cached : {0, 3, 6}) {
    Engine engine;
    std::mt19937_64 rng(3), other(3);
    SpecDec decoder{ProcessedModel{ExternalTarget{4}, chain, processor}, drafter_of(BlockVerifier{})};
    SpecDec whole{ProcessedModel{engine.model, chain, processor}, drafter_of(BlockVerifier{})};
    auto sequence = decoder.start(prompt, how, {.cached = cached});
    auto expected = whole.start(prompt, how);
    for (const Tokens& turn : {Tokens{1, 0}, Tokens{2}, Tokens{}}) {
      for (bool pauses = cached == 0; !sequence.done(); pauses = false) {
        const Feed feed = sequence.propose(rng);
        sequence.accept(engine.call(sequence.context(), feed, processor), rng);
        if (pauses) sequence.pause();
      }
      CHECK(copy(sequence.tokens()) == expected.generate(other).tokens);
      sequence.add_turn(turn, how);
      expected.add_turn(turn, how);
    }
  }
}

TEST_CASE("NaN in a row that is read is refused, and the text goes on with the right rows") {
  Engine engine;
  const AnyProcessor processor{penalties(unlimited)};
  const Options how{.max_new_tokens = 10, .gamma = 2};
  std::mt19937_64 rng(5);
  SpecDec decoder{ProcessedModel{ExternalTarget{4}, chain, processor}, drafter_of(BlockVerifier{})};
  auto sequence = decoder.start(prompt, how);
  while (!sequence.done()) {
    const std::mt19937_64 before = rng;
    Feed feed = sequence.propose(rng);
    const Rows bad = Rows::Constant(feed.rows, 4, nan);
    CHECK_THROWS_AS(sequence.accept(bad, rng), InvalidDistribution);
    rng = before;
    feed = sequence.propose(rng);
    sequence.accept(engine.call(sequence.context(), feed, processor), rng);
  }
  CHECK(copy(sequence.tokens()) == generated(BlockVerifier{}, processor, how, 5).tokens);

  // In a batch it ends the text alone that reads it.
  Batch batch{ProcessedModel{ExternalTarget{4}, chain, processor}, drafters_of(BlockVerifier{})};
  for (Index i = 0; i < 2; ++i) batch.add(prompt, how, std::mt19937_64(5));
  for (int rounds = 0; !batch.empty(); ++rounds) {
    Rows rows(0, 4);
    for (const BatchFeed& feed : batch.propose()) {
      Rows both(rows.rows() + feed.rows, 4);
      both << rows, engine.call(batch.sequence(feed.sequence).context(), feed, processor);
      rows = both;
    }
    if (rounds == 1) rows.row(0).setConstant(nan);
    for (const Finished& done : batch.accept(rows)) {
      CHECK((done.error != nullptr) == (done.sequence == 0));
      if (done.sequence == 1)
        CHECK(done.result.tokens == generated(BlockVerifier{}, processor, how, 5).tokens);
    }
  }
}

TEST_CASE("an error of a hook or a function of the number costs the text that it is about") {
  // A hook fails about a row; it is the text's error when the row is read.
  int calls_left = 5;
  const auto hook = [&](std::span<const Token>, Eigen::Ref<Eigen::RowVectorXd>) {
    if (--calls_left == 0) throw std::runtime_error("the hook fails");
  };
  Engine engine;
  std::mt19937_64 rng(1);
  SpecDec decoder{ProcessedModel{ExternalTarget{4}, hook}, NoDrafter{}};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 8});
  int failures = 0;
  while (!sequence.done()) {
    const Feed feed = sequence.propose(rng);
    const Rows rows = engine.call(sequence.context(), feed, nothing());
    if (message_of<std::runtime_error>([&] { sequence.accept(rows, rng); }) == "the hook fails") ++failures;
  }
  CHECK(failures == 1);
  CHECK(sequence.tokens().size() == 8);

  // A number that the chains do not know: nothing is judged, and the proposal stays.
  bool known = false;
  const auto chains = [&](Index) {
    if (!known) throw std::out_of_range("no such request");
    return Chain{Temperature{1.0}};
  };
  SpecDec numbered{ProcessedModel{ExternalTarget{4}, chains}, NoDrafter{}};
  auto text = numbered.start(prompt, {.max_new_tokens = 1});
  const Feed feed = text.propose(rng);
  const Rows rows = engine.call(text.context(), feed, nothing());
  CHECK_THROWS_AS(text.accept(rows, rng), std::out_of_range);
  known = true;
  CHECK(text.accept(rows, rng).size() == 1);
}

TEST_CASE("rows of floats, of halves, by pointer and in columns are processed in their own arithmetic") {
  const auto hook = [](std::span<const Token> context, auto logits) { logits[context.back()] -= 1; };
  const Options how{.max_new_tokens = 20, .gamma = 3};
  const auto check = [&](auto scalar, const auto& rows_as) {
    using Scalar = decltype(scalar);
    struct Narrow {
      LogTable model{4, 2, 5};
      RowMajor<Scalar> out = {};
      Index vocab_size() const { return 4; }
      const RowMajor<Scalar>& forward(std::span<const Token> tokens, Index rows) {
        return out = model.forward(tokens, rows).template cast<Scalar>();
      }
      void truncate(Index length) { model.truncate(length); }
    };
    std::mt19937_64 rng(2), again(2);
    SpecDec whole{ProcessedModel{Narrow{}, chain, hook}, drafter_of(BlockVerifier{})};
    SpecDec decoder{ProcessedModel{ExternalTarget{4}, chain, hook}, drafter_of(BlockVerifier{})};
    auto sequence = decoder.start(prompt, how);
    Engine engine;
    while (!sequence.done()) {
      const Feed feed = sequence.propose(rng);
      const RowMajor<Scalar> rows = engine.call(sequence.context(), feed, nothing()).template cast<Scalar>();
      rows_as(rows, [&](const auto& matrix) { sequence.accept(matrix, rng); });
    }
    CHECK(copy(sequence.tokens()) == whole.generate(prompt, how, again).tokens);
  };
  check(float{}, [](const auto& rows, const auto& accept) { accept(rows); });
  check(double{}, [](const auto& rows, const auto& accept) { accept(rows); });
  check(Eigen::half{}, [](const auto& rows, const auto& accept) { accept(rows); });
  check(double{}, [](const auto& rows, const auto& accept) { accept(Eigen::MatrixXd(rows)); });
  check(float{}, [](const auto& rows, const auto& accept) {
    std::vector<const float*> pointers;
    for (Index i = 0; i < rows.rows(); ++i) pointers.push_back(rows.row(i).data());
    accept(RowPointers<float>{pointers, 4});
  });
}

TEST_CASE("without a hook rows are read where they lie") {
  std::mt19937_64 rng(4), again(4);
  const Options how{.max_new_tokens = 20, .gamma = 3, .log_probabilities = {.processed = true, .raw = true}};
  SpecDec decoder{ProcessedModel{ExternalTarget{.vocabulary = 4, .context = 30}, chain},
                  drafter_of(BlockVerifier{})};
  auto sequence = decoder.start(prompt, how);
  Engine engine;
  while (!sequence.done()) {
    const Feed feed = sequence.propose(rng);
    sequence.accept(engine.call(sequence.context(), feed, nothing()), rng);
  }
  check_same(
      sequence.result(),
      SpecDec{ProcessedModel{engine.model, chain}, drafter_of(BlockVerifier{})}.generate(prompt, how, again));
}

}  // namespace test_sample_processed_target

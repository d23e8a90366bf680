// ProcessedModel around a model for many texts: each row is processed by its own sequence's chain, and texts together
// are what they are alone.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/no_repeat_ngrams.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/copied_rows.hpp"
#include "support/layouts.hpp"
#include "support/many_texts.hpp"
#include "support/message_of.hpp"
#include "support/processors.hpp"
#include "support/threads.hpp"

namespace test_sample_texts_of_model {

using namespace specdec;

namespace {

using Rows = support::RowMajor<float>;
using Tokens = std::vector<Token>;
using Feeds = std::vector<BatchFeed>;

constexpr Index vocabulary = 6;

// Logits that depend on the last two tokens of each sequence. Of a tree it only records what is kept.
class LogitsTable {
 public:
  explicit LogitsTable(unsigned seed) : table_((vocabulary + 1) * (vocabulary + 1), vocabulary) {
    std::mt19937_64 rng{seed};
    std::normal_distribution<float> normal(0, 1.5f);
    for (float& l : table_.reshaped()) l = normal(rng);
  }

  static Index vocab_size() { return vocabulary; }
  Index context_size() const { return bound; }

  const Rows& forward(std::span<const BatchFeed> feeds) {
    ++calls;
    if (fails) throw std::runtime_error("the engine is out of order");
    Index rows = 0;
    for (const BatchFeed& feed : feeds) rows += feed.rows;
    output_.resize(rows, vocabulary);
    rows = 0;
    for (const BatchFeed& feed : feeds) {
      append(contexts[feed.sequence], feed.tokens, feed.rows, rows);
      rows += feed.rows;
    }
    if (extra_row) output_.conservativeResize(rows + 1, Eigen::NoChange);
    if (extra_column) output_.conservativeResize(Eigen::NoChange, vocabulary + 1);
    return output_;
  }
  void keep(Index sequence, Index length) {
    if (const auto found = contexts.find(sequence); found != contexts.end())
      found->second.resize(std::min(found->second.size(), static_cast<std::size_t>(length)));
  }
  void keep(Index sequence, std::span<const Index> path) { kept[sequence].assign(path.begin(), path.end()); }
  void release(Index sequence) { contexts.erase(sequence); }

  const Rows& output() const { return output_; }

  std::map<Index, Tokens> contexts;
  std::map<Index, std::vector<Index>> kept;
  Index calls = 0, bound = 1000;
  bool extra_row = false, extra_column = false, fails = false;

 private:
  void append(Tokens& context, std::span<const Token> tokens, Index rows, Index first) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      context.push_back(tokens[i]);
      const Index row = rows - (std::ssize(tokens) - static_cast<Index>(i));
      if (row >= 0) output_.row(first + row) = table_.row(state(context));
    }
  }
  static Index state(std::span<const Token> context) {
    Index state = 0;
    for (const Token x : context.last(std::min<std::size_t>(2, context.size())))
      state = state * (vocabulary + 1) + x + 1;
    return state;
  }

  Rows table_, output_;
};

// A LogitsTable of one text.
struct OneText {
  LogitsTable table;
  Index vocab_size() const { return vocabulary; }
  const Rows& forward(std::span<const Token> tokens, Index rows) {
    const Index from = std::ssize(table.contexts[0]);
    return table.forward(std::vector<BatchFeed>{{{.tokens = tokens, .from = from, .rows = rows}, 0}});
  }
  void truncate(Index length) { table.keep(0, length); }
};

// Returns its logits by value, perhaps none. It takes no trees.
struct ByValue {
  LogitsTable table{3};
  bool silent = false;
  static Index vocab_size() { return LogitsTable::vocab_size(); }
  Rows forward(std::span<const BatchFeed> feeds) { return silent ? Rows() : table.forward(feeds); }
  void keep(Index sequence, Index length) { table.keep(sequence, length); }
  void release(Index sequence) { table.release(sequence); }
};

auto chain_of(double temperature, Index k, double p) {
  return Chain{Temperature{temperature}, TopK{k}, TopP{p}};
}
using Steps = decltype(chain_of(1, 0, 1));
const Steps neutral = chain_of(1, 0, 1);

using RowRef = Eigen::Ref<Eigen::Matrix<float, 1, Eigen::Dynamic>>;

// Functions of one type, so that the models around them are compiled once.
using StepsOf = std::function<Steps(Index)>;
using Hook = std::function<void(Index, std::span<const Token>, RowRef)>;

// The steps of each sequence.
Steps own_steps(Index sequence) {
  return chain_of(0.4 + 0.3 * static_cast<double>(sequence % 4), sequence % 3 == 0 ? 4 : 0,
                  sequence % 5 == 0 ? 0.9 : 1.0);
}

using support::CopiedTexts;
using Texts = Batch<CopiedTexts&, ModelDrafter<CopiedTexts&>>;

BatchFeed feed(Index sequence, const Tokens& tokens, Index rows, Index from = 0) {
  return {{.tokens = tokens, .from = from, .rows = rows}, sequence};
}

// Whether the row's probabilities are those of the steps on the logits.
bool is_processed(const ProcessedRow<float, 1, Steps>& row, const Rows& logits, Index i, const Steps& steps) {
  const ProcessedRows expected{logits, steps};
  for (Token x = 0; x < vocabulary; ++x)
    if (row.probability(x) != expected.row(i).probability(x)) return false;
  return row.logits().data() == &logits(i, 0);
}

}  // namespace

static_assert(BatchModel<ProcessedModel<LogitsTable&, Steps>>);
static_assert(BatchModel<ProcessedModel<LogitsTable, Steps (*)(Index)>>);
static_assert(BatchModel<ProcessedModel<ByValue, Steps>>);
static_assert(BatchModel<ProcessedModel<LogitsTable, const Steps& (*)(Index)>>);
static_assert(takes_trees<ProcessedModel<LogitsTable&, Steps>>);
static_assert(!takes_trees<ProcessedModel<ByValue, Steps>>);

TEST_CASE("a processed model of many texts may have one chain for all rows, which are not copied") {
  LogitsTable model(3);
  const Steps steps = chain_of(0.7, 4, 0.9);
  ProcessedModel tested{model, steps};
  CHECK(tested.vocab_size() == vocabulary);
  CHECK(tested.context_size() == 1000);
  const Tokens a{1, 2, 3}, b{4};
  const auto rows = tested.forward(Feeds{feed(7, a, 2), feed(2, b, 1)});
  REQUIRE(rows.rows() == 3);
  for (Index i = 0; i < 3; ++i) CHECK(is_processed(rows.row(i), model.output(), i, steps));
  tested.keep(7, 1);
  CHECK(model.contexts[7] == Tokens{1});
  tested.release(7);
  CHECK(model.contexts.size() == 1);
}

TEST_CASE("a processed model of many texts applies each sequence's own chain") {
  LogitsTable model(4);
  std::vector<Index> asked;
  ProcessedModel tested{model, StepsOf([&](Index sequence) {
                          asked.push_back(sequence);
                          return own_steps(sequence);
                        })};
  const Tokens a{1, 2, 3}, b{4, 5}, c{0, 0, 1};
  for (int call = 0; call < 2; ++call) {  // nothing of one call is left in the next
    asked.clear();
    const auto rows = tested.forward(Feeds{feed(3, a, 2), feed(9, b, 0), feed(5, c, 3), feed(0, b, 1)});
    CHECK(asked == std::vector<Index>{3, 5, 0});
    REQUIRE(rows.rows() == 6);
    CHECK(rows.vocab_size() == vocabulary);
    const std::vector<Index> whose{3, 3, 5, 5, 5, 0};
    for (Index i = 0; i < 6; ++i)
      CHECK(is_processed(rows.row(i), model.output(), i, own_steps(whose[static_cast<std::size_t>(i)])));
  }
}

TEST_CASE("a processed model of many texts may hold its model, and logits returned by value") {
  const Tokens a{1, 2, 3};
  LogitsTable model(3);
  ProcessedModel referred{model, StepsOf(own_steps)};
  ProcessedModel moved{LogitsTable(3), StepsOf(own_steps)};
  ProcessedModel by_value{ByValue{}, StepsOf(own_steps)};
  const auto expected = referred.forward(Feeds{feed(1, a, 2)});
  const auto rows = moved.forward(Feeds{feed(1, a, 2)});
  const auto copied = by_value.forward(Feeds{feed(1, a, 2)});
  for (Index i = 0; i < 2; ++i)
    for (Token x = 0; x < vocabulary; ++x) {
      CHECK(rows.row(i).probability(x) == expected.row(i).probability(x));
      CHECK(copied.row(i).probability(x) == expected.row(i).probability(x));
    }
  CHECK(by_value.context_size() == unlimited);
}

TEST_CASE("if no rows are wanted, logits without rows may have any width") {
  const Tokens tokens{1, 2};
  ProcessedModel plain{ByValue{.silent = true}, StepsOf(own_steps)};
  CHECK(plain.forward(Feeds{feed(1, tokens, 0)}).rows() == 0);
  ProcessedModel hooked{ByValue{.silent = true}, StepsOf(own_steps), Hook([](auto&&...) {})};
  CHECK(hooked.forward(Feeds{feed(1, tokens, 0)}).rows() == 0);
}

TEST_CASE("a processed model of many texts names logits of a wrong shape, and the model keeps its contexts") {
  LogitsTable model(5);
  ProcessedModel tested{model, StepsOf(own_steps)};
  const Tokens a{1, 2, 3}, b{4};
  tested.forward(Feeds{feed(1, a, 1)});
  const Feeds feeds{feed(1, b, 1, 3), feed(2, a, 2)};
  model.extra_row = true;
  CHECK(support::message_of([&] { tested.forward(feeds); }) ==
        "specdec: the model returned 4 rows over 6 tokens, expected 3 rows over its vocabulary of "
        "6");
  CHECK(model.contexts[1] == a);
  CHECK(model.contexts[2].empty());
  model.extra_row = false;
  model.extra_column = true;
  CHECK(support::message_of([&] { tested.forward(feeds); }) ==
        "specdec: the model returned 3 rows over 7 tokens, expected 3 rows over its vocabulary of "
        "6");
  CHECK(model.contexts[1] == a);
}

TEST_CASE("a processed model of many texts does not call the model if a sequence has no chain") {
  LogitsTable model(5);
  const std::map<Index, Steps> known{{1, own_steps(1)}};
  ProcessedModel tested{model, [&](Index sequence) -> const Steps& { return known.at(sequence); }};
  const Tokens a{1, 2, 3};
  CHECK_THROWS_AS(tested.forward(Feeds{feed(1, a, 1), feed(2, a, 1)}), std::out_of_range);
  CHECK(model.calls == 0);
  CHECK(tested.forward(Feeds{feed(1, a, 1)}).rows() == 1);
}

TEST_CASE("a tree passes through a processed model of many texts") {
  LogitsTable model(6);
  ProcessedModel tested{model, StepsOf(own_steps)};
  const std::vector<Index> path{0, 2};
  tested.keep(4, path);
  CHECK(model.kept[4] == path);
}

// What a hook was shown: a sequence, the tokens before a row, and the row's first logit.
struct Shown {
  Index sequence;
  Tokens context;
  float logit;
  friend bool operator==(const Shown&, const Shown&) = default;
};

namespace {

Hook noting(std::vector<Shown>& shown) {
  return [&shown](Index sequence, std::span<const Token> context, RowRef logits) {
    shown.push_back({sequence, {context.begin(), context.end()}, logits[0]});
    logits[0] = static_cast<float>(10 * sequence);
  };
}

}  // namespace

TEST_CASE("a hook of a processed model of many texts sees the sequence and the tokens before its row") {
  LogitsTable model(9), beside(9);
  std::vector<Shown> shown;
  ProcessedModel tested{model, neutral, noting(shown)};
  const Tokens a{1, 2, 3}, b{4}, c{0, 2}, more{3, 1};
  const std::vector<BatchFeed> first{feed(7, a, 2), feed(5, b, 0), feed(6, c, 1)};
  const auto expect = [&](const auto& rows, std::vector<Shown> expected, const Rows& logits) {
    REQUIRE(rows.rows() == std::ssize(expected));
    for (Index i = 0; i < rows.rows(); ++i) {
      Shown& each = expected[static_cast<std::size_t>(i)];
      each.logit = logits(i, 0);
      const auto changed = rows.row(i).logits();
      CHECK(changed[0] == static_cast<float>(10 * each.sequence));
      for (Token x = 1; x < vocabulary; ++x) CHECK(changed[x] == logits(i, x));
      CHECK(rows.row(i).unprocessed().logits()[0] == logits(i, 0));
    }
    CHECK(shown == expected);
    shown.clear();
  };
  expect(tested.forward(first), {{7, {1, 2}, 0}, {7, {1, 2, 3}, 0}, {6, {0, 2}, 0}}, beside.forward(first));

  for (auto* const both : {&model, &beside}) both->keep(7, 1);
  tested.keep(7, 1);
  tested.release(6);
  beside.release(6);
  const std::vector<BatchFeed> second{feed(6, b, 1), feed(5, more, 1, 1), feed(7, more, 1, 1)};
  expect(tested.forward(second), {{6, {4}, 0}, {5, {4, 3, 1}, 0}, {7, {1, 3, 1}, 0}}, beside.forward(second));
}

TEST_CASE("after a failing call of a processed model of many texts all contexts are as before") {
  LogitsTable model(9);
  std::vector<Shown> shown;
  ProcessedModel tested{model, neutral, noting(shown)};
  const Tokens a{1, 2, 3}, b{4};
  const std::vector<BatchFeed> good{feed(7, a, 1)};
  tested.forward(good);
  const auto expect_as_before = [&] {
    shown.clear();
    const std::vector<BatchFeed> next{feed(7, b, 1, 3), feed(8, b, 1)};
    tested.forward(next);
    REQUIRE(shown.size() == 2);
    CHECK(shown[0].context == Tokens{1, 2, 3, 4});
    CHECK(shown[1].context == Tokens{4});
    CHECK(model.contexts.at(7).size() == 4);
    tested.keep(7, 3);
    tested.release(8);
  };
  const std::vector<BatchFeed> both{feed(7, b, 1, 3), feed(8, a, 1)};
  SECTION("the model throws") {
    model.fails = true;
    CHECK_THROWS_AS(tested.forward(both), std::runtime_error);
    model.fails = false;
    expect_as_before();
  }
  SECTION("the logits have a wrong shape") {
    model.extra_row = true;
    CHECK_THROWS_AS(tested.forward(both), std::invalid_argument);
    model.extra_row = false;
    expect_as_before();
  }
  SECTION("a feed begins at a wrong place") {
    const std::vector<BatchFeed> elsewhere{feed(7, b, 1, 3), feed(8, a, 1, 2)};
    CHECK_THAT(support::message_of([&] { tested.forward(elsewhere); }),
               Catch::Contains("feeds[1].from = 2, but the context of sequence 8 holds 0 tokens"));
    expect_as_before();
  }
}

TEST_CASE("an error that a hook throws about a row is thrown when the row is read") {
  LogitsTable model(9);
  const Hook hook = [](Index sequence, std::span<const Token>, RowRef) {
    if (sequence == 8) throw std::runtime_error("no grammar");
  };
  ProcessedModel tested{model, neutral, hook};
  const Tokens a{1, 2, 3};
  const std::vector<BatchFeed> feeds{feed(7, a, 1), feed(8, a, 2), feed(9, a, 1)};
  const auto rows = tested.forward(feeds);
  CHECK(rows.row(0).probability(1) > 0);
  CHECK_THROWS_WITH(rows.row(1), "no grammar");
  CHECK_THROWS_WITH(rows.row(2), "no grammar");
  CHECK(rows.row(3).probability(1) > 0);

  LogitsTable large(7), small(8);
  CopiedTexts target(ProcessedModel{large, neutral, hook}), drafting(ProcessedModel{small, neutral});
  Texts batch{target, ModelDrafter{drafting}};
  for (std::uint64_t i = 0; i < 12; ++i)
    batch.add(a, Options{.max_new_tokens = 5, .gamma = 2}, std::mt19937_64(i));
  for (const Finished& finished : batch.run()) CHECK(bool(finished.error) == (finished.sequence == 8));
}

TEST_CASE("a hook of a processed model of many texts sees the path to a token of a tree") {
  LogitsTable model(9);
  std::vector<Shown> shown;
  ProcessedModel tested{model, neutral, noting(shown)};
  const Tokens a{1, 2}, tree{3, 4, 5}, more{0};
  const std::vector<Index> parents{-1, -1, 0}, of_more{1}, path{1, 3};
  const std::vector<BatchFeed> line{feed(7, a, 1)};
  tested.forward(line);
  shown.clear();
  const auto branching = [](const Tokens& tokens, const std::vector<Index>& after) {
    return std::vector<BatchFeed>{{{.tokens = tokens, .from = 2, .rows = 1, .parents = after}, 7}};
  };
  tested.forward(branching(tree, parents));
  tested.forward(branching(more, of_more));
  REQUIRE(shown.size() == 2);
  CHECK(shown[0].context == Tokens{1, 2, 3, 5});
  CHECK(shown[1].context == Tokens{1, 2, 4, 0});
  const std::vector<BatchFeed> beside{feed(7, more, 1, 2)};
  CHECK_THROWS_AS(tested.forward(beside), InvalidCall);

  tested.keep(7, std::span<const Index>(path));
  CHECK(model.kept[7] == path);
  shown.clear();
  const std::vector<BatchFeed> behind{feed(7, more, 1, 4)};
  model.contexts[7] = {1, 2, 4, 0};
  tested.forward(behind);
  CHECK(shown.at(0).context == Tokens{1, 2, 4, 0, 0});
}

namespace {

struct Setting {
  Index texts, most, per_call;
  Tokens prompt;
  int steps = 0;  // after these one text is cancelled, if there are any
};

// Checks that each text of a batch is the text that models for it alone write. alone(seed, sequence) is the model of
// that text whose table has the seed: 7 is the target's and 8 the draft model's.
void check_texts(CopiedTexts large, CopiedTexts small, const Setting& setting,
                 const std::function<support::CopiedRows(unsigned, Index)>& alone) {
  Texts batch{large, ModelDrafter{small}, BlockVerifier{}, BatchOptions{.tokens_per_call = setting.per_call}};
  const Options options{.max_new_tokens = setting.most, .gamma = 3};
  for (Index i = 0; i < setting.texts; ++i)
    batch.add(setting.prompt, options, std::mt19937_64(static_cast<std::uint64_t>(i)));
  for (int n = 0; n < setting.steps; ++n) batch.step();
  if (setting.steps > 0) batch.cancel(4);
  Index texts = 0;
  for (const Finished& finished : batch.run()) {
    SpecDec decoder{alone(7, finished.sequence), ModelDrafter{alone(8, finished.sequence)}};
    std::mt19937_64 rng(static_cast<std::uint64_t>(finished.sequence));
    REQUIRE_FALSE(finished.error);
    CHECK(finished.result.tokens == decoder.generate(setting.prompt, options, rng).tokens);
    ++texts;
  }
  CHECK(texts == setting.texts - (setting.steps > 0));
}

}  // namespace

TEST_CASE("texts under a hook are what they are alone") {
  LogitsTable large(7), small(8);
  const Hook hook = [](Index sequence, std::span<const Token> context, RowRef logits) {
    for (const Token x : context.last(std::min<std::size_t>(context.size(), 4)))
      logits[x] -= 0.3f * static_cast<float>(sequence % 3);
    logits[(context.back() + sequence) % vocabulary] = -std::numeric_limits<float>::infinity();
  };
  const Steps steps = chain_of(0.9, 0, 1);
  check_texts(CopiedTexts(ProcessedModel{large, steps, hook}),
              CopiedTexts(ProcessedModel{small, steps, hook}), {12, 60, 40, {1, 2}},
              [&](unsigned seed, Index sequence) {
                return support::CopiedRows(
                    ProcessedModel{OneText{LogitsTable(seed)}, steps,
                                   [hook, sequence](std::span<const Token> context, RowRef logits) {
                                     hook(sequence, context, logits);
                                   }});
              });
}

TEST_CASE("texts of processed models, each with its own chain, are what they are alone") {
  LogitsTable large(7), small(8);
  check_texts(CopiedTexts(ProcessedModel{large, StepsOf(own_steps)}),
              CopiedTexts(ProcessedModel{small, StepsOf(own_steps)}), {12, 60, 40, {1, 2}},
              [](unsigned seed, Index sequence) {
                return support::CopiedRows(ProcessedModel{OneText{LogitsTable(seed)}, own_steps(sequence)});
              });
}

namespace {

// Writes its text into the first logit, as a number. Fails after a text of some length, and refuses token 5.
struct Spells {
  std::size_t fails_behind = 100;
  Tokens text = {};

  static float number(const Tokens& text) {
    float value = 1;
    for (const Token x : text) value = 8 * value + static_cast<float>(x);
    return value;
  }
  void apply(auto&& logits) const {
    if (text.size() == fails_behind) throw std::runtime_error("no penalty");
    logits[0] = number(text);
    logits[5] = -std::numeric_limits<float>::infinity();
  }
  bool push(Token x) {
    if (x == 5) return false;
    text.push_back(x);
    return true;
  }
  void pop(Index n) { text.resize(text.size() - static_cast<std::size_t>(n)); }
};

}  // namespace

static_assert(takes_trees<ProcessedModel<LogitsTable&, Steps, Spells>>);

TEST_CASE(
    "processors of many texts follow each text in pieces, back, through trees, and from the start again") {
  LogitsTable model(9);
  std::vector<Index> begun;
  ProcessedModel tested{model, neutral, [&](Index sequence) {
                          begun.push_back(sequence);
                          return Spells{sequence == 3 ? std::size_t{3} : 100};
                        }};
  const Tokens a{1, 2, 3}, b{4}, tree{3, 4, 1}, refused{5, 1};
  const auto spelt = [](const auto& rows, Index i) { return rows.row(i).logits()[0]; };
  const auto first = tested.forward(Feeds{feed(7, a, 0), feed(2, b, 1)});
  CHECK(spelt(first, 0) == Spells::number(b));
  const auto second = tested.forward(Feeds{feed(2, a, 2, 1), feed(7, b, 1, 3), feed(3, a, 2)});
  CHECK(spelt(second, 0) == Spells::number({4, 1, 2}));
  CHECK(spelt(second, 1) == Spells::number({4, 1, 2, 3}));
  CHECK(spelt(second, 2) == Spells::number({1, 2, 3, 4}));
  CHECK_THROWS_WITH(spelt(second, 3), "no penalty");
  CHECK_THROWS_WITH(spelt(second, 4), "no penalty");
  tested.keep(3, 1);
  CHECK(spelt(tested.forward(Feeds{feed(3, b, 1, 1)}), 0) == Spells::number({1, 4}));

  tested.keep(7, 2);
  const std::vector<Index> parents{-1, -1, 0}, path{0, 2};
  const auto third = tested.forward(Feeds{{{.tokens = tree, .from = 2, .rows = 3, .parents = parents}, 7}});
  CHECK(spelt(third, 0) == Spells::number({1, 2, 3}));
  CHECK(spelt(third, 1) == Spells::number({1, 2, 4}));
  CHECK(spelt(third, 2) == Spells::number({1, 2, 3, 1}));
  tested.keep(7, std::span<const Index>(path));
  model.contexts[7] = {1, 2, 3, 1};
  CHECK(spelt(tested.forward(Feeds{feed(7, b, 1, 4)}), 0) == Spells::number({1, 2, 3, 1, 4}));

  tested.release(7);
  CHECK(spelt(tested.forward(Feeds{feed(7, b, 1)}), 0) == Spells::number(b));
  model.fails = true;
  CHECK_THROWS(tested.forward(Feeds{feed(9, a, 1), feed(7, a, 1, 1)}));
  model.fails = false;
  const auto last = tested.forward(Feeds{feed(9, refused, 2), feed(7, refused, 2, 1), feed(8, b, 1)});
  CHECK_THROWS_WITH(spelt(last, 0), Catch::Contains("token 0 of the text is 5, which the processor refuses"));
  CHECK_THROWS_WITH(spelt(last, 2), Catch::Contains("token 1 of the text is 5, which the processor refuses"));
  CHECK(spelt(last, 4) == Spells::number(b));
  const Feeds beyond{feed(8, b, 1, 1),
                     feed(5, b, 1, 4)};  // the second one begins within a text that does not exist
  CHECK_THROWS_WITH(tested.forward(beyond), Catch::Contains("feeds[1].from = 4"));
  CHECK_THROWS_WITH(tested.forward(beyond), Catch::Contains("feeds[1].from = 4"));
  CHECK(begun == std::vector<Index>{7, 2, 3, 7, 9, 9, 8, 5, 5});
}

#ifndef SPECDEC_TEST_SOME
namespace {

// The processors of each sequence.
auto own_processors(Index sequence) {
  return Processors{RepetitionPenalty{1 + 0.1 * static_cast<double>(sequence)}, FrequencyPenalty{0.2, 9},
                    AfterPrompt{sequence, NoRepeatNgrams{3}}};
}

}  // namespace

TEST_CASE("texts under processors with state are what they are alone") {
  support::CopyPerText large(support::LogTable(vocabulary, 2, 7)), small(support::LogTable(vocabulary, 2, 8));
  const Steps steps = chain_of(0.9, 0, 1);
  // The prompt is longer than one call has room for.
  check_texts(CopiedTexts(ProcessedModel{large, steps, own_processors}),
              CopiedTexts(ProcessedModel{small, steps, own_processors}),
              {6, 40, 10, {1, 2, 0, 5, 1, 2, 3, 4, 4, 1, 0, 2, 5}, 12}, [&](unsigned seed, Index sequence) {
                return support::CopiedRows(
                    ProcessedModel{support::LogTable(vocabulary, 2, seed), steps, own_processors(sequence)});
              });
}

TEST_CASE("texts under processors with state, with trees drafted together, are what they are alone") {
  support::CopyPerText large(support::LogTable(vocabulary, 2, 7)), small(support::LogTable(vocabulary, 2, 8));
  const Steps steps = chain_of(0.9, 4, 1);
  const TreeShape shape = TreeShape::of_widths({2, 2, 1});
  Batch batch{ProcessedModel{large, steps, own_processors},
              ModelDrafter{ProcessedModel{small, steps, own_processors}, Tree{shape, WithoutReplacement{}}},
              TraversalVerifier{}, BatchOptions{.tokens_per_call = 60}};
  const Options options{.max_new_tokens = 30, .gamma = 10};
  const Tokens prompt{1, 2, 0, 5, 1, 2, 3};
  for (std::uint64_t i = 0; i < 6; ++i)
    batch.add(std::span(prompt).first(2 + i), options, std::mt19937_64(i));
  for (int n = 0; n < 5; ++n) batch.step();
  batch.cancel(4);
  CHECK(large.size() == 5);
  CHECK(small.size() == 5);
  Index accepted = 0, calls = 0;
  for (const Finished& finished : batch.run(support::TwoThreads{})) {
    const auto own = own_processors(finished.sequence);
    const auto own_prompt = std::span(prompt).first(2 + static_cast<std::size_t>(finished.sequence));
    SpecDec alone{ProcessedModel{support::LogTable(vocabulary, 2, 7), steps, own},
                  ModelDrafter{ProcessedModel{support::LogTable(vocabulary, 2, 8), steps, own},
                               Tree{shape, WithoutReplacement{}}},
                  TraversalVerifier{}};
    std::mt19937_64 rng(static_cast<std::uint64_t>(finished.sequence));
    REQUIRE_FALSE(finished.error);
    CHECK(finished.result.tokens == alone.generate(own_prompt, options, rng).tokens);
    calls += finished.result.stats.target_calls;
    accepted += std::ssize(finished.result.tokens) - finished.result.stats.target_calls;
  }
  CHECK(accepted > calls / 2);
  CHECK(large.size() + small.size() == 0);
}
#endif

}  // namespace test_sample_texts_of_model

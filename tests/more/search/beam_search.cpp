// Beam search with a draft model finds what plain beam search over the target finds, text for text.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <random>
#include <specdec/draft/model_drafter.hpp>
#include <specdec/loop/spec_dec.hpp>
#include <specdec/model/model_per_sequence.hpp>
#include <specdec/model/path_by_path.hpp>
#include <specdec/more/search/beam_search.hpp>
#include <specdec/sample/processed_model.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <specdec/testing/table_model.hpp>
#include <string>
#include <vector>

#include "support/beams.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_beam_search {

using namespace specdec;
using support::check_equal, support::NoDoubles, support::PlainSearch, support::random_options;
using support::message_of;
using testing::TableModel;

TEST_CASE("beams equal the beams of plain search, whatever the draft model proposes") {
  std::mt19937_64 rng{1};
  Index calls = 0, levels = 0;
  for (int k = 0; k < 600; ++k) {
    const Index vocab_size = 2 + k % 5;
    const auto target = TableModel<>::random(vocab_size, 2, rng);
    // Every third draft model is the target itself; the others know more or fewer tokens.
    const auto small = k % 3 == 0 ? target : TableModel<>::random(1 + (k * 7) % 6, 1, rng);
    std::vector<Token> prompt(1 + rng() % 4);
    for (Token& x : prompt) x = static_cast<Token>(rng() % 2);
    const BeamOptions options = random_options(rng, vocab_size);
    CAPTURE(k, options.width, options.draft_width, options.gamma, options.max_new_tokens);
    BeamSearch search{TableModel<>(target), TableModel<>(small)};
    const BeamResult found = search.generate(prompt, options);
    check_equal(found, PlainSearch{target, prompt, options}.beams());
    REQUIRE(found.target_calls <= found.levels);
    REQUIRE(found.levels <= found.target_calls * (options.gamma + 1));
    calls += found.target_calls;
    levels += found.levels;
  }
  CHECK(5 * calls < 4 * levels);
}

TEST_CASE(
    "plain search is a search without a draft model, or with gamma 0, and makes a call for each level") {
  std::mt19937_64 rng{2};
  for (int k = 0; k < 50; ++k) {
    const auto target = TableModel<>::random(4, 2, rng), small = TableModel<>::random(4, 1, rng);
    const std::vector<Token> prompt{1, 2};
    BeamOptions options = random_options(rng, 4);
    const std::vector<Beam> expected = PlainSearch{target, prompt, options}.beams();
    BeamSearch plain{TableModel<>(target)};
    const BeamResult found = plain.generate(prompt, options);
    check_equal(found, expected);
    CHECK(found.target_calls == found.levels);
    CHECK(found.draft_calls == 0);
    options.gamma = 0;
    BeamSearch idle{TableModel<>(target), TableModel<>(small)};
    const BeamResult same = idle.generate(prompt, options);
    check_equal(same, expected);
    CHECK(same.target_calls == same.levels);
    CHECK(same.drafted == 0);
  }
}

TEST_CASE("a draft model that equals the target proposes every text that is kept") {
  std::mt19937_64 rng{3};
  for (const Index gamma : {1, 2, 5}) {
    const auto target = TableModel<>::random(5, 2, rng);
    BeamSearch search{TableModel<>(target), TableModel<>(target)};
    const BeamResult found = search.generate(
        std::vector<Token>{0}, {.max_new_tokens = 24, .width = 3, .draft_width = 3, .gamma = gamma});
    CHECK(found.levels == 24);
    CHECK(found.target_calls == (24 + gamma) / (gamma + 1));
    CHECK(found.stop_reason == StopReason::length);
    CHECK(found.draft_calls == gamma * 24 / (gamma + 1));
    const BeamResult one = search.generate(std::vector<Token>{0}, {.max_new_tokens = 1, .gamma = gamma});
    CHECK(one.drafted == 0);  // the only level follows from the prompt
  }
}

TEST_CASE("tokens that the target does not know are not proposed") {
  const auto target = TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5));
  const auto small = TableModel<>::context_free(Eigen::RowVector4d(0.1, 0.1, 0.4, 0.4));
  BeamSearch search{TableModel<>(target), TableModel<>(small)};
  const std::vector<Token> prompt{0};
  CHECK(search.generate(prompt, {.max_new_tokens = 5, .draft_width = 2}).drafted == 0);
  CHECK(search.generate(prompt, {.max_new_tokens = 5, .draft_width = 4}).drafted > 0);
}

TEST_CASE("a search ends when all texts have stopped, and says so") {
  Eigen::MatrixXd table(4, 3);
  table << 0.1, 0.2, 0.7, 0.1, 0.2, 0.7, 0.5, 0.25, 0.25, 0.3, 0.3, 0.4;
  const TableModel<> target(table, 1);
  const BeamOptions options{.max_new_tokens = 50, .width = 2, .stop_tokens = {0}};
  BeamSearch search{TableModel<>(target), TableModel<>(target)};
  const BeamResult found = search.generate(std::vector<Token>{1}, options);
  check_equal(found, PlainSearch{target, {1}, options}.beams());
  CHECK(found.stop_reason == StopReason::stop_token);
  CHECK(found.levels < 50);
  for (const Beam& beam : found.beams) CHECK(beam.stopped);
}

// A model with a bounded context, to which the open tree counts, too. It may fail in one of its calls.
struct WatchedModel {
  TableModel<> model;
  Index most = unlimited;
  int until = -1;  // how many calls until it fails; -1: never
  Index open = 0;  // tokens in the tree
  Index fed = 0, most_open = 0;

  Index vocab_size() const { return model.vocab_size(); }
  Index context_size() const { return most; }
  const auto& forward(std::span<const Token> tokens, Index rows) & { return model.forward(tokens, rows); }
  const auto& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) & {
    if (until-- == 0) throw std::runtime_error("the engine failed");
    open += std::ssize(tokens);
    fed += std::ssize(tokens);
    most_open = std::max(most_open, open);
    if (std::ssize(model.context()) + open > most) throw std::logic_error("fed past its context");
    return model.forward(tokens, parents, rows);
  }
  void keep(std::span<const Index> path) { open = 0, model.keep(path); }
  void truncate(Index length) { open = 0, model.truncate(length); }
};

// The model's open tree is given up now and then.
TEST_CASE("a long search stays exact, and its context holds no more than it needs") {
  std::mt19937_64 rng{4};
  const auto target = TableModel<>::random(4, 3, rng), small = TableModel<>::random(4, 2, rng);
  std::vector<Token> prompt(100);
  for (Token& x : prompt) x = static_cast<Token>(rng() % 4);
  const BeamOptions options{.max_new_tokens = 400, .width = 3, .draft_width = 6, .gamma = 3};
  WatchedModel watched{target}, watched_small{small};
  BeamSearch search{watched, watched_small};
  const BeamResult found = search.generate(prompt, options);
  check_equal(found, PlainSearch{target, prompt, options}.beams());
  for (const WatchedModel* model : {&watched, &watched_small}) {
    CHECK(model->open == 0);
    CHECK(model->model.context().empty());
  }
  // The prompt, the tokens that are new in each call, and the few that are fed again.
  CHECK(watched.fed < 2 * (100 + found.target_calls * options.width + found.drafted));

  watched.most_open = watched_small.most_open = 0;
  search.generate(std::vector<Token>{0}, {.max_new_tokens = 400, .width = 1, .draft_width = 2});
  CHECK(watched.most_open < 300);  // a single text enters the context
  CHECK(watched_small.most_open < 300);
}

TEST_CASE("in a bounded context the search reaches at least as far as plain search") {
  std::mt19937_64 rng{5};
  const std::vector<Token> prompt{0, 1, 2};
  const BeamOptions options{.max_new_tokens = 60, .width = 2, .draft_width = 4, .gamma = 3};
  bool shortened = false;
  for (int k = 0; k < 20; ++k) {
    const auto target = TableModel<>::random(3, 2, rng), small = TableModel<>::random(3, 1, rng);
    for (const Index size : {3, 6, 12, 25, 40}) {
      BeamSearch plain{WatchedModel{target, size}};
      const BeamResult expected = plain.generate(prompt, options);
      CHECK(expected.stop_reason == StopReason::context);
      BeamSearch search{WatchedModel{target, size}, WatchedModel{small, 9}};
      const BeamResult found = search.generate(prompt, options);
      CAPTURE(size);
      CHECK(found.stop_reason == StopReason::context);
      CHECK(found.levels >= expected.levels);
      shortened = shortened || found.target_calls < found.levels;
      BeamOptions as_long = options;
      as_long.max_new_tokens = found.levels;
      check_equal(found, PlainSearch{target, prompt, as_long}.beams());
    }
  }
  CHECK(shortened);
}

TEST_CASE("in a bounded context a single text fills the context") {
  std::mt19937_64 rng{9};
  const auto target = TableModel<>::random(3, 2, rng), small = TableModel<>::random(3, 1, rng);
  for (const Index gamma : {0, 3}) {
    BeamSearch search{WatchedModel{target, 30}, WatchedModel{small, 30}};
    const BeamResult found = search.generate(
        std::vector<Token>{0, 1}, {.max_new_tokens = 60, .width = 1, .draft_width = 2, .gamma = gamma});
    CHECK(found.levels == 29);  // the last token is not fed
    CHECK(found.stop_reason == StopReason::context);
  }
}

TEST_CASE("texts that differ from their first token on cost no more in a long search") {
  Eigen::MatrixXd table(5, 4);  // 2 and 3 follow only themselves
  table << 0, 0, 0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0, 1, 0, 0, 0, 0, 1;
  WatchedModel watched{TableModel<>(table, 1)};
  BeamSearch search{watched};
  const BeamResult found = search.generate(std::vector<Token>{0}, {.max_new_tokens = 2000, .width = 2});
  REQUIRE(found.beams.size() == 2);
  CHECK(found.beams[0].tokens == std::vector<Token>(2000, 2));
  CHECK(found.beams[1].tokens == std::vector<Token>(2000, 3));
  CHECK(watched.fed < 4 * 2 * 2000);
}

// The logarithms of a table's rows.
struct LogTable {
  TableModel<> model;
  Eigen::MatrixXd logits = {};

  Index vocab_size() const { return model.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) & {
    return logits = model.forward(tokens, rows).array().log();
  }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, std::span<const Index> parents,
                                 Index rows) & {
    return logits = model.forward(tokens, parents, rows).array().log();
  }
  void keep(std::span<const Index> path) { model.keep(path); }
  void truncate(Index length) { model.truncate(length); }
};

// All its probabilities are positive.
TableModel<> positive_table(Index vocab_size, std::mt19937_64& rng) {
  Eigen::MatrixXd table(vocab_size + 1, vocab_size);
  for (double& p : table.reshaped()) p = 0.05 + uniform01(rng);
  return {table.array().colwise() / table.rowwise().sum().array().eval(), 1};
}

TEST_CASE("a target with a processor is searched, though the draft model proposes what it refuses") {
  std::mt19937_64 rng{10};
  for (int k = 0; k < 200; ++k) {
    const Index vocab_size = 3 + k % 2;
    const auto target = positive_table(vocab_size, rng), small = positive_table(vocab_size, rng);
    const std::vector<Token> prompt{1, 2};
    const BeamOptions options{.max_new_tokens = 6, .width = 2, .draft_width = 1 + k % 3, .gamma = 2};
    BeamSearch plain{ProcessedModel{LogTable{target}, Temperature{1}, NoDoubles{}}};
    BeamSearch search{ProcessedModel{LogTable{target}, Temperature{1}, NoDoubles{}}, TableModel<>(small)};
    check_equal(search.generate(prompt, options), plain.generate(prompt, options).beams);
  }
}

TEST_CASE("one model cannot be target and draft model of a search") {
  std::mt19937_64 rng{11};
  TableModel<> model = TableModel<>::random(3, 1, rng);
  BeamSearch search{model, model};
  CHECK(message_of<InvalidCall>([&] {
          search.generate(std::vector<Token>{0, 1}, {});
        }) == "specdec: target and draft model of a beam search are one model: give each its own");
}

TEST_CASE("any model may be searched: wrapped, for many texts, or referred to") {
  std::mt19937_64 rng{6};
  const auto target = TableModel<>::random(4, 2, rng), small = TableModel<>::random(4, 1, rng);
  const std::vector<Token> prompt{3, 1};
  const BeamOptions options{.max_new_tokens = 20, .width = 3};
  const std::vector<Beam> expected = PlainSearch{target, prompt, options}.beams();
  SECTION("branch by branch") {
    BeamSearch search{PathByPath{TableModel<>(target)}, PathByPath{TableModel<>(small)}};
    check_equal(search.generate(prompt, options), expected);
  }
  SECTION("for many texts") {
    ModelPerSequence many{TableModel<>(target)};
    BeamSearch search{many, ModelPerSequence{TableModel<>(small)}};
    for (int k = 0; k < 2; ++k) check_equal(search.generate(prompt, options), expected);
    CHECK(many.size() == 0);
  }
  SECTION("by reference, used by others in between") {
    TableModel<> mine = target;
    BeamSearch search{mine, TableModel<>(small)};
    check_equal(search.generate(prompt, options), expected);
    SpecDec other{mine, ModelDrafter{TableModel<>(small)}};
    auto sequence = other.start(prompt, {.max_new_tokens = 20});
    sequence.step(rng);
    check_equal(search.generate(prompt, options), expected);
    CHECK(mine.context().empty());
    while (!sequence.done()) sequence.step(rng);  // feeds the context anew
    CHECK(std::ranges::equal(mine.context(), std::span(sequence.context()).first(mine.context().size())));
  }
}

TEST_CASE("after a failed call the search can be used again") {
  std::mt19937_64 rng{7};
  const auto target = TableModel<>::random(4, 2, rng), small = TableModel<>::random(4, 1, rng);
  const std::vector<Token> prompt{3, 1};
  const BeamOptions options{.max_new_tokens = 20, .width = 3};
  const std::vector<Beam> expected = PlainSearch{target, prompt, options}.beams();
  for (const int until : {0, 1, 4}) {
    WatchedModel failing{.model = target, .until = until}, failing_small{.model = small, .until = until};
    BeamSearch search{failing, failing_small};
    CHECK(message_of<std::runtime_error>([&] { search.generate(prompt, options); }) == "the engine failed");
    CHECK(failing.model.context().empty());
    CHECK(failing.open == 0);
    failing.until = failing_small.until = -1;
    check_equal(search.generate(prompt, options), expected);
  }
}

TEST_CASE("bad arguments and bad rows are named") {
  std::mt19937_64 rng{8};
  const auto target = TableModel<>::random(4, 0, rng);
  BeamSearch search{TableModel<>(target)};
  const std::vector<Token> prompt{3, 1};
  const auto error = [&](const std::vector<Token>& text, const BeamOptions& options) {
    return message_of([&] { search.generate(text, options); });
  };
  CHECK(error({}, {}) == "specdec: prompt is empty: there is nothing to continue");
  CHECK(error({3, 4}, {}) == "specdec: prompt[1] = 4 is outside the vocabulary 0..3");
  CHECK(error(prompt, {.width = 0}) == "specdec: width = 0 is outside 1..1024");
  CHECK(error(prompt, {.draft_width = 1025}) == "specdec: draft_width = 1025 is outside 1..1024");
  CHECK(error(prompt, {.gamma = -1}) == "specdec: gamma = -1 is outside 0..1024");
  CHECK(error(prompt, {.max_new_tokens = -1}) ==
        "specdec: max_new_tokens = -1 is outside 0..9223372036854775807");

  Eigen::MatrixXd bad = Eigen::MatrixXd::Constant(1, 3, 1. / 3);
  bad(0, 1) = std::numeric_limits<double>::quiet_NaN();
  BeamSearch over_bad{TableModel<>(bad, 0)};
  CHECK(message_of([&] { over_bad.generate(std::vector<Token>{0}, {}); }) ==
        "specdec: target row 0: the probability of token 1 is nan");
  BeamSearch of_nothing{TableModel<>(Eigen::MatrixXd::Zero(1, 3), 0)};
  CHECK(message_of([&] { of_nothing.generate(std::vector<Token>{0}, {}); }) ==
        "specdec: target row 0: no token has positive probability");
  BeamSearch with_bad{TableModel<>(target), TableModel<>(bad, 0)};
  CHECK(message_of([&] { with_bad.generate(std::vector<Token>{0}, {}); }) ==
        "specdec: draft row 0: the probability of token 1 is nan");
}

}  // namespace test_beam_search

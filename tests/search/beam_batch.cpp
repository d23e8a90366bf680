// Searches after many prompts at once find what each finds alone, beside texts that share the model, and through failing calls.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/model/forked_branches.hpp>
#include <specdec/search/beam_search.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/beams.hpp"
#include "support/bookkeeper.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_beam_batch {

using namespace specdec;
using support::Bookkeeper, support::Models, support::models_of, support::RowMajor;
using support::check_equal, support::message_of, support::NoDoubles, support::random_options;
using testing::TableModel;
using Tokens = std::vector<Token>;

struct Asked {
  Tokens prompt;
  BeamOptions options;
};

Asked random_search(std::mt19937_64& rng, Index vocab_size) {
  Tokens prompt(1 + rng() % 5);
  for (Token& x : prompt) x = static_cast<Token>(rng() % static_cast<std::uint64_t>(vocab_size));
  return {prompt, random_options(rng, vocab_size)};
}

// What a search finds alone, and what its models are fed.
struct Alone {
  BeamResult found;
  Index fed = 0, fed_to_draft = 0;
};
Alone alone(const Models& models, const Asked& asked, bool drafts) {
  Bookkeeper target(models.target), small(models.small);
  if (!drafts) return {BeamSearch{target}.generate(asked.prompt, asked.options), target.fed};
  const BeamResult found = BeamSearch{target, small}.generate(asked.prompt, asked.options);
  CHECK(target.contexts.empty());
  CHECK(small.contexts.empty());
  return {found, target.fed, small.fed};
}

void check_same(const BeamResult& found, const BeamResult& expected) {
  check_equal(found, expected.beams);
  CHECK(found.stop_reason == expected.stop_reason);
  CHECK(found.levels == expected.levels);
  CHECK(found.target_calls == expected.target_calls);
  CHECK(found.draft_calls == expected.draft_calls);
  CHECK(found.drafted == expected.drafted);
}

// Searches that come at different steps.
template <class Searches>
void check_many(Searches& searches, const Models& models, Bookkeeper& target, Bookkeeper* small,
                std::mt19937_64& rng) {
  std::map<Index, Alone> expected;
  Index most_calls = 0, fed = 0, fed_to_draft = 0, next = 50;
  for (int step = 0; step < 4 || !searches.empty(); ++step) {
    if (step < 4)
      for (int more = 0; more < 2; ++more) {
        const Asked asked = random_search(rng, models.target.vocab_size());
        searches.add(next, asked.prompt, asked.options);
        expected[next] = alone(models, asked, small != nullptr);
        most_calls = std::max(most_calls, step + expected[next].found.target_calls);
        fed += expected[next].fed;
        fed_to_draft += expected[next].fed_to_draft;
        next += 3;
      }
    for (const FoundBeams& found : searches.step()) {
      CAPTURE(found.sequence);
      REQUIRE_FALSE(found.error);
      check_same(found.result, expected.at(found.sequence).found);
      expected.erase(found.sequence);
    }
  }
  CHECK(expected.empty());
  CHECK(target.calls <= most_calls);
  CHECK(target.fed == fed);
  CHECK(target.contexts.empty());
  if (small == nullptr) return;
  CHECK(small->fed == fed_to_draft);
  CHECK(small->contexts.empty());
}

TEST_CASE("many searches at once find what each finds alone, and read what they read alone") {
  std::mt19937_64 rng{1};
  for (int k = 0; k < support::bound(60, 400); ++k) {
    const Models models = models_of(rng, 2 + k % 4);
    Bookkeeper target(models.target), small(models.small);
    if (k % 3 == 0) {
      BeamBatch searches{target};
      check_many(searches, models, target, nullptr, rng);
    } else {
      BeamBatch searches{target, small};
      check_many(searches, models, target, &small, rng);
    }
  }
}

const Options options{.max_new_tokens = 20, .gamma = 3};

// One call of a model for the feeds of both.
template <class Model, class Texts>
void step_together(Model& target, Texts& batch, auto& searches, std::map<Index, Tokens>& texts,
                   std::map<Index, BeamResult>& found) {
  std::vector<BatchFeed> feeds;
  detail::append(feeds, batch.propose());
  const Index first = detail::rows_of(feeds);
  detail::append(feeds, searches.propose());
  if (feeds.empty()) return;
  const auto& output = target.forward(feeds);
  const auto rows = distributions(output);
  for (const Finished& done : batch.accept(RowRange(rows, 0, first))) {
    CHECK_FALSE(done.error);
    texts[done.sequence] = done.result.tokens;
  }
  for (const FoundBeams& done : searches.accept(RowRange(rows, first, rows.rows() - first))) {
    CHECK_FALSE(done.error);
    found[done.sequence] = done.result;
  }
}

TEST_CASE("beside a batch over one model, in one call a step, texts and beams are what they are alone") {
  std::mt19937_64 rng{2};
  for (int k = 0; k < support::bound(20, 100); ++k) {
    const Models models = models_of(rng, 3);
    Bookkeeper target(models.target), small(models.small);
    Batch batch{target, ModelDrafter{small}};
    BeamBatch searches{target, small};  // one draft model, too
    std::map<Index, Tokens> expected_texts, texts;
    std::map<Index, BeamResult> expected_beams, found;
    const Tokens prompt{0, 1, 2};
    Index most_calls = 0;
    for (std::uint64_t i = 0; i < 3; ++i) {
      SpecDec decoder{TableModel<>(models.target), ModelDrafter{TableModel<>(models.small)}};
      std::mt19937_64 source{i};
      const Result result = decoder.generate(prompt, options, source);
      most_calls = std::max(most_calls, result.stats.target_calls);
      expected_texts[batch.add(prompt, options, std::mt19937_64{i})] = result.tokens;
      const Asked asked = random_search(rng, 3);
      const Index number = 1000 + static_cast<Index>(i);
      searches.add(number, asked.prompt, asked.options);
      expected_beams[number] = alone(models, asked, true).found;
      most_calls = std::max(most_calls, expected_beams[number].target_calls);
    }
    for (int steps = 0; !batch.empty() || !searches.empty(); ++steps) {
      REQUIRE(steps < 100);
      step_together(target, batch, searches, texts, found);
    }
    CHECK(texts == expected_texts);
    REQUIRE(found.size() == expected_beams.size());
    for (const auto& [number, result] : found) check_same(result, expected_beams.at(number));
    CHECK(target.calls == most_calls);
    CHECK(target.contexts.empty());
    CHECK(small.contexts.empty());
  }
}

// Logits of a table, and what was fed to whom.
struct LogTable {
  TableModel<> model;
  Eigen::MatrixXd logits = {};

  Index vocab_size() const { return model.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) & {
    return logits = (model.forward(tokens, rows).array() + 1e-3).log();
  }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, std::span<const Index> parents,
                                 Index rows) & {
    return logits = (model.forward(tokens, parents, rows).array() + 1e-3).log();
  }
  void keep(std::span<const Index> path) { model.keep(path); }
  void truncate(Index length) { model.truncate(length); }
};

TEST_CASE("a batch and searches share a model with a chain and a processor") {
  const Models models = models_of(3);
  const Tokens prompt{0, 1, 2};
  const Chain chain{Temperature{0.9}};
  const BeamOptions how{.max_new_tokens = 9, .width = 3};
  ProcessedModel target{ModelPerSequence{LogTable{models.target}}, chain, NoDoubles{}};
  ProcessedModel one{LogTable{models.target}, chain, NoDoubles{}};
  Batch batch{target, ModelDrafter{ModelPerSequence{models.small}}};
  BeamBatch searches{target};
  std::mt19937_64 source{7};
  const Tokens text =
      SpecDec{one, ModelDrafter{TableModel<>(models.small)}}.generate(prompt, options, source).tokens;
  batch.add(prompt, options, std::mt19937_64{7});
  const std::map<Index, Tokens> prompts{{100, {1, 0}}, {200, {2, 1, 2}}};
  for (const auto& [number, start] : prompts) searches.add(number, start, how);
  std::map<Index, Tokens> texts;
  std::map<Index, BeamResult> found;
  while (!batch.empty() || !searches.empty()) step_together(target, batch, searches, texts, found);
  CHECK(texts.at(0) == text);
  for (const auto& [number, start] : prompts)
    check_same(found.at(number), BeamSearch{one}.generate(start, how));
}

// A target that copies contexts.
struct Forking : Bookkeeper {
  using Bookkeeper::Bookkeeper;
  void fork(Index from, Index to) { contexts[to] = contexts.at(from); }
};

TEST_CASE("searches after a prompt that was read for a text read no token of it again") {
  std::mt19937_64 rng{4};
  Eigen::MatrixXd table(6, 5);
  for (double& p : table.reshaped()) p = 0.05 + uniform01(rng);
  const TableModel<> model((table.array().colwise() / table.rowwise().sum().array()).eval(), 1);
  Tokens prompt(60);
  for (Token& x : prompt) x = static_cast<Token>(rng() % 5);
  Forking target(model);
  Batch batch{target, ModelDrafter{Bookkeeper(model)}};
  const Index text = batch.add(prompt, options, std::mt19937_64{1});
  batch.step();
  const Index fed = target.fed;
  BeamBatch searches{target};
  const BeamOptions how{.max_new_tokens = 20, .width = 3};
  for (const Index number : {100, 101}) {
    target.fork(text, number);
    searches.add(number, prompt, how, std::ssize(prompt));
  }
  Index over = 0;
  while (!searches.empty())
    for (const FoundBeams& found : searches.step()) {
      check_same(found.result, BeamSearch{Bookkeeper(model)}.generate(prompt, how));
      ++over;
    }
  CHECK(over == 2);
  // Each reads the prompt's last token, for its row, and its texts without their last tokens.
  CHECK(target.fed - fed == 2 * (1 + 3 * 19));
  std::mt19937_64 source{1};
  CHECK(batch.run()[0].result.tokens == SpecDec{TableModel<>(model), ModelDrafter{TableModel<>(model)}}
                                            .generate(prompt, options, source)
                                            .tokens);
}

TEST_CASE("a target that remembers its contexts is told what somebody else has read") {
  const Models models = models_of(4);
  const Tokens prompt{0, 1, 2, 3, 1};
  const BeamOptions how{.max_new_tokens = 9, .width = 2};
  Bookkeeper engine(models.target);
  PathByPath paths{engine};
  BeamBatch searches{paths};
  const BatchFeed read{{.tokens = prompt, .rows = 1}, 5};
  engine.forward(std::span(&read, 1));
  for (const Index cached : {3, 5}) {
    searches.add(5, prompt, how, cached);
    const Index fed = engine.fed;
    searches.step();
    CHECK(engine.fed - fed == (cached == 3 ? 2 : 1));
    if (cached == 3) {
      searches.cancel(5);
      engine.forward(std::span(&read, 1));
    }
  }
  std::span<const FoundBeams> found;
  while (found.empty()) found = searches.step();
  check_same(found[0].result, BeamSearch{TableModel<>(models.target)}.generate(prompt, how));
}

TEST_CASE("a step that fails in any call can be tried again, and nothing is lost") {
  std::mt19937_64 rng{5};
  for (int k = 0; k < support::bound(40, 200); ++k) {
    const Models models = models_of(rng, 3);
    Bookkeeper target(models.target), small(models.small);
    BeamBatch searches{target, small};
    std::map<Index, BeamResult> expected;
    for (const Index number : {0, 1, 2}) {
      const Asked asked = random_search(rng, 3);
      searches.add(number, asked.prompt, asked.options);
      expected[number] = alone(models, asked, true).found;
    }
    int failures = 0;
    while (!searches.empty()) {
      for (Bookkeeper* model : {&target, &small}) {
        const auto soon = [&] { return model->calls + 1 + static_cast<Index>(rng() % 6); };
        model->fails_at = soon(), model->fails_behind = soon(), model->one_row_short_at = soon();
      }
      try {
        for (const FoundBeams& found : searches.step()) {
          REQUIRE_FALSE(found.error);
          check_equal(found.result, expected.at(found.sequence).beams);
          CHECK(found.result.levels == expected.at(found.sequence).levels);
          expected.erase(found.sequence);
        }
      } catch (const Bookkeeper::Failure&) {
        ++failures;
      } catch (const std::invalid_argument& error) {
        CHECK(std::string(error.what()).find(" rows, expected ") != std::string::npos);
        ++failures;
      }
      REQUIRE(failures < 1000);
    }
    CHECK(expected.empty());
    CHECK(target.contexts.empty());
    CHECK(small.contexts.empty());
  }
}

TEST_CASE("rows that cannot be read end only their own search, with what it has found") {
  const Models models = models_of(6);
  const Asked asked{{0, 1}, {.max_new_tokens = 12, .width = 2, .draft_width = 3, .gamma = 2}};
  const BeamResult expected = alone(models, asked, true).found;
  for (const bool of_target : {true, false}) {
    Bookkeeper target(models.target), small(models.small);
    BeamBatch searches{target, small};
    for (const Index number : {4, 5, 6}) searches.add(number, asked.prompt, asked.options);
    CHECK(searches.step().empty());
    const BeamResult before = searches.search(5).result();
    CHECK(before.levels > 0);
    (of_target ? target : small).spoils = 5;
    const auto failed = searches.step();
    REQUIRE(failed.size() == 1);
    CHECK(failed[0].sequence == 5);
    check_equal(failed[0].result, before.beams);
    const std::string message =
        message_of<InvalidDistribution>([&] { std::rethrow_exception(failed[0].error); });
    CHECK(message.starts_with(of_target ? "specdec: target row 0: the probability of token "
                                        : "specdec: draft row 0: the probability of token "));
    CHECK_FALSE(target.contexts.contains(5));
    CHECK_FALSE(small.contexts.contains(5));
    CHECK(searches.size() == 2);
    Index over = 0;
    while (!searches.empty())
      for (const FoundBeams& found : searches.step()) {
        CHECK_FALSE(found.error);
        check_same(found.result, expected);
        ++over;
      }
    CHECK(over == 2);
  }
}

TEST_CASE("an engine reads the feeds itself, and is told what it keeps") {
  std::mt19937_64 rng{7};
  for (int k = 0; k < support::bound(30, 100); ++k) {
    const Models models = models_of(rng, 3);
    Bookkeeper engine(models.target), small(models.small);
    BeamBatch searches{ExternalTarget{.vocabulary = 3}, small};
    std::map<Index, Alone> expected;
    Index fed = 0;
    for (const Index number : {0, 1, 2}) {
      const Asked asked = random_search(rng, 3);
      searches.add(number, asked.prompt, asked.options);
      expected[number] = alone(models, asked, true);
      fed += expected[number].fed;
    }
    while (!searches.empty()) {
      const auto feeds = searches.propose();
      for (const BatchFeed& feed : feeds)
        if (searches.search(feed.sequence).opens()) engine.keep(feed.sequence, feed.from);
      std::vector<Index> numbers;
      for (const BatchFeed& feed : feeds) numbers.push_back(feed.sequence);
      const RowMajor<double> rows = feeds.empty() ? RowMajor<double>(0, 3) : engine.forward(feeds);
      for (const FoundBeams& found : searches.accept(rows)) {
        check_same(found.result, expected.at(found.sequence).found);
        engine.release(found.sequence);
        std::erase(numbers, found.sequence);
      }
      for (const Index number : numbers)
        if (const auto path = searches.search(number).kept_path(); !path.empty()) engine.keep(number, path);
    }
    CHECK(engine.fed == fed);
  }
}

TEST_CASE("a search may leave at any time, and takes only its own rows with it") {
  const Models models = models_of(8);
  // No two searches have equal rows, so that a mix-up shows.
  std::map<Index, Asked> asked;
  std::map<Index, BeamResult> expected;
  for (const Index number : {0, 1, 2}) {
    asked[number] = {{static_cast<Token>(number), 1},
                     {.max_new_tokens = 12 - number, .width = 2, .draft_width = 3, .gamma = 2}};
    expected[number] = alone(models, asked[number], true).found;
  }
  for (const Index who : {0, 1, 2})
    for (const bool returns : {false, true}) {
      Bookkeeper target(models.target), small(models.small);
      BeamBatch searches{target, small};
      for (const Index number : {0, 1, 2}) searches.add(number, asked[number].prompt, asked[number].options);
      searches.step();
      const auto& rows = target.forward(searches.propose());
      const Index levels = searches.search(who).result().levels;
      CHECK(searches.cancel(who).levels == levels);
      CHECK_FALSE(target.contexts.contains(who));
      if (returns)
        searches.add(who, asked[who].prompt, asked[who].options);  // rows of its first life do not reach it
      searches.accept(rows);
      Index over = 0;
      while (!searches.empty())
        for (const FoundBeams& found : searches.step()) {
          CHECK_FALSE(found.error);
          check_same(found.result, expected[found.sequence]);
          ++over;
        }
      CHECK(over == (returns ? 3 : 2));
    }
}

TEST_CASE("what cannot be searched is refused, and the other searches go on") {
  const Models models = models_of(9);
  const Tokens prompt{0, 1};
  const BeamOptions how{.max_new_tokens = 5, .width = 2};
  Bookkeeper target(models.target);
  BeamBatch searches{target};
  searches.add(3, prompt, how);
  CHECK(message_of([&] { searches.add(3, prompt, how); }) == "specdec: there is a search 3 already");
  CHECK(message_of([&] { searches.add(4, Tokens{}, how); }) ==
        "specdec: prompt is empty: there is nothing to continue");
  CHECK(message_of([&] { searches.add(4, prompt, how, 3); }) == "specdec: cached = 3 is outside 0..2");
  CHECK(message_of([&] { searches.search(4); }) == "specdec: there is no search 4");
  CHECK(message_of([&] { searches.cancel(4); }) == "specdec: there is no search 4");
  CHECK(message_of([&] { searches.accept(RowMajor<double>(1, 4)); }) ==
        "specdec: the target returned 1 rows, expected 0");
  const RowMajor<double> rows = target.forward(searches.propose());
  CHECK(message_of([&] { searches.accept(RowMajor<double>(3, 4)); }) ==
        "specdec: the target returned 3 rows, expected 1");
  searches.accept(rows);
  while (searches.size() == 1)
    for (const FoundBeams& found : searches.step())
      check_same(found.result, BeamSearch{target}.generate(prompt, how));

  CHECK(message_of<InvalidCall>([&] {
          BeamBatch{target, target};
        }) == "specdec: target and draft model of a beam search are one model: give each its own");
  TableModel<> small = models.small;
  BeamBatch one{small};
  one.add(0, prompt, how);
  CHECK(message_of<InvalidCall>([&] { one.add(1, prompt, how); }) ==
        "specdec: a model for one text serves one beam search at a time");
  ForkedBranches branches{ModelPerSequence{models.target}};
  BeamBatch over_branches{branches};
  CHECK(message_of([&] { over_branches.add(0, prompt, how, 1); }) ==
        "specdec: cached = 1, but the target keeps contexts of its own: it does not know tokens that the "
        "model inside was fed directly");
}

TEST_CASE("a batch of searches that ends early leaves empty contexts") {
  const Models models = models_of(10);
  Bookkeeper target(models.target), small(models.small);
  {
    BeamBatch searches{target, small};
    for (const Index number : {0, 1}) searches.add(number, Tokens{0, 1}, {.max_new_tokens = 20});
    searches.step();
    CHECK(target.contexts.size() == 2);
    CHECK(small.contexts.size() == 2);
  }
  CHECK(target.contexts.empty());
  CHECK(small.contexts.empty());
}

}  // namespace test_beam_batch

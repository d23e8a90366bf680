// Log-probabilities of a prompt, and of chosen ids. Oracle: the target's distribution after every prefix.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_loop_prompt_log_probabilities {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;

const Tokens prompt{1, 2, 0, 4, 3, 3, 1, 0, 2};
const LogProbabilityOptions wanted{.processed = true, .top = 2, .ids = {3, 0}, .prompt = true};
const Options options{.max_new_tokens = 12, .gamma = 3, .log_probabilities = wanted},
    nothing{.max_new_tokens = 0, .gamma = 3, .log_probabilities = wanted};

TableModel<> random_model(std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  return TableModel<>::random(5, 2, rng);
}

bool near(double a, double b) { return a == b || std::abs(a - b) < 1e-12; }

// The recorded tokens are the last of `text`. row_after(context) is the distribution, as a vector.
template <class RowAfter>
void check(const LogProbabilities& recorded, std::span<const Token> text, Index size,
           const LogProbabilityOptions& asked, const RowAfter& row_after) {
  REQUIRE(recorded.size() == size);
  for (Index i = 0; i < size; ++i) {
    const auto place = text.size() - static_cast<std::size_t>(size - i);
    const Eigen::RowVectorXd row = row_after(text.first(place));
    CHECK(near(recorded[i], std::log(row[text[place]])));
    REQUIRE(recorded.of_ids(i).size() == asked.ids.size());
    for (std::size_t k = 0; k < asked.ids.size(); ++k) {
      CHECK(recorded.of_ids(i)[k].token == asked.ids[k]);
      CHECK(near(recorded.of_ids(i)[k].value, std::log(row[asked.ids[k]])));
    }
    REQUIRE(std::ssize(recorded.top(i)) == std::min<Index>(asked.top, (row.array() > 0).count()));
    double last = 0;
    for (const auto& [token, value] : recorded.top(i)) {
      CHECK(near(value, std::log(row[token])));
      CHECK(value <= last);
      last = value;
    }
    if (asked.top > 0 && !recorded.top(i).empty())
      CHECK(near(recorded.top(i)[0].value, std::log(row.maxCoeff())));
  }
}

auto rows_of(const TableModel<>& table) {
  return [&table](std::span<const Token> context) {
    Eigen::RowVectorXd p(table.vocab_size());
    const auto row = table.distribution(context);
    for (Token x = 0; x < p.size(); ++x) p[x] = row.probability(x);
    return p;
  };
}

constexpr Index all = 8;  // of the prompt's tokens

// Checks a text whose prompt's last `size` tokens are recorded, and of whose whole text the rest.
void check_text(const Result& result, const TableModel<>& target, std::span<const Token> before, Index size) {
  check(result.prompt_log_probabilities, before, size, wanted, rows_of(target));
  Tokens text(before.begin(), before.end());
  text.insert(text.end(), result.tokens.begin(), result.tokens.end());
  check(result.log_probabilities, text, std::ssize(result.tokens), wanted, rows_of(target));
  CHECK(result.raw_prompt_log_probabilities.empty());
}

}  // namespace

TEST_CASE("a prompt and chosen ids get the target's values, and the text is what it is without them") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    std::mt19937_64 rng{seed}, plain{seed};
    CountingModel target{random_model(seed)};
    SpecDec decoder{target, ModelDrafter{random_model(seed + 100)}, GreedyBlockVerifier{}};
    const Result result = decoder.generate(prompt, options, rng);
    check_text(result, target.table, prompt, all);
    CHECK(result.tokens == decoder.generate(prompt, {.max_new_tokens = 12, .gamma = 3}, plain).tokens);
  }
}

TEST_CASE("the prompt is read once, by a call of its own, also where drafts are trees") {
  CountingModel target{TableModel<>::context_free(Eigen::RowVectorXd{{0.3, 0.2, 0.2, 0.2, 0.1}})};
  SpecDec decoder{target, NoDrafter{}};
  std::mt19937_64 rng{7};
  auto sequence = decoder.start(prompt, options);
  CHECK(sequence.step(rng).size() == 1);
  CHECK(target.fed == std::ssize(prompt));
  const Result result = sequence.generate(rng);
  CHECK(target.fed == std::ssize(prompt) + 11);
  CHECK(result.stats.target_calls == 12);

  TableModel<> table = random_model(8);
  SpecDec trees{table,
                ModelDrafter{random_model(9), Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}},
                TraversalVerifier{}};
  check_text(trees.generate(prompt, options, rng), random_model(8), prompt, all);
}

TEST_CASE("an engine is asked for the rows of the prompt first, and may try again") {
  TableModel<> table = random_model(3);
  SpecDec decoder{ExternalTarget{5}, ModelDrafter{random_model(4)}, BlockVerifier{}};
  std::mt19937_64 rng{3};
  auto sequence = decoder.start(prompt, options);
  const Feed feed = sequence.propose(rng);
  CHECK(Tokens(feed.tokens.begin(), feed.tokens.end()) == Tokens(prompt.begin(), prompt.end() - 1));
  CHECK(feed.from == 0);
  CHECK(feed.rows == all);
  CHECK(feed.parents.empty());
  RowMajor<double> rows = table.forward(feed.tokens, feed.rows);

  CHECK(message_of<std::invalid_argument>([&] { sequence.accept(rows.topRows(3), rng); }) ==
        "specdec: target has 3 rows, expected 8, one per token of the Feed");
  CHECK_THROWS_AS(sequence.accept(rows, rng), InvalidCall);
  const double right = rows(5, 0);
  rows(5, 0) = std::numeric_limits<double>::quiet_NaN();  // of one of the ids
  sequence.propose(rng);
  try {
    sequence.accept(rows, rng);
    FAIL("a row of NaN was told");
  } catch (const InvalidDistribution& error) {
    CHECK(error.row() == 5);
  }
  CHECK(sequence.kept() == 0);
  rows(5, 0) = right;

  sequence.propose(rng);
  const auto copy = sequence;  // has no proposal
  CHECK(sequence.accept(rows, rng).empty());
  CHECK(sequence.kept() == all);
  CHECK(std::ssize(sequence.kept_path()) == all);
  check(sequence.prompt_log_probabilities(), prompt, all, wanted, rows_of(table));
  CHECK(sequence.tokens().empty());
  CHECK(sequence.propose(rng).from == all);
  auto other = copy;
  CHECK_THROWS_AS(other.accept(rows, rng), InvalidCall);
}

TEST_CASE("of a prompt that is cached in part, only the part that is read is recorded") {
  TableModel<> target = random_model(5);
  std::mt19937_64 rng{5};
  for (const Index cached : {1, 4, 7, 8, 9}) {
    SpecDec decoder{target, NoDrafter{}};
    target.truncate(0);
    target.forward(std::span(prompt).first(static_cast<std::size_t>(cached)), 1);
    auto sequence = decoder.start(prompt, options, FilledContext{cached});
    check_text(sequence.generate(rng), random_model(5), prompt, std::max<Index>(all - cached, 0));
  }
  SpecDec decoder{target, NoDrafter{}};
  CHECK(decoder.generate(Tokens{2}, options, rng).prompt_log_probabilities.empty());
}

TEST_CASE("a text without new tokens tells the values of its prompt, by one call") {
  std::mt19937_64 rng{5};
  CountingModel target{random_model(5)};
  SpecDec decoder{target, ModelDrafter{random_model(6)}};
  auto sequence = decoder.start(prompt, nothing);
  CHECK(!sequence.done());
  CHECK(sequence.step(rng).empty());
  CHECK(sequence.done());
  check_text(sequence.result(), target.table, prompt, all);
  CHECK(sequence.result().stop_reason == StopReason::length);
  CHECK(target.fed == all);
  sequence.resume(prompt, options);
  CHECK(std::ssize(sequence.generate(rng).tokens) == 12);

  CHECK(decoder.generate(Tokens{2}, nothing, rng).prompt_log_probabilities.empty());
  CHECK(decoder.start(prompt, nothing, FilledContext{9}).done());
  auto stopped = decoder.start(prompt, nothing);
  stopped.stop();
  CHECK(stopped.done());
}

TEST_CASE("the next turn records the tokens that it adds") {
  TableModel<> target = random_model(6);
  std::mt19937_64 rng{6};
  SpecDec decoder{target, ModelDrafter{random_model(7)}, BlockVerifier{}};
  auto sequence = decoder.start(prompt, options);
  sequence.generate(rng);
  Tokens text(sequence.context().begin(), sequence.context().end());
  const Index kept = sequence.kept();
  text.insert(text.end(), {4, 1, 1});
  sequence.resume(text, options);
  CHECK(sequence.prompt_log_probabilities().empty());
  check_text(sequence.generate(rng), random_model(6), text, std::ssize(text) - kept - 1);
}

TEST_CASE("two sequences that take turns on one target both record their prompts") {
  TableModel<> target = random_model(8);
  std::mt19937_64 rng{8};
  SpecDec decoder{target, ModelDrafter{random_model(9)}, BlockVerifier{}};
  auto a = decoder.start(prompt, options), b = decoder.start(Tokens{3, 3, 4}, options);
  while (!a.done() || !b.done()) a.step(rng), b.step(rng);
  check_text(a.result(), random_model(8), prompt, all);
  check_text(b.result(), random_model(8), Tokens{3, 3, 4}, 2);
}

namespace {

// Forbids all tokens after a 3, and refuses token 4.
struct Forbidding {
  bool refuses = false;
  Tokens text = {};
  void apply(auto&& logits) {
    if (!text.empty() && text.back() == 3) logits.setConstant(-std::numeric_limits<double>::infinity());
    if (refuses) logits[4] = -std::numeric_limits<double>::infinity();
  }
  bool push(Token x) {
    if (refuses && x == 4) return false;
    text.push_back(x);
    return true;
  }
  void pop(Index n) { text.resize(text.size() - static_cast<std::size_t>(n)); }
};

}  // namespace

TEST_CASE(
    "processed rows after a prompt's tokens are processed, raw ones are not, and dead ends rule out all "
    "tokens") {
  const TableModel<> table = random_model(10);
  const LogProbabilityOptions both{.processed = true, .raw = true, .top = 2, .ids = {4}, .prompt = true};
  const Chain chain{Temperature{0.7}, TopK{3}};
  SpecDec decoder{ProcessedModel{TableLogits<false>(table), chain, Forbidding{}}, NoDrafter{}};
  std::mt19937_64 rng{10};
  const Result result = decoder.generate(prompt, {.max_new_tokens = 1, .log_probabilities = both}, rng);
  check(result.raw_prompt_log_probabilities, prompt, all, both, rows_of(table));
  const auto processed = [&](std::span<const Token> context) {
    RowMajor<double> logits = rows_of(table)(context).array().log().matrix();
    Eigen::RowVectorXd p = Eigen::RowVectorXd::Zero(5);
    if (context.back() == 3) return p;
    const auto row = ProcessedRows(logits, chain).row(0);
    for (Token x = 0; x < 5; ++x) p[x] = row.probability(x);
    return p;
  };
  check(result.prompt_log_probabilities, prompt, all, both, processed);
  CHECK(result.prompt_log_probabilities[4] == -std::numeric_limits<double>::infinity());
  CHECK(result.prompt_log_probabilities.top(4).empty());
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("a prompt that a processor refuses is an error, as it is without log-probabilities") {
  const auto refusal = [&](const Options& asked) {
    SpecDec decoder{ProcessedModel{TableLogits<false>(random_model(11)), Chain{}, Forbidding{true}},
                    NoDrafter{}};
    std::mt19937_64 rng{11};
    return message_of<std::invalid_argument>([&] { decoder.generate(prompt, asked, rng); });
  };
  Options plain = options;
  plain.log_probabilities = {};
  CHECK(refusal(plain).find("token 3 of the text is 4, which the processor refuses") != std::string::npos);
  CHECK(refusal(options) == refusal(plain));
}

TEST_CASE("in a batch a prompt that a processor refuses is an error, too, however the prompt is fed") {
  for (const Index room : {Index{5}, unlimited}) {
    Batch batch{
        ModelPerSequence{ProcessedModel{TableLogits<false>(random_model(11)), Chain{}, Forbidding{true}}},
        NoDrafter{}, BlockVerifier{}, BatchOptions{room}};
    batch.add(prompt, options, std::mt19937_64{1});
    CHECK(message_of<std::invalid_argument>([&] {
            batch.run();
          }).find("token 3 of the text is 4, which the processor refuses") != std::string::npos);
  }
}
#endif

TEST_CASE("from a token on that its row rules out, the prompt is read twice, once for the values") {
  CountingModel target{TableModel<>::context_free(Eigen::RowVectorXd{{0.5, 0.25, 0.25, 0, 0}})};
  SpecDec decoder{target, NoDrafter{}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, options);
  sequence.step(rng);
  CHECK(target.fed == all + 6);  // the prompt's token 3 is the first
  check(sequence.prompt_log_probabilities(), prompt, all, wanted, rows_of(target.table));
}

namespace {

// Gives a new sequence a copy of a context.
class Forking : public Bookkeeper {
 public:
  using Bookkeeper::Bookkeeper;
  void fork(Index from, Index to) { contexts[to] = contexts.at(from); }
};

using Together = ModelDrafter<Bookkeeper>;
using Texts = Batch<Forking&, Together, BlockVerifier>;

Together drafter() { return Together{Bookkeeper(random_model(21))}; }

// The texts from here on.
std::vector<Finished> finished(Texts& batch) {
  std::vector<Finished> done = batch.run();
  for (const Finished& each : done) REQUIRE_FALSE(each.error);
  return done;
}

}  // namespace

TEST_CASE("texts of a batch without new tokens tell the values of their prompts") {
  const TableModel<> table = random_model(20);
  Forking many(table);
  for (const Index room : {Index{4}, Index{5}, unlimited}) {
    Texts batch{many, drafter(), BlockVerifier{}, BatchOptions{room}};
    batch.add(prompt, nothing, std::mt19937_64{1});
    batch.add(Tokens{2}, nothing, std::mt19937_64{1});
    for (const Finished& done : finished(batch))
      if (done.sequence == 0) check_text(done.result, table, prompt, all);
      else CHECK(done.result.prompt_log_probabilities.empty());
  }
}

TEST_CASE("texts of a batch record their prompts, in parts, too") {
  const TableModel<> table = random_model(20);
  for (const Index room : {Index{4}, Index{7}, unlimited}) {
    Forking target(table);
    Texts batch{target, drafter(), BlockVerifier{}, BatchOptions{room}};
    for (std::uint64_t seed = 1; seed <= 3; ++seed) batch.add(prompt, options, std::mt19937_64{seed});
    const Index plain = batch.add(prompt, {.max_new_tokens = 12, .gamma = 3}, std::mt19937_64{1});
    for (const Finished& done : finished(batch)) {
      std::mt19937_64 rng{static_cast<std::uint64_t>(done.sequence + 1)};
      if (done.sequence == plain) rng.seed(1);
      SpecDec alone{TableModel<>(table), ModelDrafter{random_model(21)}, BlockVerifier{}};
      const Result expected = alone.generate(
          prompt, done.sequence == plain ? Options{.max_new_tokens = 12, .gamma = 3} : options, rng);
      CHECK(done.result.tokens == expected.tokens);
      if (done.sequence == plain) CHECK(done.result.prompt_log_probabilities.empty());
      else check_text(done.result, table, prompt, all);
    }
  }
}

TEST_CASE("the prompt of a batch's text may be cached, paused, forked, and followed by a turn") {
  const TableModel<> table = random_model(20);
  Forking target(table);
  Texts batch{target, drafter(), BlockVerifier{}, BatchOptions{6}};
  const auto add = [&](Index number, bool stays = false) {
    return batch.add({.prompt = prompt,
                      .options = options,
                      .source = std::mt19937_64{1},
                      .number = number,
                      .stays = stays});
  };
  SECTION("paused while its prompt is read") {
    const Index text = add(3);
    batch.propose();
    batch.add(batch.pause(text));
    batch.step();  // reads a part
    batch.add(batch.pause(text));
    check_text(finished(batch).at(0).result, table, prompt, all);
  }
  SECTION("paused, and taken up with a context that holds more than was read") {
    const Index text = add(3);
    batch.step();
    auto paused = batch.pause(text);
    target.contexts[text] = Tokens(prompt.begin(), prompt.begin() + 7);
    batch.add(std::move(paused), FilledContext{7});
    check_text(finished(batch).at(0).result, table, prompt, 1);
  }
  SECTION("paused, and taken up with a context that holds the whole prompt") {
    for (const Options& how : {options, nothing}) {
      const Index text = batch.add({.prompt = prompt, .options = how, .source = std::mt19937_64{1}});
      batch.step();
      auto paused = batch.pause(text);
      CHECK(paused.sequence().prompt_log_probabilities().size() == 6);
      // What is refused leaves the values.
      Forking tight(table, 8);
      Texts other{tight, drafter()};
      CHECK_THROWS_AS(batch.add(std::move(paused), FilledContext{10}), InvalidArgument);
      CHECK_THROWS_AS(other.add(std::move(paused), FilledContext{9}), InvalidArgument);
      CHECK(paused.sequence().prompt_log_probabilities().size() == 6);
      target.contexts[text] = prompt;
      batch.add(std::move(paused), FilledContext{9});
      const Result result = finished(batch).at(0).result;
      check_text(result, table, prompt, 0);
      CHECK(std::ssize(result.tokens) == how.max_new_tokens);
    }
  }
  SECTION("paused after the prompt") {
    const Index text = add(3);
    while (batch.sequence(text).tokens().empty()) batch.step();
    const Index fed = target.fed;
    batch.add(batch.pause(text));
    batch.step();
    batch.step();
    CHECK(target.fed > fed + all);
    check_text(finished(batch).at(0).result, table, prompt, all);
  }
  SECTION("cached") {
    target.contexts[5] = Tokens(prompt.begin(), prompt.begin() + 3);
    batch.add({.prompt = prompt, .options = options, .source = std::mt19937_64{1}, .cached = 3, .number = 5});
    check_text(finished(batch).at(0).result, table, prompt, all - 3);
  }
  SECTION("forked before, while and after it is read") {
    const Index text = add(3);
    batch.fork(text, std::mt19937_64{2});
    batch.step();
    batch.fork(text, std::mt19937_64{3});
    while (batch.sequence(text).tokens().empty()) batch.step();
    batch.fork(text, std::mt19937_64{4});
    const auto done = finished(batch);
    CHECK(done.size() == 4);
    for (const Finished& each : done) check_text(each.result, table, prompt, all);
  }
  SECTION("followed by a turn") {
    const Index text = add(3, true);
    while (batch.size() > 0) batch.step();
    const auto& sequence = batch.sequence(text);
    Tokens before(sequence.context().begin(), sequence.context().end());
    const Index kept = sequence.kept();
    batch.add_turn(text, Tokens{4, 4, 1}, options);
    before.insert(before.end(), {4, 4, 1});
    while (batch.size() > 0) batch.step();
    check_text(batch.sequence(text).result(), table, before, std::ssize(before) - kept - 1);
  }
}

TEST_CASE("a row of a prompt that is no distribution ends its own text only") {
  const TableModel<> table = random_model(20);
  Forking target(table);
  Texts batch{target, drafter()};
  const Index bad = batch.add(prompt, options, std::mt19937_64{1}),
              good = batch.add(prompt, options, std::mt19937_64{2});
  target.spoils = bad;
  for (const Finished& done : batch.run()) {
    CHECK((done.error != nullptr) == (done.sequence == bad));
    if (done.sequence == good) check_text(done.result, table, prompt, all);
  }

  // The tokens before the bad row keep their values.
  Batch engine{ExternalTarget{5}, NoDrafter{}};
  engine.add(prompt, options, std::mt19937_64{1});
  REQUIRE(engine.propose()[0].rows == all);
  RowMajor<double> rows = RowMajor<double>::Constant(all, 5, 0.2);
  rows.row(3).setConstant(std::numeric_limits<double>::quiet_NaN());
  const Finished done = engine.accept(rows)[0];
  CHECK(done.error);
  CHECK(done.result.prompt_log_probabilities.size() == 3);
}

TEST_CASE("an engine's batch is asked for the prompts' rows, and a call that fails is tried again") {
  const TableModel<> table = random_model(20);
  Forking target(table);
  target.fails_at = 1;
  Texts batch{target, drafter()};
  batch.add(prompt, options, std::mt19937_64{1});
  CHECK_THROWS(batch.step());
  check_text(finished(batch).at(0).result, table, prompt, all);

  Bookkeeper engine(table);
  Batch external{ExternalTarget{5}, drafter()};
  const Index text = external.add(prompt, options, std::mt19937_64{1});
  while (!external.empty()) {
    const auto feeds = external.propose();
    if (external.sequence(text).tokens().empty()) CHECK(feeds[0].rows == (feeds[0].from == 0 ? all : 4));
    const RowMajor<double> rows = engine.forward(feeds);
    for (const Finished& done : external.accept(rows)) check_text(done.result, table, prompt, all);
    if (!external.empty()) engine.keep(text, external.sequence(text).kept());
  }
}

TEST_CASE("rows of a prompt that was proposed are refused once the text is another one") {
  const TableModel<> table = random_model(1);
  SpecDec decoder{ExternalTarget{5}, ModelDrafter{random_model(2)}, BlockVerifier{}};
  const Options asked{
      .max_new_tokens = 4, .gamma = 2, .log_probabilities = {.processed = true, .prompt = true}};
  auto sequence = decoder.start(Tokens{0, 1, 2, 3}, asked);
  std::mt19937_64 rng{1};
  const Feed feed = sequence.propose(rng);
  TableModel<> target(table);
  const auto& rows = target.forward(feed.tokens, feed.rows);
  sequence.resume(Tokens{3, 3, 1, 0}, asked);
  CHECK_THROWS_AS(sequence.accept(rows, rng), InvalidCall);
  CHECK(sequence.kept() == 0);
}

TEST_CASE("log-probabilities of ids outside the vocabulary, or of no rows, are refused") {
  SpecDec decoder{random_model(1), NoDrafter{}};
  std::mt19937_64 rng{1};
  const auto refusal = [&](const LogProbabilityOptions& asked) {
    return message_of<std::invalid_argument>(
        [&] { decoder.generate(prompt, {.max_new_tokens = 1, .log_probabilities = asked}, rng); });
  };
  CHECK(refusal({.raw = true, .ids = {2, 5}}) ==
        "specdec: log_probabilities.ids[1] = 5 is outside the vocabulary 0..4");
  CHECK(refusal({.ids = {2}}) ==
        "specdec: log_probabilities has top = 0, 1 ids and prompt = 0, but asks for neither processed nor "
        "raw rows");
  CHECK(refusal({.prompt = true}).find("prompt = 1, but asks for neither") != std::string::npos);
}

}  // namespace test_loop_prompt_log_probabilities

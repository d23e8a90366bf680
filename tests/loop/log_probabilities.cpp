// Oracle: the target's distribution after every prefix of the final text.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <specdec/more/samplers/bad_words.hpp>
#include <specdec/more/samplers/dry.hpp>
#include <specdec/more/samplers/dynamic_temperature.hpp>
#include <specdec/more/samplers/min_keep.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/top_n_sigma.hpp>
#include <specdec/more/samplers/typical_p.hpp>
#include <specdec/more/samplers/xtc.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_loop_log_probabilities {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

const std::vector<Token> prompt{1, 2};

// Where the rule does not matter: one that is small, and lossless.
const SampleMatchVerifier rule;

TableModel<> random_model(std::mt19937_64& rng) { return TableModel<>::random(5, 2, rng); }

Eigen::RowVectorXd probabilities(const auto& row) {
  Eigen::RowVectorXd p(row.vocab_size());
  for (Token x = 0; x < p.size(); ++x) p[x] = row.probability(x);
  return p;
}

using RowAfter = std::function<Eigen::RowVectorXd(std::span<const Token> context)>;

RowAfter rows_of(const TableModel<>& table) {
  return [&table](std::span<const Token> context) { return probabilities(table.distribution(context)); };
}

// Compares the recorded values with `row_after(context)`.
void check(const LogProbabilities& recorded, std::span<const Token> context, std::size_t prompt_size,
           Index top, const RowAfter& row_after) {
  REQUIRE(recorded.size() == std::ssize(context) - static_cast<Index>(prompt_size));
  double sum = 0;
  for (Index i = 0; i < recorded.size(); ++i) {
    const auto before = prompt_size + static_cast<std::size_t>(i);
    const Eigen::RowVectorXd row = row_after(context.first(before));
    CHECK(std::abs(recorded[i] - std::log(row[context[before]])) < 1e-9);
    sum += recorded[i];
    std::vector<std::pair<double, Token>> likeliest;
    for (Token x = 0; x < row.size(); ++x)
      if (row[x] > 0) likeliest.emplace_back(-row[x], x);
    std::sort(likeliest.begin(), likeliest.end());
    likeliest.resize(std::min(likeliest.size(), static_cast<std::size_t>(top)));
    REQUIRE(recorded.top(i).size() == likeliest.size());
    for (std::size_t k = 0; k < likeliest.size(); ++k) {
      CHECK(std::abs(recorded.top(i)[k].value - std::log(-likeliest[k].first)) < 1e-9);
      CHECK(row[recorded.top(i)[k].token] == -likeliest[k].first);
    }
  }
  CHECK(std::abs(recorded.sum() - sum) < 1e-9);
}

}  // namespace

TEST_CASE("Log-probabilities are those of the target over the final text, whatever the rule and the stops") {
  std::mt19937_64 rng{1};
  const auto run = [&](const auto& verifier, auto drafter, const Options& options) {
    TableModel<> target = random_model(rng);
    SpecDec decoder{target, std::move(drafter), verifier};
    auto sequence = decoder.start(prompt, options);
    while (!sequence.done()) {
      sequence.step(rng);
      check(sequence.log_probabilities(), sequence.context(), prompt.size(), options.log_probabilities.top,
            rows_of(target));
    }
    const Result result = sequence.result();
    CHECK(result.log_probabilities.size() == std::ssize(result.tokens));
    CHECK(result.raw_log_probabilities.empty());
  };
  const auto bytes = [](Token x) { return std::string_view(x == 4 ? "stop" : "no"); };
  for (const Index top : {0, 1, 3, 9})
    for (int n = 0; n < 5; ++n) {
      const Options options{.max_new_tokens = 12,
                            .gamma = 4,
                            .stop_tokens = {3},
                            .stop_strings = {{"stop"}, bytes},
                            .log_probabilities = {.processed = true, .top = top}};
      run(GreedyBlockVerifier{}, ModelDrafter{random_model(rng)}, options);
      run(TraversalVerifier{},
          FormDrafter(random_model(rng), TreeForm({-1, -1, 0, 1, 1, 3}, Sibling::independent)), options);
    }
}

TEST_CASE("Raw log-probabilities are those of the logits before any step of the chain") {
  std::mt19937_64 rng{2};
  const Chain chain{Temperature{0.7}, TopK{3}};
  for (int n = 0; n < 5; ++n) {
    const TableModel<> table = random_model(rng);
    ProcessedModel target{TableLogits<false>(table), chain};
    SpecDec decoder{target, ModelDrafter{random_model(rng)}, rule};
    auto sequence = decoder.start(
        prompt, {.max_new_tokens = 12, .log_probabilities = {.processed = true, .raw = true, .top = 2}});
    sequence.generate(rng);
    const RowAfter raw = rows_of(table);
    check(sequence.raw_log_probabilities(), sequence.context(), prompt.size(), 2, raw);
    RowMajor<double> logits;
    check(sequence.log_probabilities(), sequence.context(), prompt.size(), 2,
          [&](std::span<const Token> context) {
            logits = raw(context).array().log().matrix();
            return probabilities(ProcessedRows(logits, chain).row(0));
          });
  }
}

TEST_CASE("Raw log-probabilities are those of the logits before a hook, too") {
  std::mt19937_64 rng{6};
  const Chain chain{Temperature{0.7}};
  const auto hook = [](std::span<const Token> context, auto logits) { logits[context.back()] -= 2; };
  const auto run = [&](const TableModel<>& table, auto target) {
    SpecDec decoder{target, ModelDrafter{random_model(rng)}, rule};
    auto sequence =
        decoder.start(prompt, {.max_new_tokens = 12, .log_probabilities = {.raw = true, .top = 2}});
    sequence.generate(rng);
    check(sequence.raw_log_probabilities(), sequence.context(), prompt.size(), 2, rows_of(table));
  };
  const TableModel<> table = random_model(rng);
  run(table, ProcessedModel{TableLogits<false>(table), chain, hook});
#ifndef SPECDEC_TEST_SOME
  run(table, ProcessedModel{TableLogits<true>(table), chain, hook});
#endif
}

#ifndef SPECDEC_TEST_SOME
namespace {

// Samplers that write into the logits, and some that only cut rows.
auto samplers() {
  return Processors{BadWords{{{1, 3}}}, Dry{{.allowed_length = 1}}, TopK{4}, TypicalP{0.9},
                    Xtc{0.5, 0.15, 7}};
}
const Chain cuts{TopNSigma{2}, MinKeep{2, TopP{0.6}}, MinKeep{2, MinP{0.5}}, DynamicTemperature{0.8, 0.5}};

// What the samplers, shown the text from its beginning, make of a table's row.
Eigen::RowVectorXd sampled_row(const TableModel<>& table, std::span<const Token> context) {
  RowMajor<double> logits = rows_of(table)(context).array().log().matrix();
  auto shown = samplers();
  for (const Token x : context) shown.push(x);
  shown.apply(Eigen::Ref<Eigen::RowVectorXd>(logits.row(0)));
  return probabilities(ProcessedRows(logits, cuts).row(0));
}

}  // namespace

TEST_CASE(
    "After samplers of every kind, raw values are those before them, and processed ones those after them") {
  std::mt19937_64 rng{8};
  int removed = 0;  // likeliest raw tokens that could not come
  const auto run = [&](const TableModel<>& table, auto target, auto drafter, const auto& verifier) {
    SpecDec decoder{target, std::move(drafter), verifier};
    auto sequence = decoder.start(
        prompt,
        {.max_new_tokens = 12, .gamma = 3, .log_probabilities = {.processed = true, .raw = true, .top = 3}});
    while (!sequence.done()) {
      sequence.step(rng);
      check(sequence.raw_log_probabilities(), sequence.context(), prompt.size(), 3, rows_of(table));
      check(sequence.log_probabilities(), sequence.context(), prompt.size(), 3,
            [&](std::span<const Token> context) { return sampled_row(table, context); });
    }
    for (Index i = 0; i < 12; ++i)
      removed +=
          sampled_row(
              table, sequence.context().first(
                         prompt.size() +
                         static_cast<std::size_t>(i)))[sequence.raw_log_probabilities().top(i)[0].token] == 0;
  };
  for (int n = 0; n < 5; ++n) {
    const TableModel<> table = random_model(rng);
    ModelDrafter line{ProcessedModel{TableLogits<false>(random_model(rng)), cuts, samplers()}};
    run(table, ProcessedModel{TableLogits<false>(table), cuts, samplers()}, line, BlockVerifier{});
    run(table, ProcessedModel{TableLogits<true>(table), cuts, samplers()}, line, BlockVerifier{});
    ModelDrafter tree{ProcessedModel{PathByPath{TableLogits<false>(random_model(rng))}, cuts, samplers()},
                      Tree{TreeShape::of_widths({2, 1}), Independent{}}};
    run(table, ProcessedModel{PathByPath{TableLogits<false>(table)}, cuts, samplers()}, tree,
        TraversalVerifier{});
  }
  CHECK(removed > 20);
}
#endif

TEST_CASE("Log-probabilities of greedy texts are those of the target's rows") {
  std::mt19937_64 rng{3};
  RowMajor<double> logits(1, 3);
  logits << 1, 3, 2;
  const double all = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  SpecDec decoder{ExternalTarget{3}, NoDrafter{}, ArgmaxVerifier{}};
  auto sequence = decoder.start(std::vector<Token>{0},
                                {.max_new_tokens = 1, .log_probabilities = {.processed = true, .raw = true}});
  sequence.propose(rng);
  sequence.accept(Logits(logits, {.temperature = 0}), rng);
  CHECK(sequence.log_probabilities()[0] == 0);  // at temperature 0 no other token is possible
  CHECK(std::abs(sequence.raw_log_probabilities()[0] - (3 - all)) < 1e-12);
}

TEST_CASE("The record starts afresh with another text, and a failing step leaves it as it was") {
  std::mt19937_64 rng{4};
  TableModel<> target = random_model(rng);
  SpecDec decoder{ExternalTarget{5}, NoDrafter{}, rule};
  const Options options{.max_new_tokens = 8, .log_probabilities = {.processed = true, .top = 2}};
  auto sequence = decoder.start(prompt, options);
  Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(5, 0.2);
  sequence.propose(rng);
  sequence.accept(row, rng);
  CHECK(sequence.log_probabilities().size() == 1);
  sequence.propose(rng);
  row[3] = row[4] = std::numeric_limits<double>::quiet_NaN();
  row[2] = 0.6;
  CHECK_THROWS_AS(sequence.accept(row, rng), InvalidDistribution);
  CHECK(sequence.log_probabilities().size() == 1);
  CHECK(sequence.log_probabilities().top(0).size() == 2);

  // The step works when it is tried again. The next text asks for fewer values.
  const Eigen::RowVectorXd even = Eigen::RowVectorXd::Constant(5, 0.2);
  row << 0.05, 0.1, 0.15, 0.3, 0.4;
  sequence.propose(rng);
  sequence.accept(row, rng);
  const auto told = [&](const Eigen::RowVectorXd& first, const Eigen::RowVectorXd& second, Index top) {
    const std::size_t begin = sequence.context().size() - 2;
    check(sequence.log_probabilities(), sequence.context(), begin, top,
          [&](std::span<const Token> before) { return before.size() == begin ? first : second; });
  };
  told(even, row, 2);
  const std::vector<Token> context(sequence.context().begin(), sequence.context().end());
  sequence.resume(context, {.max_new_tokens = 8, .log_probabilities = {.processed = true, .top = 1}});
  CHECK(sequence.log_probabilities().empty());
  sequence.propose(rng);
  sequence.accept(row, rng);
  sequence.propose(rng);
  sequence.accept(even, rng);
  told(row, even, 1);

  sequence.resume(context, {.log_probabilities = {.processed = true, .raw = true}});
  sequence.propose(rng);
  row.setConstant(0.2);
  // Only processed rows were given, so there is no raw row after the processed one.
  CHECK_THROWS_AS(sequence.accept(row, rng), std::invalid_argument);
  CHECK(sequence.log_probabilities().empty());
}

namespace {

// A row with a look-up that fails: the one with that number.
struct FailingRow {
  DenseRow<double> row;
  Index fails_at = -1;
  mutable Index look_ups = 0;
  Index vocab_size() const { return row.vocab_size(); }
  double probability(Token x) const {
    if (look_ups++ == fails_at) throw std::runtime_error("no row");
    return row.probability(x);
  }
  auto sampler() const { return row.sampler(); }
};

}  // namespace

TEST_CASE("If a row fails while a token is recorded, the token's entry is removed, wherever the row fails") {
  const Eigen::RowVector3d p(0.2, 0.5, 0.3);
  const DenseRow<double> row(p.data(), 3);
  int failures = 0;
  for (Index fails_at = 0;; ++fails_at) {
    specdec::detail::LogProbabilityRecord record;
    LogProbabilities& recorded = record.processed;
    record.add(recorded, FailingRow{row}, 1, {.top = 1});
    try {
      record.add(recorded, FailingRow{row, fails_at}, 0, {.top = 2});
      break;  // no look-up was left to fail
    } catch (const std::runtime_error&) {
      ++failures;
    }
    recorded.truncate(1);
    record.add(recorded, FailingRow{row}, 2, {.top = 3});
    REQUIRE(recorded.size() == 2);
    CHECK(recorded[0] == std::log(0.5));
    CHECK(recorded[1] == std::log(0.3));
    const auto tokens = [&](Index i) {
      std::vector<Token> out;
      for (const auto& [token, value] : recorded.top(i)) {
        CHECK(value == std::log(p[token]));
        out.push_back(token);
      }
      return out;
    };
    CHECK(tokens(0) == std::vector<Token>{1});
    CHECK(tokens(1) == std::vector<Token>{1, 2, 0});
  }
  // While finding the likeliest tokens, reading their values, and reading the token's value.
  CHECK(failures > 3);
}

TEST_CASE("Log-probabilities that are not available are refused") {
  std::mt19937_64 rng{5};
  TableModel<> target = random_model(rng);
  SpecDec decoder{target, ModelDrafter{random_model(rng)}, GreedyBlockVerifier{}};
  const auto refusal = [&](const LogProbabilityOptions& wanted) {
    return message_of<std::invalid_argument>(
        [&] { decoder.generate(prompt, {.max_new_tokens = 1, .log_probabilities = wanted}, rng); });
  };
  CHECK(refusal({.processed = true, .top = -1}) == "specdec: log_probabilities.top = -1 is negative");
  CHECK(refusal({.top = 2}) ==
        "specdec: log_probabilities has top = 2, 0 ids and prompt = 0, but asks for neither processed nor "
        "raw rows");
  CHECK(refusal({.raw = true}).find("do not tell what they were before they were processed") !=
        std::string::npos);
  CHECK(message_of<std::invalid_argument>([] { LogProbabilities()[0]; }) ==
        "specdec: there is no log-probability of token 0: 0 are recorded");
}

}  // namespace test_loop_log_probabilities

// A target spread over ranks: every rank writes the text of whole rows, with two exchanges a call, and a failing call
// leaves everything as before.
// SPDX-License-Identifier: MIT
#include "specdec/more/ranks/sharded_model.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <span>
#include <specdec/more/analysis/measures.hpp>
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#include "specdec/more/drafters/prompt_lookup.hpp"

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/columns_model.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/processors.hpp"
#include "support/rules.hpp"
#include "support/thread_ranks.hpp"

namespace test_sample_sharded_model {

using namespace specdec;
using support::bound;
using support::ColumnsModel;
using support::ManyColumnsModel;
using support::model_of;
using support::RowMajor;
using support::ThreadRank;
using Table = specdec::testing::TableModel<>;
using Tokens = std::vector<Token>;

namespace {

// A table without ties. If p equals q up to rounding, the rounding of the ranks' sums would decide whether a coin is
// certain.
Table fine_model(Index vocab_size, Index order, std::mt19937_64& rng) {
  Table::Rows rows(order == 1 ? vocab_size + 1 : (vocab_size + 1) * (vocab_size + 1), vocab_size);
  for (Index i = 0; i < rows.rows(); ++i) {
    for (Index x = 0; x < vocab_size; ++x) rows(i, x) = uniform01(rng) < 0.2 ? 0 : uniform01(rng);
    rows(i, i % vocab_size) += 0.1;
    rows.row(i) /= rows.row(i).sum();
  }
  return Table(rows, order);
}

using SeedOf = std::mt19937_64 (*)(Index);

static_assert(Model<ShardedModel<ColumnsModel, ThreadRank, std::mt19937_64>>);
static_assert(takes_trees<ShardedModel<ColumnsModel, ThreadRank, std::mt19937_64>>);
// The model has its own record of its context. Of a context that the caller has filled it is told.
static_assert(knows_its_context<ShardedModel<ColumnsModel, ThreadRank, std::mt19937_64>>);
static_assert(can_adopt<ShardedModel<ColumnsModel, ThreadRank, std::mt19937_64>>);
static_assert(can_adopt<ShardedModel<ManyColumnsModel, ThreadRank, SeedOf>>);
static_assert(BatchModel<ShardedModel<ManyColumnsModel, ThreadRank, SeedOf>>);
static_assert(takes_trees<ShardedModel<ManyColumnsModel, ThreadRank, SeedOf>>);
// So it may be a temporary, which a Batch takes over.
static_assert(std::move_constructible<ShardedModel<ManyColumnsModel, ThreadRank, SeedOf>>);

using Steps = Chain<Temperature, Temperature, TopK, TopP, MinP>;

Steps steps(double temperature, double again = 1, Index top_k = 0, double top_p = 1, double min_p = 0) {
  return Steps{Temperature{temperature}, Temperature{again}, TopK{top_k}, TopP{top_p}, MinP{min_p}};
}

auto whole_rows(const Table& table, const Steps& steps, Index draws) {
  return support::DrawnAhead(ProcessedModel{support::LogTable(table), steps}, draws);
}

}  // namespace

TEST_CASE(
    "any number of ranks writes the text of whole rows with trees, with two exchanges a call and one a "
    "rejected sibling") {
  std::mt19937_64 rng(37);
  const Table target = fine_model(9, 2, rng), small = fine_model(9, 1, rng);
  const Options options{.max_new_tokens = bound(300), .gamma = 8};
  const auto written = [&](auto& model) {
    ModelDrafter drafter{Table(small), Tree{TreeShape::of_widths({2, 2, 1}), Independent{}}};
    SpecDec decoder{model, std::move(drafter), TraversalVerifier{}};
    std::mt19937_64 source(2);
    return decoder.generate(Tokens{1, 2}, options, source);
  };
  for (const Index draws : {6, 1}) {
    auto whole = whole_rows(target, steps(1), draws);
    const Tokens expected = written(whole).tokens;
    for (const Index ranks : {1, 2, 4})
      support::check_texts(ranks, expected, [&](ThreadRank& rank) {
        ShardedModel model{model_of(rank, target), rank, std::mt19937_64{1}, {.draws = draws}};
        const Result result = written(model);
        if (result.stats.accepted < bound(100)) throw std::logic_error("hardly a drafted token is accepted");
        if (draws == 6 && rank.exchanges() > 5 * result.stats.target_calls)
          throw std::logic_error("too many exchanges");
        return result.tokens;
      });
  }
}

TEST_CASE("a tree over ranks looks tokens up after their parents, and is as before after a failing call") {
  std::mt19937_64 rng(38);
  const Table target = fine_model(6, 2, rng);
  support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
    ColumnsModel columns = model_of(rank, target);
    if (rank.rank() == 1) columns.spoilt_from = 5, columns.spoilt_to = 8;
    ShardedModel model{columns, rank, std::mt19937_64{1}, {.draws = 0}};
    Table whole = target;
    // A line of two text tokens, two siblings after it, and a child of the second sibling.
    const Tokens tokens{3, 1, 0, 4, 2}, more{5, 1}, last{0, 3};
    const std::vector<Index> parents{-1, 0, 1, 1, 3}, behind{4, 2}, behind_too{4, 5};
    const auto rows = model.forward(tokens, parents, 4);
    const RowMajor<double> expected = whole.forward(tokens, parents, 4);
    const auto check = [&](bool right) {
      if (!right) throw std::logic_error("the tree is another");
    };
    const Index exchanges = rank.exchanges();
    for (Index k = 2; k < 5; ++k) {  // row 0 stands after token 1
      const Index row = parents[static_cast<std::size_t>(k)] - 1;
      const Token x = tokens[static_cast<std::size_t>(k)];
      check(std::abs(rows.row(row).probability(x) - expected(row, x)) < 1e-12);
    }
    check(rank.exchanges() == exchanges);
    bool failed = false;
    try {
      model.forward(more, behind, 2);
    } catch (const InvalidDistribution&) {
      failed = true;
    }
    check(failed);
    const auto after = model.forward(last, behind_too, 2);
    const RowMajor<double> expected_after = whole.forward(last, behind_too, 2);
    for (Token x = 0; x < 6; ++x) check(std::abs(after.row(1).probability(x) - expected_after(1, x)) < 1e-12);
    const std::vector<Index> path{0, 1, 3, 4, 5, 6};
    model.keep(path);
    check(columns.length() == 6);
    if (rank.rank() == 1) columns.spoilt_to = unlimited;
    failed = false;
    try {
      model.forward(Tokens{2}, 1);
    } catch (const InvalidDistribution&) {
      failed = true;
    }
    check(failed);
    columns.spoilt_to = 0;
    check(columns.length() == 6);
    model.forward(Tokens{2}, 1);
    model.truncate(3);
    check(columns.length() == 3);
  }));
}

TEST_CASE("truncate() forgets the open tree over ranks, and the next tree is numbered from 0") {
  std::mt19937_64 rng(40);
  const Table target = fine_model(6, 2, rng);
  support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
    ColumnsModel columns = model_of(rank, target);
    ShardedModel model{columns, rank, std::mt19937_64{1}, {.draws = 0}};
    Table whole = target;
    const Tokens text{3, 1}, siblings{0, 4, 2}, line{5, 1, 2};
    const std::vector<Index> behind_the_context{-1, -1, -1}, in_line{-1, 0, 1}, path{0, 1};
    const auto check = [&](bool right) {
      if (!right) throw std::logic_error("the tree is another");
    };
    for (const Index length : {2, 1}) {
      model.truncate(0);
      whole.truncate(0);
      model.forward(text, 1);
      whole.forward(text, 1);
      model.forward(siblings, behind_the_context, 3);
      model.truncate(length);
      whole.truncate(length);
      check(columns.length() == length);
      const auto rows = model.forward(line, in_line, 3);
      const RowMajor<double> expected = whole.forward(line, in_line, 3);
      const Index exchanges = rank.exchanges();
      for (Index k = 1; k < 3; ++k) {  // each token follows the one before it
        const Token x = line[static_cast<std::size_t>(k)];
        check(std::abs(rows.row(k - 1).probability(x) - expected(k - 1, x)) < 1e-12);
      }
      check(rank.exchanges() == exchanges);
      model.keep(path);
      whole.keep(path);
      check(columns.length() == length + 2);
      const auto after = model.forward(Tokens{4}, 1);
      const RowMajor<double> expected_after = whole.forward(Tokens{4}, 1);
      for (Token x = 0; x < 6; ++x)
        check(std::abs(after.row(0).probability(x) - expected_after(0, x)) < 1e-12);
    }
  }));
}

TEST_CASE("any number of ranks writes the text of whole rows") {
  std::mt19937_64 rng(31);
  const Table target = fine_model(9, 2, rng), small = fine_model(9, 1, rng);
  const Options options{.max_new_tokens = 300, .gamma = 3};
  const auto written = [&](auto& model) {
    SpecDec decoder{model, ModelDrafter{Table(small)}, BlockVerifier{}};
    std::mt19937_64 source(2);
    return decoder.generate(Tokens{1, 2}, options, source);
  };
  for (const Index draws : {0, 1, 2}) {
    auto whole = whole_rows(target, steps(1), draws);
    const Tokens expected = written(whole).tokens;
    for (const Index ranks : {1, 2, 4})
      support::check_texts(ranks, expected, [&](ThreadRank& rank) {
        ShardedModel model{model_of(rank, target), rank, std::mt19937_64{1}, {.draws = draws}};
        const Result result = written(model);
        if (result.stats.accepted <= 30) throw std::logic_error("hardly a drafted token is accepted");
        if (draws == 2 && rank.exchanges() >= 3 * result.stats.target_calls)
          throw std::logic_error("too many exchanges");
        return result.tokens;
      });
  }
}

TEST_CASE("over ranks a text goes on from a context that the caller has filled") {
  std::mt19937_64 rng(41);
  const Table target = fine_model(6, 2, rng);
  const Tokens prompt{3, 1, 0, 4};
  for (const bool filled : {false, true}) {
    support::check_texts(
        2,
        [&] {
          std::mt19937_64 source(2);
          auto whole = whole_rows(target, steps(1), 2);
          return SpecDec{whole, PromptLookupDrafter{}}
              .generate(prompt, {.max_new_tokens = 20}, source)
              .tokens;
        }(),
        [&](ThreadRank& rank) {
          ColumnsModel columns = model_of(rank, target);
          ShardedModel model{columns, rank, std::mt19937_64{1}, {.draws = 2}};
          SpecDec decoder{model, PromptLookupDrafter{}};
          if (filled) columns.forward(std::span(prompt).first(3), 1);
          auto sequence = decoder.start(prompt, {.max_new_tokens = 20}, {.cached = filled ? 3 : 0});
          std::mt19937_64 source(2);
          return sequence.generate(source).tokens;
        });
  }
}

TEST_CASE("over ranks a chain of steps writes the text that it writes on whole rows") {
  std::mt19937_64 rng(36);
  const Table target = fine_model(30, 1, rng), small = fine_model(30, 1, rng);
  const Options options{.max_new_tokens = bound(400), .gamma = 3};
  const auto written = [&](auto& model) {
    SpecDec decoder{model, ModelDrafter{Table(small)}, BlockVerifier{}};
    std::mt19937_64 source(2);
    return decoder.generate(Tokens{0}, options, source).tokens;
  };
  const auto check = [&](const auto& chain, double temperature, const Steps& as_steps) {
    auto whole = whole_rows(target, as_steps, 2);
    const Tokens expected = written(whole);
    support::check_texts(4, expected, [&](ThreadRank& rank) {
      ShardedModel model{
          model_of(rank, target), rank, std::mt19937_64{1}, chain, {.temperature = temperature}};
      return written(model);
    });
    return std::set<Token>(expected.begin(), expected.end()).size();
  };
  CHECK(check(Chain{Temperature{1.5}, TopK{9}, TopP{0.8}, MinP{0.1}}, 1, steps(1, 1.5, 9, 0.8, 0.1)) > 5);
  CHECK(check(TopP{0.7}, 0.5, steps(0.5, 1, 0, 0.7)) > 5);
  check(Chain<>{}, 0, steps(0));
}

TEST_CASE(
    "a batch over ranks writes each text as it is alone, lines and trees, with equally many exchanges") {
  std::mt19937_64 rng(41);
  const Table target = fine_model(9, 2, rng), small = fine_model(9, 1, rng);
  const std::vector<Tokens> prompts{{1, 2}, {0}, {3, 1, 4, 1, 5, 8, 2, 6}, {1, 2}, {8, 8, 8}};
  const auto seeds = [](Index n) { return std::mt19937_64{static_cast<std::uint64_t>(100 + n)}; };
  const auto check = [&](const auto& drafter, const auto& rule, const Steps& chain, Index draws,
                         Index gamma) {
    const Options options{.max_new_tokens = std::max(bound(60), 15), .gamma = gamma};
    const ShardedOptions sharded{.temperature = 0.9, .draws = draws};
    for (const Index ranks : {1, 3})
      support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
        std::vector<Result> alone;
        Measures measured_alone;
        Index calls_alone = 0;
        for (std::size_t n = 0; n < prompts.size(); ++n) {
          ShardedModel model{model_of(rank, target), rank, seeds(std::ssize(alone)), chain, sharded};
          SpecDec decoder{model, std::remove_cvref_t<decltype(drafter)>(drafter), rule, FixedLength{},
                          Observers{StatsObserver{}, MeasuresObserver{measured_alone}}};
          std::mt19937_64 source(n);
          const Result result = decoder.generate(prompts[n], options, source);
          alone.push_back(result);
          calls_alone += result.stats.target_calls;
        }
        const Index exchanges_alone = rank.exchanges();
        for (const Index tokens_per_call : {unlimited, gamma + 4}) {
          ShardedModel model{ManyColumnsModel(model_of(rank, target)), rank, seeds, chain, sharded};
          Measures measured;
          Batch batch{model,
                      std::remove_cvref_t<decltype(drafter)>(drafter),
                      rule,
                      FixedLength{},
                      BatchOptions{.tokens_per_call = tokens_per_call},
                      Observers{StatsObserver{}, MeasuresObserver{measured}}};
          for (std::size_t n = 0; n < prompts.size(); ++n) {
            batch.add(prompts[n], options, std::mt19937_64(n));
            if (n % 2 == 0) batch.step();
          }
          Index texts = 0;
          for (const Finished& finished : batch.run()) {
            if (finished.error) std::rethrow_exception(finished.error);
            ++texts;
            const Result& expected = alone[static_cast<std::size_t>(finished.sequence)];
            if (finished.result.tokens != expected.tokens) throw std::logic_error("another text than alone");
          }
          // Uses the probabilities of all drafted tokens, even those that the rule did not ask for.
          const auto survival = measured.acceptance.block_survival(),
                     expected_survival = measured_alone.acceptance.block_survival();
          if (!std::ranges::equal(survival, expected_survival,
                                  [](double a, double b) { return std::abs(a - b) < 1e-12; }))
            throw std::logic_error("another acceptance than alone");
          if (texts != std::ssize(prompts)) throw std::logic_error("a text is lost");
          if (tokens_per_call != unlimited) continue;
          // What a call exchanges regardless of its texts is exchanged once for all texts.
          if (2 * batch.target_calls() > calls_alone) throw std::logic_error("calls for each text");
          const Index exchanges = rank.exchanges() - exchanges_alone;
          if (exchanges + 2 * (calls_alone - batch.target_calls()) > exchanges_alone)
            throw std::logic_error("exchanges for each text");
        }
      }));
  };
  using Rule = support::AnyOf<true, BlockVerifier, TokenVerifier, GreedyBlockVerifier>;
  const ModelDrafter line{Table(small)};
  check(line, Rule{BlockVerifier{}}, steps(1), 2, 3);
  check(line, Rule{TokenVerifier{}}, steps(1), 2, 3);
  check(line, Rule{GreedyBlockVerifier{}}, steps(1, 1, 6, 0.95), 1, 4);
  const ModelDrafter tree{Table(small), Tree{TreeShape::of_widths({2, 2, 1}), Independent{}}};
  check(tree, TraversalVerifier{}, steps(1), 3, 8);
  check(tree, TraversalVerifier{}, steps(0.9, 1, 0, 0.9), 0, 8);
}

TEST_CASE("if a call of many texts fails on one rank, all contexts are as before, lines and open trees") {
  std::mt19937_64 rng(42);
  const Table target = fine_model(6, 2, rng);
  support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
    const auto check = [](bool right) {
      if (!right) throw std::logic_error("a text is another");
    };
    ManyColumnsModel columns(model_of(rank, target));
    ShardedModel model{
        columns, rank, [](Index n) { return std::mt19937_64{static_cast<std::uint64_t>(n)}; }, {.draws = 1}};
    std::map<Index, Table> whole{{4, target}, {9, target}};
    const Tokens line{3, 1, 0}, tree{2, 5, 5}, more{1, 4}, last{0, 2};
    const std::vector<Index> branches{-1, -1, 0}, behind{2, 1}, behind_too{1, 3};
    const auto rows_are = [&](const auto& rows, const RowMajor<double>& of_four,
                              const RowMajor<double>& of_nine) {
      check(rows.rows() == of_four.rows() + of_nine.rows());
      for (Token x = 0; x < 6; ++x) {
        for (Index i = 0; i < of_four.rows(); ++i)
          check(std::abs(rows.row(i).probability(x) - of_four(i, x)) < 1e-12);
        for (Index i = 0; i < of_nine.rows(); ++i)
          check(std::abs(rows.row(of_four.rows() + i).probability(x) - of_nine(i, x)) < 1e-12);
      }
    };
    const std::vector<BatchFeed> prompts{{{.tokens = line, .from = 0, .rows = 0}, 4},
                                         {{.tokens = tree, .from = 0, .rows = 2, .parents = branches}, 9}};
    const RowMajor<double> first = whole.at(9).forward(tree, branches, 2);
    whole.at(4).forward(line, 1);
    rows_are(model.forward(prompts), RowMajor<double>(0, 6), first);
    const std::vector<BatchFeed> fails{{{.tokens = more, .from = 3, .rows = 2}, 4},
                                       {{.tokens = more, .from = 0, .rows = 1, .parents = behind}, 9}};
    ColumnsModel& failing = columns.text(rank.rank() == 1 ? 9 : 4);
    failing.throws = rank.rank() == 1;
    bool failed = false;
    try {
      model.forward(fails);
    } catch (const std::exception&) {
      failed = true;
    }
    check(failed && columns.text(4).length() == 3 && columns.text(9).length() == 0);
    failing.throws = false;
    const std::vector<BatchFeed> next{{{.tokens = last, .from = 3, .rows = 2}, 4},
                                      {{.tokens = last, .from = 0, .rows = 2, .parents = behind_too}, 9}};
    const auto rows = model.forward(next);
    const RowMajor<double> of_four = whole.at(4).forward(last, 2),
                           of_nine = whole.at(9).forward(last, behind_too, 2);
    rows_are(rows, of_four, of_nine);
    const std::vector<Index> path{1, 3, 4};
    model.keep(9, path);
    check(columns.text(9).length() == 3);
    model.keep(4, 1);
    check(columns.text(4).length() == 1);
    model.release(4);
    check(columns.size() == 1);
    // Invalid feeds leave everything as before.
    const std::vector<Index> none{7, 0};
    const std::vector<BatchFeed> wrong{{{.tokens = more, .from = 3, .rows = 1, .parents = branches}, 9}},
        odd{{{.tokens = more, .from = 3, .rows = 1, .parents = none}, 9}};
    for (const auto& feeds : {wrong, odd}) {
      failed = false;
      try {
        model.forward(feeds);
      } catch (const std::invalid_argument&) {
        failed = true;
      }
      check(failed && columns.text(9).length() == 3);
    }
    const std::vector<BatchFeed> on{{{.tokens = more, .from = 3, .rows = 1}, 9}};
    whole.at(9).keep(path);
    rows_are(model.forward(on), RowMajor<double>(0, 6), whole.at(9).forward(more, 1));
  }));
}

TEST_CASE("over ranks a bad row fails only its own text") {
  std::mt19937_64 rng(43);
  const Table target = fine_model(6, 1, rng);
  const auto seeds = [](Index n) { return std::mt19937_64{static_cast<std::uint64_t>(n)}; };
  for (const Index k : {0, 3})
    support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
      ManyColumnsModel columns(model_of(rank, target));
      ShardedModel model{columns, rank, seeds, Chain{TopK{k}}, {.draws = 2}};
      const Tokens text{3, 1, 0};
      std::vector<BatchFeed> feeds;
      for (const Index n : {0, 1, 2}) feeds.push_back({{.tokens = text, .from = 0, .rows = 2}, n});
      model.forward(feeds);
      for (BatchFeed& feed : feeds) feed.from = 3;
      if (rank.rank() == 1) columns.text(1).spoilt_from = 0;
      const auto rows = model.forward(feeds);  // the first row of text 1 is bad
      Table whole = target;
      const RowMajor<double> logits = whole.forward(text, 2).array().log();
      for (const Index i : {0, 1, 3, 4, 5})
        for (Token x = 0; x < 6; ++x)
          if (!(std::abs(rows.row(i).probability(x) -
                         TopK{k}(LogitsRow(numbers(logits).row(i % 2))).probability(x)) < 1e-12))
            throw std::logic_error("another row than alone");
      bool failed = false;
      try {
        rows.row(2);
      } catch (const InvalidDistribution&) {
        failed = true;
      }
      if (!failed) throw std::logic_error("a bad row is none");
      // The other rows can be drawn from: the tokens drawn ahead, and more.
      for (const Index i : {0, 1, 3, 4, 5})
        for (int n = 0; n < 4; ++n)
          if (const Token x = rows.row(i).sampler()(0.3); !(rows.row(i).probability(x) > 0))
            throw std::logic_error("a token of no probability");
    }));
}

TEST_CASE("each text of a batch over ranks may have its own chain") {
  std::mt19937_64 rng(44);
  const Table target = fine_model(9, 2, rng), small = fine_model(9, 1, rng);
  const Options options{.max_new_tokens = 60, .gamma = 3};
  const auto seeds = [](Index n) { return std::mt19937_64{static_cast<std::uint64_t>(100 + n)}; };
  const std::vector<Steps> chains{steps(0.7, 1, 4), steps(1), steps(0), steps(1.5, 0.8, 0, 0.7, 0.1),
                                  steps(1, 1, 6, 0.9)};
  support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
    const auto chain_of = [&](Index n) { return chains[static_cast<std::size_t>(n)]; };
    ShardedModel many{ManyColumnsModel(model_of(rank, target)), rank, seeds, chain_of};
    Batch batch{many, ModelDrafter{Table(small)}, BlockVerifier{}};
    for (std::size_t n = 0; n < chains.size(); ++n) batch.add(Tokens{1, 2}, options, std::mt19937_64(n));
    for (const Finished& finished : batch.run()) {
      if (finished.error) std::rethrow_exception(finished.error);
      const Index n = finished.sequence;
      ShardedModel one{model_of(rank, target), rank, seeds(n), chain_of(n)};
      SpecDec decoder{one, ModelDrafter{Table(small)}, BlockVerifier{}};
      std::mt19937_64 source(static_cast<std::uint64_t>(n));
      if (decoder.generate(Tokens{1, 2}, options, source).tokens != finished.result.tokens)
        throw std::logic_error("another text than alone");
    }
  }));
}

TEST_CASE("the rows of a sharded model are exactly those of its steps, with ties") {
  std::mt19937_64 rng(39);
  const Table target = Table::random(7, 1, rng);  // coarse numbers make many ties
  for (const double temperature : {0.0, 0.6, 1.0})
    support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
      ShardedModel model{
          model_of(rank, target), rank, std::mt19937_64{1}, TopK{4}, {.temperature = temperature}};
      auto whole = whole_rows(target, steps(temperature, 1, 4), 2);
      const Tokens tokens{0, 1, 2, 3, 4, 5, 6};
      const auto rows = model.forward(tokens, 7);
      const auto expected = whole.forward(tokens, 7);
      for (Index i = 0; i < 7; ++i)
        for (Token x = 0; x < 7; ++x)
          if (!(std::abs(rows.row(i).probability(x) - expected.row(i).probability(x)) < 1e-12))
            throw std::logic_error("another row than on one rank");
    }));
}

TEST_CASE("over ranks a twin's context is a copy, and a filled one is known, and each draws for itself") {
  std::mt19937_64 rng(45);
  const Table target = fine_model(7, 2, rng);
  support::rethrow_first(support::on_ranks(2, [&](ThreadRank& rank) {
    const auto require = [](bool right, const char* what) {
      if (!right) throw std::logic_error(what);
    };
    const SeedOf seeds = [](Index n) { return std::mt19937_64{static_cast<std::uint64_t>(n)}; };
    ManyColumnsModel columns(model_of(rank, target)), whole(columns);
    ShardedModel model{columns, rank, seeds, {.draws = 6}}, other{whole, rank, seeds, {.draws = 6}};
    const Tokens text{3, 1, 4, 1, 5, 2}, tree{0, 1};
    const auto drawn = [&](auto& from, Index sequence, std::size_t cached) {
      const BatchFeed feed{{.tokens = std::span(text).subspan(cached), .from = Index(cached), .rows = 1},
                           sequence};
      auto sampler = from.forward(std::span(&feed, 1)).row(0).sampler();
      Tokens tokens(6);
      for (Token& x : tokens) x = sampler(.5);
      return tokens;
    };
    const BatchFeed first{{.tokens = std::span(text).first(5), .from = 0, .rows = 1}, 1};
    model.forward(std::span(&first, 1));
    const std::vector<Index> parents{-1, -1};
    model.forward(std::vector<BatchFeed>{{{.tokens = tree, .from = 5, .rows = 1, .parents = parents}, 1}});
    model.fork(1, 2);
    const BatchFeed elsewhere{{.tokens = std::span(text).first(5), .from = 0, .rows = 1}, 4};
    columns.forward(std::span(&elsewhere, 1));
    model.adopt(4, std::span(text).first(5));
    for (const Index twin : {2, 4}) {
      const Index fed = columns.text(twin).fed;
      require(drawn(model, twin, 5) == drawn(other, twin, 0), "other tokens than of a text of this number");
      require(columns.text(twin).fed == fed + 1, "the text was fed again");
    }
  }));
}

TEST_CASE("if a text's first call fails, the random numbers for draws ahead go on, and do not start again") {
  std::mt19937_64 rng(44);
  const Table target = fine_model(6, 1, rng);
  const auto draws = [&](bool fails) {
    Tokens drawn;
    support::rethrow_first(support::on_ranks(1, [&](ThreadRank& rank) {
      ColumnsModel columns = model_of(rank, target);
      ShardedModel model{columns, rank, std::mt19937_64{1}, {.draws = 12}};
      const Tokens prompt{3};
      for (int text = 0; text < 2; ++text) {
        if (columns.throws = fails && text == 1; columns.throws) {
          try {
            model.forward(prompt, 1);
          } catch (const std::exception&) {
          }
          columns.throws = false;
        }
        auto sampler = model.forward(prompt, 1).row(0).sampler();
        for (int k = 0; k < 12; ++k) drawn.push_back(sampler(0.5));
        model.truncate(0);
      }
    }));
    return drawn;
  };
  const Tokens expected = draws(false);
  CHECK(!std::equal(expected.begin(), expected.begin() + 12, expected.begin() + 12));
  CHECK(draws(true) == expected);
}

TEST_CASE("bad numbers on one rank are an error on all ranks, and contexts are as before") {
  std::mt19937_64 rng(33);
  const Table target = Table::random(6, 1, rng);
  const auto errors = support::on_ranks(3, [&](ThreadRank& rank) {
    ColumnsModel columns = model_of(rank, target);
    if (rank.rank() == 1) columns.spoilt_from = 2;
    ShardedModel model{columns, rank, std::mt19937_64{1}};
    const Tokens tokens{1, 2};
    model.forward(tokens, 2);
    try {
      model.forward(tokens, 1);
    } catch (const InvalidDistribution&) {
      if (columns.length() != 2) throw std::logic_error("the context has grown");
      throw;
    }
  });
  for (const std::exception_ptr& error : errors) {
    REQUIRE(error);
    CHECK_THROWS_AS(std::rethrow_exception(error), InvalidDistribution);
  }
}

TEST_CASE("ranks with different seeds report it, and none waits") {
  std::mt19937_64 rng(34);
  const Table target = Table::random(6, 1, rng), small = Table::random(6, 1, rng);
  for (const bool drafts_differ : {true, false})
    for (const std::exception_ptr& error : support::on_ranks(3, [&](ThreadRank& rank) {
           const bool odd = rank.rank() == 2;
           ShardedModel model{model_of(rank, target), rank, std::mt19937_64{odd && !drafts_differ ? 8u : 7u}};
           SpecDec decoder{model, ModelDrafter{Table(small)}, BlockVerifier{}};
           std::mt19937_64 source(odd && drafts_differ ? 6 : 5);
           decoder.generate(Tokens{1}, {.max_new_tokens = 50, .gamma = 4}, source);
         })) {
      REQUIRE(error);
      CHECK(support::message_of<InvalidCall>([&] {
              std::rethrow_exception(error);
            }).find("the ranks differ") != std::string::npos);
    }
}

TEST_CASE("invalid options of a sharded model are named in the error") {
  std::mt19937_64 rng(35);
  const Table target = Table::random(6, 1, rng);
  support::Meeting alone(1);
  ThreadRank rank(alone, 0);
  const auto message = [&](const ShardedOptions& options) {
    return support::message_of<std::invalid_argument>(
        [&] { ShardedModel model(model_of(rank, target), rank, std::mt19937_64{1}, options); });
  };
  CHECK(message({.temperature = -1}).find("temperature = -1") != std::string::npos);
  CHECK(message({.draws = -1}).find("draws = -1") != std::string::npos);
}

TEST_CASE("a batch with a target over ranks may be made by a function and returned by name") {
  std::mt19937_64 rng(41);
  const Table target = fine_model(9, 2, rng);
  const auto seeds = [](Index n) { return std::mt19937_64{static_cast<std::uint64_t>(100 + n)}; };
  const Options options{.max_new_tokens = 9};
  support::rethrow_first(support::on_ranks(2, [&](ThreadRank& rank) {
    const auto make = [&](double temperature) {
      ShardedModel over_ranks{
          ManyColumnsModel(model_of(rank, target)), rank, seeds, {.temperature = temperature}};
      Batch one{std::move(over_ranks), NoDrafter{}};
      Batch other{ShardedModel{ManyColumnsModel(model_of(rank, target)), rank, seeds,
                               ShardedOptions{.temperature = 9}},
                  NoDrafter{}};
      if (temperature > 0) return one;
      return other;
    };
    auto made = make(0.9);
    made.add(Tokens{1, 2}, options, std::mt19937_64{5});
    made.step();
    auto moved = std::move(made);
    const Tokens text = moved.run().front().result.tokens;
    ShardedModel alone{model_of(rank, target), rank, seeds(0), {.temperature = 0.9}};
    std::mt19937_64 source{5};
    if (text.size() != 9 || text != autoregressive(alone, Tokens{1, 2}, options, source).tokens)
      throw std::logic_error("the text is another");
  }));
}

}  // namespace test_sample_sharded_model

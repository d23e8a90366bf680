// Processors on a target spread over ranks. Each rank changes its own columns, all ranks write the text of whole rows,
// and a failure on one rank is a failure on all.
// SPDX-License-Identifier: MIT
#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <specdec/more/ranks.hpp>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/logit_bias.hpp>
#include <specdec/more/samplers/min_length.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/columns_model.hpp"
#include "support/processors.hpp"
#include "support/thread_ranks.hpp"

namespace test_more_ranks_processors_over_ranks {

using namespace specdec;
using support::ColumnsModel, support::model_of, support::LogTable, support::ManyColumnsModel, support::Table,
    support::ThreadRank;
using Tokens = std::vector<Token>;

namespace {

constexpr Index vocabulary = 9;
const Tokens prompt{1, 2};

// A hook for whole rows and for parts: forbids the last token, unless there is no other.
struct NoRepeat {
  void operator()(std::span<const Token> context, auto&& logits) const {
    const auto row = detail::partial(logits);
    if (auto* const logit = row.find(context.back())) *logit = -std::numeric_limits<double>::infinity();
  }
};

// Writes a text with a target, by lines or by trees.
template <class Target>
Tokens written(Target& target, bool tree, const Tokens& text = prompt, std::uint64_t seed = 2) {
  const Options options{.max_new_tokens = 30, .gamma = tree ? Index{6} : Index{3}};
  const LogTable small(vocabulary, 1, 7);
  std::mt19937_64 source(seed);
  if (tree)
    return SpecDec{target,
                   ModelDrafter{Table(small.table), Tree{TreeShape::of_widths({2, 2}), Independent{}}},
                   TraversalVerifier{}}
        .generate(text, options, source)
        .tokens;
  return SpecDec{target, ModelDrafter{Table(small.table)}, BlockVerifier{}}
      .generate(text, options, source)
      .tokens;
}

const Chain chain_of_steps{Temperature{1.2}, TopK{5}, TopP{0.9}};
const auto chains = [](auto&& use) {
  use(Chain<>{});
  use(chain_of_steps);
};

}  // namespace

TEST_CASE("a processor over ranks writes the text that it writes on whole rows, for lines and trees") {
  const LogTable target(vocabulary, 2, 5);
  const auto check = [&](const auto& processor, const auto& chain) {
    for (const bool tree : {false, true}) {
      support::DrawnAhead whole(ProcessedModel{LogTable(target), chain, processor}, 2);
      const Tokens expected = written(whole, tree);
      CHECK(std::set<Token>(expected.begin(), expected.end()).size() > 1);
      for (const Index ranks : {3, 1, 5}) {
        support::check_texts(ranks, expected, [&](ThreadRank& rank) {
          ShardedModel model{ProcessedModel{model_of(rank, target.table), processor}, rank,
                             std::mt19937_64{1}, chain};
          return written(model, tree);
        });
        if (support::sanitized) break;
      }
    }
  };
  for (const auto& processor : support::all_processors(std::ssize(prompt)))
    chains([&](const auto& chain) { check(processor, chain); });
  check(NoRepeat{}, Chain<>{});
  check(Processors{LogitBias{{4, 2.0}, {7, -std::numeric_limits<double>::infinity()}},
                   AfterPrompt{prompt.size(), MinLength{40, {0, 3}}}},
        chain_of_steps);
}

TEST_CASE("a batch over ranks, with a processor for each text, writes what each text is alone") {
  const LogTable target(vocabulary, 2, 6);
  const LogTable small(vocabulary, 1, 7);
  const std::vector<support::AnyProcessor> processors = support::all_processors(2);
  const std::vector<Tokens> prompts{{1, 2}, {0, 2}, {1, 1}, {1, 2}, {0, 2}, {1, 2}};
  const auto seeds = [](Index n) { return std::mt19937_64{static_cast<std::uint64_t>(100 + n)}; };
  const auto of = [&](Index n) { return processors[static_cast<std::size_t>(n)]; };
  const Options options{.max_new_tokens = 40, .gamma = 6};
  const auto check = [&](const auto& drafter, const auto& rule) {
    support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
      ShardedModel many{ProcessedModel{ManyColumnsModel(model_of(rank, target.table)), of}, rank, seeds};
      Batch batch{many, std::remove_cvref_t<decltype(drafter)>(drafter), rule};
      for (std::size_t n = 0; n < prompts.size(); ++n) batch.add(prompts[n], options, std::mt19937_64(n));
      std::vector<Tokens> texts(prompts.size());
      for (const Finished& finished : batch.run()) {
        if (finished.error) std::rethrow_exception(finished.error);
        texts[static_cast<std::size_t>(finished.sequence)] = finished.result.tokens;
      }
      for (std::size_t n = 0; n < prompts.size(); ++n) {
        const auto number = static_cast<Index>(n);
        ShardedModel one{ProcessedModel{model_of(rank, target.table), of(number)}, rank, seeds(number)};
        SpecDec decoder{one, std::remove_cvref_t<decltype(drafter)>(drafter), rule};
        std::mt19937_64 source(n);
        if (decoder.generate(prompts[n], options, source).tokens != texts[n])
          throw std::logic_error("another text than alone");
      }
    }));
  };
  check(ModelDrafter{Table(small.table)}, BlockVerifier{});
  check(ModelDrafter{Table(small.table), Tree{TreeShape::of_widths({2, 2}), Independent{}}},
        TraversalVerifier{});
}

namespace {

// Fails on one rank only, once the text has some length.
struct Fails {
  bool here;
  std::size_t from;

  void operator()(std::span<const Token> context, PartialLogits<double>) const {
    if (here && context.size() >= from) throw std::domain_error("a hook fails");
  }
};

// Forbids some tokens, and all tokens when the text's length is `all_at`.
struct Forbids {
  std::set<Token> tokens;
  std::size_t all_at;

  void operator()(std::span<const Token> context, PartialLogits<double> logits) const {
    for (Token x = 0; x < vocabulary; ++x)
      if (double* const logit = logits.find(x); logit && (context.size() == all_at || tokens.contains(x)))
        *logit = -std::numeric_limits<double>::infinity();
  }
};

// Refuses a token that it does not forbid. Only the rank with that token can notice.
struct Forgets {
  void apply(PartialLogits<double>) const {}
  bool push(Token x) const { return x != 8; }
  void pop(Index) const {}
};

using Hook = std::function<void(std::span<const Token>, PartialLogits<double>)>;

// What each of three ranks throws in a call after a text; of(rank) is its processor. Checks that contexts are as before
// and the next call is right.
std::vector<std::exception_ptr> failures(const Tokens& text, const Tokens& call, const auto& chain,
                                         const auto& of) {
  const LogTable target(vocabulary, 1, 8);
  return support::on_ranks(3, [&](ThreadRank& rank) {
    ColumnsModel columns = model_of(rank, target.table);
    ShardedModel model{ProcessedModel{columns, of(rank.rank())}, rank, std::mt19937_64{1}, chain};
    model.forward(text, 1);
    try {
      model.forward(call, std::ssize(call));
    } catch (...) {
      if (columns.length() != std::ssize(text)) throw std::logic_error("the context has grown");
      const auto rows = model.forward(Tokens{0}, 1);
      double sum = 0;
      for (Token x = 0; x < vocabulary; ++x) sum += rows.row(0).probability(x);
      if (!(sum > 1 - 1e-9)) throw std::logic_error("the next row is none");
      throw;
    }
  });
}

template <class Error>
void check_throws(const std::exception_ptr& error) {
  REQUIRE(error);
  CHECK_THROWS_AS(std::rethrow_exception(error), Error);
}

}  // namespace

TEST_CASE(
    "a hook that fails on one rank fails on all; that rank throws the hook's own error, and contexts are as "
    "before") {
  chains([](const auto& chain) {
    for (const std::size_t from : {3u, 4u}) {
      const auto errors = failures({1, 2}, {3, 4, 5}, chain, [&](Index r) -> Hook {
        return Fails{r == 1, from};
      });
      check_throws<InvalidDistribution>(errors[0]);
      check_throws<std::domain_error>(errors[1]);
      check_throws<InvalidDistribution>(errors[2]);
    }
  });
}

TEST_CASE("a hook that fails on one rank fails only its own text of a batch") {
  const LogTable target(vocabulary, 2, 6), small(vocabulary, 1, 7);
  const auto seeds = [](Index n) { return std::mt19937_64{static_cast<std::uint64_t>(100 + n)}; };
  const Options options{.max_new_tokens = 30, .gamma = 3};
  const auto errors = support::on_ranks(3, [&](ThreadRank& rank) {
    const auto hook = [&](Index n, std::span<const Token> context, PartialLogits<double> logits) {
      Fails{n == 1 && rank.rank() == 2, 9}(context, logits);
    };
    ShardedModel many{ProcessedModel{ManyColumnsModel(model_of(rank, target.table)), hook}, rank, seeds,
                      chain_of_steps};
    Batch batch{many, ModelDrafter{Table(small.table)}, BlockVerifier{}};
    for (std::size_t n = 0; n < 3; ++n) batch.add(prompt, options, std::mt19937_64(n));
    std::exception_ptr error;
    for (const Finished& finished : batch.run()) {
      if (finished.sequence == 1) {
        error = finished.error;
        continue;
      }
      if (finished.error) throw std::logic_error("another text fails");
      ShardedModel one{model_of(rank, target.table), rank, seeds(finished.sequence), chain_of_steps};
      if (written(one, false, prompt, static_cast<std::uint64_t>(finished.sequence)) !=
          finished.result.tokens)
        throw std::logic_error("another text than alone");
    }
    if (error) std::rethrow_exception(error);
  });
  check_throws<InvalidDistribution>(errors[0]);
  check_throws<InvalidDistribution>(errors[1]);
  check_throws<std::domain_error>(errors[2]);
}

TEST_CASE(
    "a rank may have no allowed token in a row, and a draw from a row without any is an error on all ranks") {
  chains([](const auto& chain) {
    const auto of = [](std::size_t all_at) {
      return [=](Index) -> Hook { return Forbids{{0, 1, 2, 6, 7, 8}, all_at}; };
    };
    for (const auto& error : failures({1, 2}, {3, 4, 5}, chain, of(9))) CHECK(!error);
    const LogTable target(vocabulary, 1, 8);
    const auto errors = support::on_ranks(3, [&](ThreadRank& rank) {
      ShardedModel model{ProcessedModel{model_of(rank, target.table), of(4)(rank.rank())}, rank,
                         std::mt19937_64{1}, chain};
      model.forward(Tokens{1, 2}, 1);
      const auto row = model.forward(Tokens{3, 4, 5}, 3).row(1);
      for (Token x = 0; x < vocabulary; ++x)
        if (row.probability(x) != 0) throw std::logic_error("a token of a dead end is possible");
      row.sampler()(0.5);
    });
    for (const auto& error : errors) check_throws<InvalidDistribution>(error);
  });
}

TEST_CASE("if a processor refuses a token that it has not forbidden, the rank with that token reports it") {
  const auto errors = failures({1, 2}, {3, 8, 5}, Chain<>{}, [](Index) { return Forgets{}; });
  check_throws<InvalidDistribution>(errors[0]);
  check_throws<InvalidDistribution>(errors[1]);
  check_throws<std::invalid_argument>(errors[2]);
}

TEST_CASE("a model that throws on one rank leaves no rank waiting") {
  struct Breaks : ColumnsModel {
    Breaks(ColumnsModel columns, bool here) : ColumnsModel(std::move(columns)), breaks(here) {}
    auto forward(std::span<const Token> tokens, Index rows) {
      if (breaks && length() == 2) throw std::bad_alloc();
      return ColumnsModel::forward(tokens, rows);
    }
    bool breaks;
  };
  const LogTable target(vocabulary, 1, 8);
  const auto errors = support::on_ranks(3, [&](ThreadRank& rank) {
    Breaks columns(model_of(rank, target.table), rank.rank() == 2);
    ShardedModel model{columns, rank, std::mt19937_64{1}};
    model.forward(Tokens{1, 2}, 1);
    try {
      model.forward(Tokens{3}, 1);
    } catch (...) {
      if (columns.length() != 2) throw std::domain_error("the context has grown");
      throw;
    }
  });
  check_throws<std::logic_error>(errors[0]);  // the communicator's error
  check_throws<std::logic_error>(errors[1]);
  check_throws<std::bad_alloc>(errors[2]);
}

}  // namespace test_more_ranks_processors_over_ranks

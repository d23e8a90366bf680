// ProcessedModel: shapes, hooks, and the loop over it.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/samplers/bad_words.hpp>
#include <specdec/more/samplers/dry.hpp>
#include <specdec/more/samplers/dynamic_temperature.hpp>
#include <specdec/more/samplers/min_keep.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/reasoning_budget.hpp>
#include <specdec/more/samplers/top_n_sigma.hpp>
#include <specdec/more/samplers/typical_p.hpp>
#include <specdec/more/samplers/xtc.hpp>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/processed_model.hpp>
#include <specdec/sample/steps/min_p.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <specdec/sample/steps/top_k.hpp>
#include <specdec/sample/steps/top_p.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/many_texts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_sample_processed_model {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using Tokens = std::span<const Token>;
using Penalty = Eigen::Ref<Eigen::Matrix<double, 1, Eigen::Dynamic>>;

// Logits that depend on the last two tokens.
template <class S = double>
class LogitsTable {
 public:
  using Rows = RowMajor<S>;

  LogitsTable(Index vocab_size, unsigned seed) : table_((vocab_size + 1) * (vocab_size + 1), vocab_size) {
    std::mt19937_64 rng{seed};
    std::normal_distribution<double> normal(0, 1.5);
    for (S& l : table_.reshaped()) l = static_cast<S>(normal(rng));
  }

  Index vocab_size() const { return table_.cols(); }

  const Rows& forward(Tokens tokens, Index rows) {
    if (throws_on_forward) throw std::runtime_error("out of memory");
    context.insert(context.end(), tokens.begin(), tokens.end());
    output_.resize(rows, vocab_size());
    for (Index i = 0; i < rows; ++i)
      output_.row(i) = row(Tokens(context).first(context.size() - static_cast<std::size_t>(rows - 1 - i)));
    if (extra_row) output_.conservativeResize(rows + 1, Eigen::NoChange);
    if (extra_column) output_.conservativeResize(Eigen::NoChange, vocab_size() + 1);
    return output_;
  }

  void truncate(Index length) {
    if (length < std::ssize(context)) context.resize(static_cast<std::size_t>(length));
  }

  auto row(Tokens tokens) const {
    Index state = 0;
    for (const Token x : tokens.last(std::min<std::size_t>(2, tokens.size())))
      state = state * (vocab_size() + 1) + x + 1;
    return table_.row(state);
  }

  std::vector<Token> context;
  bool throws_on_forward = false, extra_row = false, extra_column = false;

 private:
  Rows table_, output_;
};

// No token may come twice in a row, and tokens of the text so far are penalised.
struct Repetition {
  void operator()(Tokens context, Penalty logits) const {
    for (const Token x : context) logits[x] -= 0.25;
    logits[context.back()] = -infinity;
  }
};

struct Stable : LogitsTable<> {
  using LogitsTable::LogitsTable;
  static constexpr bool stable_rows = true;
};

// The law of the target alone, directly from its table.
template <class Steps, class Hook>
struct ProcessedTable {
  const LogitsTable<>& table;
  Steps steps;
  Hook hook;
  mutable std::vector<std::unique_ptr<RowMajor<double>>> rows = {};

  auto distribution(Tokens context) const {
    rows.push_back(std::make_unique<RowMajor<double>>(table.row(context)));
    if constexpr (!std::same_as<Hook, NoHook>) hook(context, rows.back()->row(0));
    return steps(LogitsRow(numbers(*rows.back()).row(0)));
  }
};

// One type of chain for all tests in the loop: neutral values switch a step off.
auto chain_of(double before, Index k, double p, double m, double after) {
  return Chain{Temperature(before), TopK(k), TopP(p), MinP(m), Temperature(after)};
}

// Wraps a model for one text, or a model for many texts with one text in it.
struct ForOne {
  static constexpr bool fails_at_once = true;
  static auto processed(auto& model, const auto&... with) { return ProcessedModel{model, with...}; }
};
struct ForMany {
  [[maybe_unused]] static constexpr bool fails_at_once = false;
  static auto processed(auto& model, const auto&... with) {
    return AsOneText{ProcessedModel{OnlyText{model}, with...}};
  }
};
#ifdef SPECDEC_TEST_SOME
using Forms = std::tuple<ForOne>;
#else
using Forms = std::tuple<ForOne, ForMany>;
#endif

template <class Form, class Hook>
double law_difference(const decltype(chain_of(1, 0, 1, 0, 1))& steps, const Hook& hook, Index vocab_size,
                      unsigned seed) {
  LogitsTable<> large(vocab_size, seed), small(vocab_size, seed + 1);
  double worst = 0;
  for (const Index gamma : {1, 2}) {
    ModelDrafter drafter{Form::processed(small, steps, hook)};
    SpecDec decoder{Form::processed(large, steps, hook), drafter, BlockVerifier{}};
    const std::vector<Token> prompt{1};
    const Options options{.max_new_tokens = 4, .gamma = gamma};
    const GenerationLaw got = enumerate_generate(decoder, prompt, options);
    const Law expected = target_law(
        ProcessedTable<decltype(chain_of(1, 0, 1, 0, 1)), Hook>{large, steps, hook}, prompt, options);
    worst = std::max(worst, largest_difference(got.law, expected).size);
  }
  return worst;
}

#ifndef SPECDEC_TEST_SOME
// Samplers that keep any set of tokens, in the order that llama.cpp has by default.
auto any_set(std::uint64_t seed) {
  return Processors{BadWords{{{3}, {1, 2, 0}}},
                    ReasoningBudget{{.start = {0}, .end = {2}, .tokens = 1}},
                    Dry{{.allowed_length = 1}},
                    TopNSigma{2},
                    TopK{3},
                    TypicalP{0.9},
                    MinKeep{2, TopP{0.6}},
                    MinKeep{2, MinP{0.6}},
                    Xtc{0.5, 0.15, seed},
                    DynamicTemperature{0.8, 0.5, 1.5}};
}

// The law of the target alone: each row is made anew, by samplers that are shown the text from its beginning.
struct AnySetTable {
  const LogitsTable<>& table;
  std::uint64_t seed;
  mutable std::vector<std::unique_ptr<RowMajor<double>>> rows = {};

  auto distribution(Tokens context) const {
    rows.push_back(std::make_unique<RowMajor<double>>(table.row(context)));
    auto samplers = any_set(seed);
    for (const Token x : context) samplers.push(x);
    samplers.apply(Penalty(rows.back()->row(0)));
    return LogitsRow(numbers(*rows.back()).row(0));
  }
};
#endif

}  // namespace

static_assert(Model<ProcessedModel<LogitsTable<>&, Chain<MinP>>>);
static_assert(Model<ProcessedModel<LogitsTable<float>, Chain<>,
                                   decltype([](Tokens, Eigen::Ref<Eigen::RowVectorXf>) {})>>);
TEST_CASE("a processed model hands out its rows in every way that a model may") {
  LogitsTable<> table(5, 3);
  const Chain chain{MinP(0.2)};
  ProcessedModel referred{table, chain};
  const std::vector<Token> tokens{1, 2, 3};
  const auto rows = referred.forward(tokens, 2);
  CHECK(rows.rows() == 2);
  CHECK(table.context == tokens);
  referred.truncate(1);
  CHECK(table.context == std::vector<Token>{1});
  ProcessedModel owned{LogitsTable<>(5, 3), chain};
  CHECK(owned.forward(tokens, 1).row(0).probability(0) == rows.row(1).probability(0));

  // A model that returns its logits by value.
  struct ByValue {
    LogitsTable<> table{5, 3};
    Index vocab_size() const { return 5; }
    RowMajor<double> forward(Tokens t, Index n) { return table.forward(t, n); }
    void truncate(Index n) { table.truncate(n); }
  };
  ProcessedModel by_value{ByValue{}, chain};
  CHECK(by_value.forward(tokens, 1).row(0).probability(0) == rows.row(1).probability(0));

  std::mt19937_64 rng{1};
  const ProcessedModel bounded{support::BoundedModel(testing::TableModel<>::random(5, 1, rng), 7), chain};
  CHECK(context_size(bounded) == 7);
  CHECK(context_size(referred) == std::numeric_limits<Index>::max());

  struct Nothing {
    void operator()(Tokens, Penalty) const {}
  };
  static_assert(has_stable_rows<ProcessedModel<Stable&, Chain<MinP>>>);
  static_assert(!has_stable_rows<ProcessedModel<Stable&, Chain<MinP>, Nothing>>, "the copy is written over");
  static_assert(!has_stable_rows<ProcessedModel<LogitsTable<>&, Chain<MinP>>>);
}

TEMPLATE_LIST_TEST_CASE("a hook sees the tokens before its row", "", Forms) {
  LogitsTable<> table(4, 5);
  std::vector<std::vector<Token>> seen;
  const auto hook = [&seen](Tokens context, Penalty logits) {
    seen.emplace_back(context.begin(), context.end());
    logits[context.back()] = 50;
  };
  auto model = TestType::processed(table, Chain{MinP(1.0)}, hook);
  const std::vector<Token> first{0, 1, 2}, second{3, 3};
  auto rows = model.forward(first, 2);
  CHECK(seen == std::vector<std::vector<Token>>{{0, 1}, {0, 1, 2}});
  CHECK(rows.row(0).probability(1) == 1);
  CHECK(rows.row(1).probability(2) == 1);
  model.truncate(2);
  seen.clear();
  model.forward(second, 1);
  CHECK(seen == std::vector<std::vector<Token>>{{0, 1, 3, 3}});
  model.truncate(10);
  model.truncate(0);
  seen.clear();
  model.forward(second, 2);
  CHECK(seen == std::vector<std::vector<Token>>{{3}, {3, 3}});
}

TEMPLATE_LIST_TEST_CASE("a hook may be given more rows than in earlier calls", "", Forms) {
  // The hook gets copies, and their memory must grow with the number of rows. Otherwise the numbers right after that
  // memory would be overwritten.
  const Index vocab_size = 30;
  LogitsTable<> table(vocab_size, 5);
  auto model = TestType::processed(table, Chain{MinP(0.0)}, [](Tokens, Penalty) {});
  const std::vector<Token> tokens(20, 1);
  model.forward(tokens, 1);
  std::vector<std::vector<double>> neighbours;
  for (Index n = 1; n <= 64; ++n) neighbours.emplace_back(static_cast<std::size_t>(vocab_size), 0.125);
  const auto rows = model.forward(tokens, 16);
  for (Index i = 0; i < 16; ++i)
    for (Token x = 0; x < vocab_size; ++x) CHECK(rows.row(i).logits()[x] == table.row(tokens)[x]);
  for (const auto& neighbour : neighbours)
    CHECK(neighbour == std::vector<double>(static_cast<std::size_t>(vocab_size), 0.125));
  // Fewer rows again: those of the last tokens.
  CHECK(model.forward(tokens, 2).rows() == 2);
}

TEMPLATE_LIST_TEST_CASE("a row in which the hook leaves no token is an error when it is drawn from", "",
                        Forms) {
  LogitsTable<> table(4, 5);
  auto model = TestType::processed(table, Chain{MinP(0.1)},
                                   [](Tokens, Penalty logits) { logits.setConstant(-infinity); });
  const std::vector<Token> tokens{0, 1};
  const auto rows = model.forward(tokens, 1);
  CHECK(rows.row(0).probability(0) == 0);
  CHECK_THROWS_AS(rows.row(0).sampler()(0.5), InvalidDistribution);
  CHECK_THROWS_AS(rows.row(0).argmax(), InvalidDistribution);
}

TEMPLATE_LIST_TEST_CASE("after a throw the context of a processed model is as before", "", Forms) {
  LogitsTable<> table(4, 5);
  bool refuse = false;
  std::size_t length = 0;
  auto model = TestType::processed(table, Chain{MinP(0.1)}, [&](Tokens context, Penalty) {
    length = context.size();
    if (refuse) throw std::runtime_error("no");
  });
  const std::vector<Token> tokens{0, 1};
  model.forward(tokens, 1);
  table.throws_on_forward = true;
  CHECK_THROWS_AS(model.forward(tokens, 1), std::runtime_error);
  table.throws_on_forward = false;
  CHECK(table.context.size() == 2);
  if constexpr (TestType::fails_at_once) {
    refuse = true;
    CHECK_THROWS_AS(model.forward(tokens, 1), std::runtime_error);
    refuse = false;
  }
  CHECK(table.context.size() == 2);
  table.extra_row = true;
  CHECK_THROWS_AS(model.forward(tokens, 1), std::invalid_argument);
  table.extra_row = false;
  CHECK(table.context.size() == 2);
  model.forward(tokens, 1);
  CHECK(length == 4);
}

TEMPLATE_LIST_TEST_CASE("logits of a wrong shape are refused", "", Forms) {
  LogitsTable<> table(4, 5);
  auto model = TestType::processed(table, Chain{MinP(0.1)});
  const std::vector<Token> tokens{0, 1};
  table.extra_row = true;
  CHECK(message_of([&] { model.forward(tokens, 1); }) ==
        "specdec: the model returned 2 rows over 4 tokens, expected 1 row over its vocabulary of 4");
  table.extra_row = false;
  table.extra_column = true;
  CHECK(message_of([&] { model.forward(tokens, 2); }) ==
        "specdec: the model returned 2 rows over 5 tokens, expected 2 rows over its vocabulary of 4");
}

namespace {

// Logits of trees that depend on the two tokens before a row.
struct LogitsTree : LogitsTable<> {
  using LogitsTable::forward;
  using LogitsTable::LogitsTable;
  const Rows& forward(Tokens tokens, std::span<const Index> parents, Index rows) {
    if (throws_on_forward) throw std::runtime_error("out of memory");
    specdec::detail::check_parents(tokens, parents, std::ssize(tree));
    tree.insert(tree.end(), tokens.begin(), tokens.end());
    numbers.insert(numbers.end(), parents.begin(), parents.end());
    tree_output.resize(rows + extra_row, vocab_size());
    for (Index i = 0; i < rows; ++i) tree_output.row(i) = row(behind(std::ssize(tree) - rows + i));
    return tree_output;
  }
  void keep(std::span<const Index> path) {
    specdec::detail::check_path(path, numbers);
    for (const Index node : path) context.push_back(tree[static_cast<std::size_t>(node)]);
    forget();
  }
  void truncate(Index length) {
    forget();
    LogitsTable::truncate(length);
  }
  std::vector<Token> behind(Index node) const {
    std::vector<Token> way;
    for (; node >= 0; node = numbers[static_cast<std::size_t>(node)])
      way.insert(way.begin(), tree[static_cast<std::size_t>(node)]);
    way.insert(way.begin(), context.begin(), context.end());
    return way;
  }
  void forget() {
    tree.clear();
    numbers.clear();
  }

  std::vector<Token> tree;
  std::vector<Index> numbers;
  Rows tree_output;
};

struct LogitsTreeByValue : LogitsTree {
  using LogitsTree::LogitsTree;
  Rows forward(Tokens tokens, Index rows) { return LogitsTree::forward(tokens, rows); }
  Rows forward(Tokens tokens, std::span<const Index> parents, Index rows) {
    return LogitsTree::forward(tokens, parents, rows);
  }
};

using AnyHook = void (*)(Tokens, Penalty);

}  // namespace

static_assert(takes_trees<ProcessedModel<LogitsTree&, Chain<MinP>>>);
static_assert(takes_trees<ProcessedModel<LogitsTreeByValue, Chain<MinP>>>);
static_assert(takes_trees<ProcessedModel<LogitsTree&, Chain<MinP>, AnyHook>>);
static_assert(!takes_trees<ProcessedModel<LogitsTable<>&, Chain<MinP>>>);
static_assert(!takes_trees<ProcessedModel<LogitsTable<>&, Chain<MinP>, AnyHook>>);

TEMPLATE_LIST_TEST_CASE("a tree passes through a processed model", "", Forms) {
  const Chain chain{Temperature(0.7), TopK(3)};
  const std::vector<Token> start{1, 2}, tokens{0, 3, 4, 2}, more{1, 1};
  const std::vector<Index> parents{-1, 0, 0, 1}, grown{3, 2}, path{0, 1, 3, 4};
  const auto walk = [&](auto&& model, LogitsTree& inner) {
    const auto check = [&](const auto& rows, Index count) {
      REQUIRE(rows.rows() == count);
      for (Index i = 0; i < count; ++i) {
        const RowMajor<double> logits = inner.row(inner.behind(std::ssize(inner.tree) - count + i));
        for (Token x = 0; x < 5; ++x)
          CHECK(rows.row(i).probability(x) == chain(LogitsRow(numbers(logits).row(0))).probability(x));
      }
    };
    model.forward(start, 1);
    check(model.forward(tokens, parents, 4), 4);
    check(model.forward(more, grown, 1), 1);
    model.keep(path);
    CHECK(inner.context == std::vector<Token>{1, 2, 0, 3, 2, 1});
    model.forward(tokens, parents, 1);
    model.truncate(3);
    CHECK(inner.context == std::vector<Token>{1, 2, 0});
    CHECK(inner.tree.empty());
  };
  LogitsTree tree(5, 3);
  walk(TestType::processed(tree, chain), tree);
#ifndef SPECDEC_TEST_SOME
  LogitsTree hooked(5, 3);
  walk(TestType::processed(hooked, chain, [](Tokens, Penalty) {}), hooked);
  LogitsTreeByValue by_value(5, 3);
  walk(TestType::processed(by_value, chain), by_value);
#endif

  auto model = TestType::processed(tree, chain);
  tree.extra_row = true;
  CHECK(message_of([&] { model.forward(tokens, parents, 2); }) ==
        "specdec: the model returned 3 rows over 5 tokens, expected 2 rows over its vocabulary of 5");
}

TEMPLATE_LIST_TEST_CASE("a hook sees the path to a token of a tree", "", Forms) {
  LogitsTree tree(5, 3);
  std::vector<std::vector<Token>> seen;
  auto model = TestType::processed(tree, Chain{MinP(1.0)}, [&seen](Tokens context, Penalty logits) {
    seen.emplace_back(context.begin(), context.end());
    logits[context.back()] = 50;
  });
  using Text = std::vector<std::vector<Token>>;
  model.forward(std::vector<Token>{1, 2}, 1);
  seen.clear();
  const std::vector<Token> tokens{0, 3, 4, 2};
  const std::vector<Index> parents{-1, 0, -1, 1};
  const auto rows = model.forward(tokens, parents, 3);
  CHECK(seen == Text{{1, 2, 0, 3}, {1, 2, 4}, {1, 2, 0, 3, 2}});
  for (Index i = 0; i < 3; ++i) CHECK(rows.row(i).probability(tokens[static_cast<std::size_t>(i) + 1]) == 1);
  CHECK(message_of<InvalidCall>([&] { model.forward(tokens, 1); }) ==
        (TestType::fails_at_once
             ? "specdec: feeds[0] has no parents while the tree of sequence 0 is open: keep() closes it"
             : "specdec: feeds[0] has no parents while the tree of sequence 7 is open: keep() closes it"));
  CHECK(message_of([&] { model.keep(std::vector<Index>{1}); }) == "specdec: path[0] = 1 follows 0, not -1");
  seen.clear();
  model.forward(std::vector<Token>{3}, std::vector<Index>{2}, 1);
  model.keep(std::vector<Index>{0, 1});
  model.forward(std::vector<Token>{4}, 1);
  CHECK(seen == Text{{1, 2, 4, 3}, {1, 2, 0, 3, 4}});
}

TEMPLATE_LIST_TEST_CASE("after a throw context and tree of a processed model are as before", "", Forms) {
  LogitsTree tree(5, 3);
  std::vector<Token> seen;
  bool refuse = false;
  auto model = TestType::processed(tree, Chain{MinP(0.1)}, [&](Tokens context, Penalty) {
    seen.assign(context.begin(), context.end());
    if (refuse) throw std::runtime_error("no");
  });
  const std::vector<Token> tokens{0, 3}, more{4, 2};
  const std::vector<Index> parents{-1, 0}, grown{1, 2};
  const auto fail = [&](const std::vector<Index>& numbers) {
    for (bool* const fault : {&refuse, &tree.extra_row, &tree.throws_on_forward}) {
      if (fault == &refuse && !TestType::fails_at_once) continue;
      *fault = true;
      CHECK_THROWS(model.forward(more, numbers, 2));
      *fault = false;
    }
  };
  model.forward(std::vector<Token>{1, 2}, 1);
  fail({-1, 0});
  CHECK(tree.tree.empty());
  model.forward(more, 1);  // no tree is open
  CHECK(tree.context == std::vector<Token>{1, 2, 4, 2});

  model.forward(tokens, parents, 1);
  fail(grown);
  model.forward(more, grown, 1);
  CHECK(seen == std::vector<Token>{1, 2, 4, 2, 0, 3, 4, 2});
  fail({3, 3});
  model.forward(std::vector<Token>{1}, std::vector<Index>{2}, 1);
  CHECK(seen == std::vector<Token>{1, 2, 4, 2, 0, 3, 4, 1});
  model.keep(std::vector<Index>{0, 1, 2, 4});
  CHECK(tree.context == std::vector<Token>{1, 2, 4, 2, 0, 3, 4, 1});
  model.forward(tokens, parents, 1);
  CHECK(seen == std::vector<Token>{1, 2, 4, 2, 0, 3, 4, 1, 0, 3});
}

TEMPLATE_LIST_TEST_CASE("processed models in the loop have the law of the processed target", "[law]", Forms) {
  for (const unsigned seed : {10u, 20u, 30u}) {
    CAPTURE(seed);
    CHECK(law_difference<TestType>(chain_of(0.8, 2, 0.9, 0, 1), NoHook{}, 3, seed) < 1e-12);
    CHECK(law_difference<TestType>(chain_of(1, 0, 0.7, 0.2, 1.4), NoHook{}, 3, seed) < 1e-12);
    CHECK(law_difference<TestType>(chain_of(0.7, 0, 0.8, 0, 1), Repetition{}, 3, seed) < 1e-12);
    CHECK(law_difference<TestType>(chain_of(1, 2, 1, 0.1, 1), Repetition{}, 4, seed) < 1e-12);
  }
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE(
    "with samplers that may remove the most probable token the output has the law of the target alone") {
  const std::vector<Token> prompt{1, 2, 1};
  int lacking = 0;  // rows without their most probable token
  for (const unsigned seed : {1u, 2u, 3u, 4u})
    for (const Index gamma : {1, 2}) {
      CAPTURE(seed, gamma);
      LogitsTable<> large(4, seed), small(4, seed + 100);
      SpecDec decoder{ProcessedModel{large, Chain{}, any_set(seed)},
                      ModelDrafter{ProcessedModel{small, Chain{}, any_set(seed)}}, BlockVerifier{}};
      const Options options{.max_new_tokens = 4, .gamma = gamma};
      const AnySetTable alone{large, seed};
      const Law expected = target_law(alone, prompt, options);
      CHECK(largest_difference(enumerate_generate(decoder, prompt, options).law, expected).size < 1e-12);
      Index best = 0;
      large.row(prompt).maxCoeff(&best);
      lacking += alone.distribution(prompt).probability(static_cast<Token>(best)) == 0 ? 1 : 0;
    }
  CHECK(lacking > 0);
}
#endif

}  // namespace test_sample_processed_model

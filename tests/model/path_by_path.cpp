// Trees of tokens for models that take lines. Rows, contexts and failures are those of a model fed path by path.
// SPDX-License-Identifier: MIT
#include "specdec/model/path_by_path.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
#include "specdec/more/models/windowed.hpp"

#include "support/catch.hpp"
#include "support/many_texts.hpp"
#include "support/message_of.hpp"
#include "support/strict.hpp"

namespace test_model_path_by_path {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;

using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;

static_assert(takes_trees<PathByPath<TableModel<>>>);
static_assert(takes_trees<PathByPath<TableModel<float>&>>);
static_assert(takes_trees<PathByPath<NgramModel>>);
static_assert(!has_stable_rows<PathByPath<NgramModel>>);

namespace {

// What a failing call does before it fails: nothing, or all of its work.
enum class Fault { none, before, after };

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("a call") {}
};

// A table that counts what it is fed, overwrites its rows, and fails on request.
struct Watched {
  TableModel<float> table;
  Index calls = 0, fed = 0;
  Index goes_well = 0;  // successful calls before the one that fails
  Fault fault = Fault::none;

  Index vocab_size() const { return table.vocab_size(); }
  const TableModel<float>::Rows& forward(std::span<const Token> tokens, Index rows) {
    const bool fails = fault != Fault::none && goes_well-- == 0;
    const Fault kind = std::exchange(fault, fails ? Fault::none : fault);
    if (fails && kind == Fault::before) throw Failure();
    const auto& output = table.forward(tokens, rows);
    if (fails) throw Failure();
    ++calls;
    fed += std::ssize(tokens);
    return output;
  }
  void truncate(Index length) { table.truncate(length); }
};
static_assert(Model<Watched>);

// The expected state of a tree model, by the words of the concept.
struct Text {
  Tokens context = {}, tree = {};
  Numbers parents = {};

  Tokens behind(Index node) const {
    Tokens way;
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)])
      way.insert(way.begin(), tree[static_cast<std::size_t>(node)]);
    way.insert(way.begin(), context.begin(), context.end());
    return way;
  }
  void keep(const Numbers& path) {
    for (const Index node : path) context.push_back(tree[static_cast<std::size_t>(node)]);
    forget();
  }
  void truncate(Index length) {
    context.resize(std::min(context.size(), static_cast<std::size_t>(length)));
    forget();
  }
  void forget() {
    tree.clear();
    parents.clear();
  }
};

// Random calls of a tree model, each compared with the expected result.
template <class M>
class Walk {
 public:
  Walk(M& model, std::uint64_t seed) : model_(&model), rng_(seed) {}

  Index below(Index n) { return static_cast<Index>(rng_() % static_cast<std::uint64_t>(n)); }
  const Text& text() const { return text_; }

  Tokens tokens(Index count) {
    Tokens x(static_cast<std::size_t>(count));
    for (Token& t : x) t = static_cast<Token>(below(model_->vocab_size()));
    return x;
  }

  // One call. The expected state changes only after the call has returned.
  template <class Expected>
  void step(const Expected& expected) {
    const Index kind = below(8);
    if (kind < 4) grow(expected);
    else if (kind == 4) {
      const Index length = below(std::ssize(text_.context) + 3);
      model_->truncate(length);
      text_.truncate(length);
    } else if (kind == 5 && text_.tree.empty()) {
      const Tokens x = tokens(1 + below(3));
      const Index rows = 1 + below(std::ssize(x));
      const auto& output = model_->forward(x, rows);
      text_.context.insert(text_.context.end(), x.begin(), x.end());
      for (Index i = 0; i < rows; ++i) {
        const Tokens way(text_.context.begin(), text_.context.end() - (rows - 1 - i));
        check(distributions(output).row(i), expected, way);
      }
    } else {
      const Numbers path = any_path();
      model_->keep(path);
      text_.keep(path);
    }
  }

 private:
  template <class Expected>
  void grow(const Expected& expected) {
    const Tokens x = tokens(1 + below(6));
    const Index before = std::ssize(text_.tree), rows = 1 + below(std::ssize(x));
    Numbers parents;
    for (Index k = 0; k < std::ssize(x); ++k) parents.push_back(below(before + k + 1) - 1);
    const auto output = model_->forward(x, parents, rows);
    text_.tree.insert(text_.tree.end(), x.begin(), x.end());
    text_.parents.insert(text_.parents.end(), parents.begin(), parents.end());
    REQUIRE(output.rows() == rows);
    for (Index i = 0; i < rows; ++i)
      check(distributions(output).row(i), expected, text_.behind(std::ssize(text_.tree) - rows + i));
  }

  Numbers any_path() {
    Numbers path;
    for (Index node = below(std::ssize(text_.tree) + 1) - 1; node >= 0;
         node = text_.parents[static_cast<std::size_t>(node)])
      path.insert(path.begin(), node);
    return path;
  }

  template <class Row, class Expected>
  void check(const Row& row, const Expected& expected, const Tokens& way) const {
    const auto right = expected(way);
    bool equal = row.vocab_size() == model_->vocab_size();
    for (Token x = 0; equal && x < row.vocab_size(); ++x)
      equal = row.probability(x) == right[static_cast<std::size_t>(x)];
    CHECK(equal);
  }

  M* model_;
  std::mt19937_64 rng_;
  Text text_;
};

// The row of a model that is fed just one path, in one call.
template <class M>
auto linear_rows(const M& copied) {
  return [copied](const Tokens& way) {
    M model = copied;
    model.truncate(0);
    const auto& output = model.forward(way, 1);
    std::vector<double> row;
    for (Token x = 0; x < model.vocab_size(); ++x) row.push_back(distributions(output).row(0).probability(x));
    return row;
  };
}

// Logits that depend on the last token.
struct LogitsTable {
  Eigen::MatrixXf table = Eigen::MatrixXf::Random(5, 5), output = {};
  Tokens context = {};
  Index vocab_size() const { return 5; }
  const Eigen::MatrixXf& forward(std::span<const Token> tokens, Index rows) {
    support::check_call(tokens, rows, vocab_size());
    context.insert(context.end(), tokens.begin(), tokens.end());
    output.resize(rows, 5);
    for (Index i = 0; i < rows; ++i) output.row(i) = table.row(*(context.end() - (rows - i)));
    return output;
  }
  void truncate(Index length) { context.resize(std::min(context.size(), static_cast<std::size_t>(length))); }
};

// A model that returns a column-major matrix by value.
struct Columns {
  TableModel<> table;
  Index vocab_size() const { return table.vocab_size(); }
  Eigen::MatrixXd forward(std::span<const Token> tokens, Index rows) { return table.forward(tokens, rows); }
  void truncate(Index length) { table.truncate(length); }
};

// Wraps a model for one text, or a model for many texts with one text in it.
struct ForOne {
  static auto by_path(auto& model) { return PathByPath{model}; }
};
struct ForMany {
  static auto by_path(auto& model) { return support::AsOneText{PathByPath{support::OnlyText{model}}}; }
};
#ifdef SPECDEC_TEST_SOME
using Forms = std::tuple<ForOne>;
#else
using Forms = std::tuple<ForOne, ForMany>;
#endif

template <class Form, class M>
void walk(const M& fresh, std::uint64_t seed) {
  M copy = fresh;
  auto model = Form::by_path(copy);
  Walk calls(model, seed);
  for (int n = 0; n < 300; ++n) calls.step(linear_rows(fresh));
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("PathByPath: rows of a tree equal those of the paths to its tokens, to the bit", "",
                        Forms) {
  std::mt19937_64 rng{1};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    walk<TestType>(TableModel<float>::random(3, 3, rng), seed);
#ifndef SPECDEC_TEST_SOME
    walk<TestType>(TableModel<double>::random(2, 5, rng), seed);
#endif
  }
#ifndef SPECDEC_TEST_SOME
  Tokens text(500);
  for (Token& x : text) x = static_cast<Token>(rng() % 4);
  walk<TestType>(NgramModel::train(text, {.order = 3, .vocab_size = 5}), 1);
  walk<TestType>(ProcessedModel{LogitsTable(), Chain{Temperature(0.7), TopK(3)}}, 2);
  walk<TestType>(Columns{TableModel<>::random(3, 2, rng)}, 3);
#endif
}

TEST_CASE(
    "PathByPath: a model that returns column-major rows can draft trees and be their target, alone and in a "
    "batch") {
  std::mt19937_64 rng{6};
  for (int n = 0; n < 4; ++n) {
    auto table = TableModel<>::random(2, 2, rng);
    SpecDec decoder{PathByPath{Columns{table}},
                    ModelDrafter{PathByPath{Columns{TableModel<>::random(2, 1, rng)}},
                                 Tree{TreeShape::of_widths({2, 1}), Independent{}}},
                    TraversalVerifier{}};
    const Options options{.max_new_tokens = 4, .gamma = 4};
    const GenerationLaw written = enumerate_generate(decoder, Tokens{0, 1}, options);
    CHECK(largest_difference(written.law, target_law(table, Tokens{0, 1}, options)).size < 1e-12);
    CHECK(written.accepted > 0);
  }
  const auto table = TableModel<>::random(3, 2, rng);
  ModelPerSequence many{PathByPath{Columns{table}}};
  const Tokens tokens{0, 1, 2};
  const Numbers parents{-1, 0, 0};
  const std::vector<BatchFeed> feeds{{{.tokens = tokens, .from = 0, .rows = 2, .parents = parents}, 7},
                                     {{.tokens = tokens, .from = 0, .rows = 1}, 8}};
  const auto rows = many.forward(feeds);
  REQUIRE(rows.rows() == 3);
  const Tokens ways[] = {{0, 1}, {0, 2}, {0, 1, 2}};
  for (Index i = 0; i < 3; ++i)
    for (Token x = 0; x < 3; ++x)
      CHECK(distributions(rows).row(i).probability(x) == table.distribution(ways[i]).probability(x));
}

TEMPLATE_LIST_TEST_CASE("PathByPath: when the model is fed the next token, its context is what was kept", "",
                        Forms) {
  std::mt19937_64 rng{2};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Watched watched{TableModel<float>::random(3, 2, rng)};
    auto model = TestType::by_path(watched);
    Walk calls(model, seed);
    for (int n = 0; n < 50; ++n) calls.step(linear_rows(watched.table));
    model.keep({});
    model.forward(Tokens{1}, 1);
    Tokens expected = calls.text().context;
    expected.push_back(1);
    CHECK(Tokens(watched.table.context().begin(), watched.table.context().end()) == expected);
  }
}

TEMPLATE_LIST_TEST_CASE("PathByPath: whichever call of the model fails, context and tree are as before", "",
                        Forms) {
  std::mt19937_64 rng{3};
  int failures = 0;
  for (const Fault fault : {Fault::before, Fault::after})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Watched watched{TableModel<float>::random(3, 3, rng)};
      auto model = TestType::by_path(watched);
      Walk calls(model, seed);
      for (int n = 0; n < 100; ++n) {
        watched.goes_well = calls.below(4);
        watched.fault = calls.below(2) == 0 ? fault : Fault::none;
        try {
          calls.step(linear_rows(watched.table));
        } catch (const Failure&) {
          ++failures;
        }
      }
    }
  CHECK(failures > 300);

  // Two branches share the first token of a call that fails at the second branch. The next call has another token there.
  Watched watched{TableModel<float>::random(3, 3, rng)};
  const auto expected = linear_rows(watched.table);
  auto model = TestType::by_path(watched);
  model.forward(Tokens{0, 1}, Numbers{-1, 0}, 2);
  watched.goes_well = 1;
  watched.fault = Fault::before;
  CHECK_THROWS_AS(model.forward(Tokens{0, 1, 2}, Numbers{1, 2, 2}, 2), Failure);
  const auto& rows = model.forward(Tokens{2, 1, 2}, Numbers{1, 2, 2}, 2);
  for (Index i = 0; i < 2; ++i)
    for (Token x = 0; x < 3; ++x)
      CHECK(distributions(rows).row(i).probability(x) ==
            expected({0, 1, 2, static_cast<Token>(1 + i)})[static_cast<std::size_t>(x)]);
}

TEMPLATE_LIST_TEST_CASE(
    "PathByPath: the common part of paths is fed once, and paths without wanted rows are not fed", "",
    Forms) {
  SplitMix64 generator;
  Watched watched{TableModel<float>::random(4, 2, generator)};
  auto model = TestType::by_path(watched);
  const auto cost = [&](auto&& call) {
    watched.calls = watched.fed = 0;
    call();
    return std::pair(watched.calls, watched.fed);
  };
  using Cost = std::pair<Index, Index>;
  CHECK(cost([&] { model.forward(Tokens{0, 1, 2}, 1); }) == Cost(1, 3));
  // Two branches of three tokens after one token, level by level: 0; 1, 2; 3, 4; 5, 6.
  const Tokens tokens{0, 1, 2, 1, 2, 1, 2};
  const Numbers parents{-1, 0, 0, 1, 2, 3, 4};
  CHECK(cost([&] { model.forward(tokens, parents, 7); }) == Cost(2, 7));
  model.truncate(3);
  CHECK(cost([&] { model.forward(tokens, parents, 1); }) == Cost(1, 4));
  // The model's context ends with node 6. A token after node 6 is fed alone, and the kept part of that branch is not
  // fed again.
  CHECK(cost([&] { model.forward(Tokens{3}, Numbers{6}, 1); }) == Cost(1, 1));
  CHECK(cost([&] { model.keep(Numbers{0, 2, 4}); }) == Cost(0, 0));
  CHECK(watched.table.context().size() == 6);
  CHECK(cost([&] { model.forward(Tokens{3}, 1); }) == Cost(1, 1));
  // If another branch is kept, it is fed together with the next tokens.
  model.forward(tokens, parents, 7);
  CHECK(cost([&] { model.keep(Numbers{0, 1, 3}); }) == Cost(0, 0));
  CHECK(cost([&] { model.forward(Tokens{3}, Numbers{-1}, 1); }).first == 1);
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("PathByPath: trees of a batch, fed one branch of each in a call, are what they are alone") {
  std::mt19937_64 rng{7};
  const auto large = TableModel<>::random(3, 2, rng), small = TableModel<>::random(3, 1, rng);
  const TreeShape shape = TreeShape::of_widths({2, 2, 1});
  Batch batch{
      PathByPath{ModelPerSequence{large}},
      ModelDrafter{PathByPath{Windowed{ModelPerSequence{small}, 1, 9, 3}}, Tree{shape, Independent{}}},
      TraversalVerifier{}, BatchOptions{.tokens_per_call = 40}};
  support::check_texts_alone(
      batch,
      [&] {
        return SpecDec{
            PathByPath{TableModel<>(large)},
            ModelDrafter{PathByPath{Windowed{TableModel<>(small), 1, 9, 3}}, Tree{shape, Independent{}}},
            TraversalVerifier{}};
      },
      8);
}
#endif

TEST_CASE("PathByPath: with many texts a call feeds one branch of each, and its part of a prompt at once") {
  std::mt19937_64 rng{8};
  struct Counted : ModelPerSequence<TableModel<>> {
    using ModelPerSequence::ModelPerSequence;
    auto forward(std::span<const BatchFeed> feeds) {
      sizes.push_back(feeds.size());
      return ModelPerSequence::forward(feeds);
    }
    std::vector<std::size_t> sizes;
  };
  const auto table = TableModel<>::random(3, 2, rng);
  Counted counted(table);
  PathByPath model{counted};
  const Tokens text{1, 2}, tree{0, 1, 2};
  const Numbers fork{-1, -1, -1}, line{-1, 0, 1};
  model.forward(std::vector<BatchFeed>{{{.tokens = text, .from = 0, .rows = 0}, 1},
                                       {{.tokens = text, .from = 0, .rows = 1}, 2}});
  const auto rows =
      model.forward(std::vector<BatchFeed>{{{.tokens = tree, .from = 2, .rows = 3, .parents = fork}, 1},
                                           {{.tokens = tree, .from = 2, .rows = 2, .parents = line}, 2}});
  CHECK(counted.sizes == std::vector<std::size_t>{2, 2, 1, 1});
  const Tokens ways[] = {{1, 2, 0}, {1, 2, 1}, {1, 2, 2}, {1, 2, 0, 1}, {1, 2, 0, 1, 2}};
  REQUIRE(rows.rows() == 5);
  for (Index i = 0; i < 5; ++i)
    for (Token x = 0; x < 3; ++x)
      CHECK(distributions(rows).row(i).probability(x) == table.distribution(ways[i]).probability(x));
  CHECK(message_of<InvalidCall>([&] {
          model.forward(std::vector<BatchFeed>{{{.tokens = text, .from = 2, .rows = 1}, 1}});
        }) == "specdec: feeds[0] has no parents while the tree of sequence 1 is open: keep() closes it");
  CHECK(message_of([&] {
          model.forward(std::vector<BatchFeed>{{{.tokens = text, .from = 1, .rows = 1}, 2}});
        }) == "specdec: feeds[0].from = 1, but the context of sequence 2 holds 2 tokens");
  model.release(1);
  CHECK(counted.size() == 1);
  model.forward(std::vector<BatchFeed>{{{.tokens = text, .from = 0, .rows = 1}, 1}});
}

TEST_CASE("PathByPath: bad calls are named in the error") {
  std::mt19937_64 rng{4};
  PathByPath model{TableModel<>::random(2, 1, rng)};
  model.forward(Tokens{0, 1, 1}, Numbers{-1, 0, 0}, 1);
  const auto complaint = [&](const Tokens& tokens, const Numbers& parents, Index rows) {
    return message_of([&] { model.forward(tokens, parents, rows); });
  };
  CHECK(complaint({0, 1}, {0, 0}, 3) == "specdec: rows = 3 is outside 1..2, the number of tokens");
  CHECK(complaint({0, 1}, {0, 0}, 0) == "specdec: rows = 0 is outside 1..2, the number of tokens");
  CHECK(complaint({0, 2}, {0, 0}, 1) == "specdec: tokens[1] = 2 is outside the vocabulary 0..1");
  CHECK(complaint({0}, {3}, 1) ==
        "specdec: parents[0] = 3 is outside -1..2: a token follows the context or a token before it");
  CHECK(message_of([&] { model.keep(Numbers{1}); }) == "specdec: path[0] = 1 follows 0, not -1");
  CHECK(message_of([&] { model.keep(Numbers{0, 1, 2}); }) == "specdec: path[2] = 2 follows 0, not 1");
  CHECK(message_of([&] { model.keep(Numbers{0, 3}); }) == "specdec: path[1] = 3 is outside 1..2");
  CHECK(message_of<InvalidCall>([&] { model.forward(Tokens{0}, 1); }) ==
        "specdec: feeds[0] has no parents while the tree of sequence 0 is open: keep() closes it");
  model.keep(Numbers{0, 1});
  // The last context token has not been fed yet, as nobody asked for its row. It is fed with this one, but its row
  // does not count.
  CHECK(message_of([&] { model.forward(Tokens{0}, 2); }) ==
        "specdec: rows = 2 is outside 1..1, the number of tokens");
}

TEMPLATE_LIST_TEST_CASE("PathByPath: rows of a wrong shape are named in the error, and only this call fails",
                        "", Forms) {
  struct Misshapen {
    TableModel<> table;
    Index more_rows = 0, more_columns = 0;
    TableModel<>::Rows output = {};
    Index vocab_size() const { return table.vocab_size(); }
    const TableModel<>::Rows& forward(std::span<const Token> tokens, Index rows) {
      output = table.forward(tokens, rows);
      output.conservativeResize(rows + more_rows, vocab_size() + more_columns);
      return output;
    }
    void truncate(Index length) { table.truncate(length); }
  };
  std::mt19937_64 rng{5};
  Misshapen misshapen{TableModel<>::random(3, 1, rng)};
  auto model = TestType::by_path(misshapen);
  model.forward(Tokens{1}, 1);
  const auto complaint = [&](Index more_rows, Index more_columns) {
    misshapen.more_rows = more_rows;
    misshapen.more_columns = more_columns;
    const std::string said = message_of([&] { model.forward(Tokens{0, 1}, Numbers{-1, 0}, 2); });
    if (!said.empty()) CHECK(message_of([&] { model.forward(Tokens{0, 1}, 2); }) == said);
    return said;
  };
  CHECK(complaint(1, 0) ==
        "specdec: the model returned 3 rows over 3 tokens, expected 2 rows over its vocabulary of 3");
  CHECK(complaint(0, -1) ==
        "specdec: the model returned 2 rows over 2 tokens, expected 2 rows over its vocabulary of 3");
  CHECK(complaint(-2, 0) ==
        "specdec: the model returned 0 rows over 0 tokens, expected 2 rows over its vocabulary of 3");
  CHECK(misshapen.table.context().size() == 1);
  CHECK(complaint(0, 0).empty());
}

TEMPLATE_LIST_TEST_CASE(
    "PathByPath: a row that cannot be copied is named in the error, and only this call fails", "", Forms) {
  struct Disordered {
    std::vector<Token> ids{1, 0}, context;
    std::vector<double> p{0.5, 0.5};
    std::vector<SparseRow<double>> rows;
    Index vocab_size() const { return 2; }
    RowSpan<SparseRow<double>> forward(std::span<const Token> tokens, Index wanted) {
      context.insert(context.end(), tokens.begin(), tokens.end());
      rows.assign(static_cast<std::size_t>(wanted), {ids, p, 2});
      return {rows, 2};
    }
    void truncate(Index length) { context.resize(static_cast<std::size_t>(length)); }
  };
  Disordered disordered;
  auto model = TestType::by_path(disordered);
  CHECK(message_of<InvalidDistribution>([&] {
          model.forward(Tokens{1, 1}, 2);
        }) == "specdec: model row 0: the ids of a sparse row do not ascend: ids[1] = 0, after ids[0] = 1");
  CHECK(disordered.context.empty());
  disordered.ids = {0, 1};
  CHECK(model.forward(Tokens{1}, 1).rows() == 1);
  CHECK(disordered.context == Tokens{1});
}

TEMPLATE_LIST_TEST_CASE("PathByPath: a new wrapper can start a used model with an empty context", "", Forms) {
  auto table = TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5));
  table.forward(Tokens{1, 0}, 1);
  auto model = TestType::by_path(table);
  model.truncate(0);
  CHECK(table.context().empty());
}

TEST_CASE("PathByPath: reports what the model reports of itself") {
  struct Bounded : TableModel<> {
    using TableModel<>::TableModel;
    Index context_size() const { return 7; }
  };
  Bounded bounded{TableModel<>::Rows::Constant(1, 2, 0.5), 0};
  const PathByPath model{bounded};
  CHECK(model.vocab_size() == 2);
  CHECK(model.context_size() == 7);
  CHECK(model.identities() == std::vector<const void*>{&bounded});
  const PathByPath own{TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5))};
  CHECK(own.identities().empty());
  CHECK(own.context_size() == unlimited);
}

TEST_CASE("walking a tree visits every path to a wanted row, and no other path") {
  const Numbers parents{-1, 0, -1, 1, 2, 1, -1};
  const auto ends = [&](Index wanted) {
    Numbers visited;
    specdec::detail::DepthFirst walk;
    walk(specdec::TokenTreeView(parents), wanted, [&](Index end) { visited.push_back(end); });
    return visited;
  };
  CHECK(ends(7) == Numbers{3, 5, 4, 6});
  CHECK(ends(3) == Numbers{5, 4, 6});
  CHECK(ends(1) == Numbers{6});
}

}  // namespace test_model_path_by_path

// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_testing_table_model {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;

static_assert(Model<TableModel<float>>);
static_assert(Model<TableModel<double>>);
static_assert(takes_trees<TableModel<float>>);
static_assert(takes_trees<TableModel<double>>);

TEST_CASE("a table is indexed by the last tokens") {
  TableModel<>::Rows table(9, 2);  // V = 2, order 2: digit 0 means no token, 1 means token 0, 2 means token 1
  for (Index i = 0; i < 9; ++i) table.row(i) << static_cast<double>(i) / 16, 1 - static_cast<double>(i) / 16;
  TableModel<> model(table, 2);
  const auto row_of = [&](std::vector<Token> context) {
    return model.distribution(context).probability(0) * 16;
  };
  CHECK(row_of({}) == 0);
  CHECK(row_of({0}) == 1);
  CHECK(row_of({1}) == 2);
  CHECK(row_of({0, 0}) == 4);
  CHECK(row_of({0, 1}) == 5);
  CHECK(row_of({1, 0}) == 7);
  CHECK(row_of({1, 1, 1, 0, 1}) == 5);
}

TEST_CASE("several rows in one call equal the rows one at a time, also after a rollback") {
  std::mt19937_64 rng{1};
  auto model = TableModel<float>::random(4, 3, rng);
  const std::vector<Token> tokens{3, 1, 0, 2, 2};
  const TableModel<float>::Rows all = model.forward(tokens, 5);
  for (Index i = 0; i < 5; ++i)
    for (Token x = 0; x < 4; ++x)
      CHECK(static_cast<double>(all(i, x)) ==
            model.distribution(std::span(tokens).first(static_cast<std::size_t>(i) + 1)).probability(x));
  model.truncate(2);
  const TableModel<float>::Rows again = model.forward(std::span(tokens).subspan(2), 3);
  CHECK(again == all.bottomRows(3));
  model.truncate(100);
  CHECK(model.context().size() == 5);
}

TEST_CASE("random tables have rows exact in float, with zeros, that depend on the context") {
  std::mt19937_64 rng{2};
  Index zeros = 0, entries = 0, different = 0;
  for (int n = 0; n < 20; ++n) {
    const auto model = TableModel<float>::random(4, 1, rng);
    for (Token last = 0; last < 4; ++last) {
      const std::vector<Token> context{last}, other{(last + 1) % 4};
      double sum = 0;
      for (Token x = 0; x < 4; ++x) {
        const double p = model.distribution(context).probability(x);
        sum += p;
        zeros += p == 0;
        ++entries;
        different += p != model.distribution(other).probability(x);
      }
      CHECK(sum == 1);
    }
  }
  CHECK(zeros > entries / 8);
  CHECK(zeros < entries / 2);
  CHECK(different > entries / 2);
}

// Tokens 0..2 follow the context, then comes a fork, and a fork deeper down:
//   0 ─ 1 ─ 3 ─ 4
//   │   └── 5
//   2 ─ 6
struct Fork {
  std::vector<Token> tokens{1, 3, 2, 0, 3, 2, 0};
  std::vector<Index> parents{-1, 0, -1, 1, 3, 1, 2};

  std::vector<Token> behind(std::span<const Token> context, Index node) const {
    std::vector<Token> way;
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)])
      way.insert(way.begin(), tokens[static_cast<std::size_t>(node)]);
    way.insert(way.begin(), context.begin(), context.end());
    return way;
  }
};

TEST_CASE("a row of a tree depends on the context and on the path to its token, however the tree grows") {
  const Fork fork;
  for (const Index order : {0, 1, 2, 3, 5})
    for (const std::size_t first : {1u, 3u, 7u})
      for (const std::vector<Token>& context : std::vector<std::vector<Token>>{{}, {2}, {3, 1, 0, 2}}) {
        std::mt19937_64 rng{4};
        auto model = TableModel<float>::random(4, order, rng);
        if (!context.empty()) model.forward(context, 1);
        const auto check = [&](std::size_t from, std::size_t count, Index rows) {
          const auto& output = model.forward(std::span(fork.tokens).subspan(from, count),
                                             std::span(fork.parents).subspan(from, count), rows);
          CHECK(output.rows() == rows);
          for (Index i = 0; i < rows; ++i) {
            const auto way = fork.behind(context, static_cast<Index>(from + count) - rows + i);
            for (Token x = 0; x < 4; ++x)
              CHECK(static_cast<double>(output(i, x)) == model.distribution(way).probability(x));
          }
        };
        check(0, first, static_cast<Index>(first));
        if (first < 7) check(first, 7 - first, static_cast<Index>(7 - first) / 2 + 1);
        CHECK(std::vector<Token>(model.context().begin(), model.context().end()) == context);
      }
}

TEST_CASE("the kept path of a tree becomes context, and the next tree starts after it") {
  const Fork fork;
  std::mt19937_64 rng{5};
  auto model = TableModel<>::random(4, 2, rng);
  const auto context = [&] { return std::vector<Token>(model.context().begin(), model.context().end()); };
  const std::vector<Token> more{1};
  model.forward(std::vector<Token>{2, 0}, 1);

  model.forward(fork.tokens, fork.parents, 1);
  model.keep(std::vector<Index>{0, 1, 5});
  CHECK(context() == std::vector<Token>{2, 0, 1, 3, 2});
  model.forward(more, 1);  // allowed although a tree was open
  CHECK(context() == std::vector<Token>{2, 0, 1, 3, 2, 1});

  model.forward(std::span(fork.tokens).first(2), std::vector<Index>{-1, -1}, 2);
  model.keep(std::vector<Index>{1});
  CHECK(context() == std::vector<Token>{2, 0, 1, 3, 2, 1, 3});

  model.forward(fork.tokens, fork.parents, 7);
  model.keep({});
  CHECK(context() == std::vector<Token>{2, 0, 1, 3, 2, 1, 3});

  for (const Index length : {100, 7, 3}) {
    model.forward(fork.tokens, fork.parents, 7);
    model.truncate(length);
    CHECK(std::ssize(context()) == std::min<Index>(length, 7));
    model.forward(more, 1);
    model.truncate(length);
  }
  CHECK(context() == std::vector<Token>{2, 0, 1});
}

TEST_CASE("bad calls on a tree are named in the error, and leave context and tree as they were") {
  std::mt19937_64 rng{6};
  auto model = TableModel<>::random(2, 1, rng);
  using Tokens = std::vector<Token>;
  using Numbers = std::vector<Index>;
  model.forward(Tokens{1}, 1);
  model.forward(Tokens{0, 1, 1}, Numbers{-1, 0, 0}, 1);
  const auto complaint = [&](const Tokens& tokens, const Numbers& parents, Index rows) {
    return message_of([&] { model.forward(tokens, parents, rows); });
  };
  CHECK(complaint({0, 1}, {0, 0}, 3) == "specdec: rows = 3 is outside 1..2, the number of tokens");
  CHECK(complaint({0, 1}, {0, 0}, 0) == "specdec: rows = 0 is outside 1..2, the number of tokens");
  CHECK(complaint({}, {}, 1) == "specdec: rows = 1 is outside 1..0, the number of tokens");
  CHECK(complaint({0, 2}, {0, 0}, 1) == "specdec: tokens[1] = 2 is outside the vocabulary 0..1");
  CHECK(complaint({0, 1}, {0}, 1) == "specdec: parents has 1 numbers, expected one for each of 2 tokens");
  CHECK(complaint({0, 1}, {2, 4}, 1) ==
        "specdec: parents[1] = 4 is outside -1..3: a token follows the context or a token before it");
  CHECK(complaint({0}, {-2}, 1) ==
        "specdec: parents[0] = -2 is outside -1..2: a token follows the context or a token before it");
  CHECK(message_of([&] { model.keep(Numbers{0, 3}); }) == "specdec: path[1] = 3 is outside 1..2");
  CHECK(message_of([&] { model.keep(Numbers{1}); }) == "specdec: path[0] = 1 follows 0, not -1");
  CHECK(message_of<InvalidCall>([&] { model.forward(Tokens{0}, 1); }) ==
        "specdec: forward(tokens, rows) while a tree is open: keep(path) or truncate(length) closes it");
  CHECK(model.context().size() == 1);
  CHECK(complaint({0}, {3}, 1) ==  // exactly three tokens are still in the tree
        "specdec: parents[0] = 3 is outside -1..2: a token follows the context or a token before it");
  model.keep(Numbers{0, 2});
  CHECK(std::vector<Token>(model.context().begin(), model.context().end()) == Tokens{1, 0, 1});
}

TEST_CASE("bad tables and calls are named in the error") {
  CHECK(message_of([] { TableModel<>(Eigen::MatrixXd::Zero(3, 2), 2); }) ==
        "specdec: table has 3 rows, expected (V+1)^order = 9");
  std::mt19937_64 rng{3};
  auto model = TableModel<>::random(2, 1, rng);
  const std::vector<Token> tokens{0, 1}, bad{0, 2};
  CHECK(message_of([&] { model.forward(tokens, 3); }) ==
        "specdec: rows = 3 is outside 1..2, the number of tokens");
  CHECK(message_of([&] { model.forward(tokens, 0); }) ==
        "specdec: rows = 0 is outside 1..2, the number of tokens");
  CHECK(message_of([&] { model.forward(bad, 1); }) ==
        "specdec: tokens[1] = 2 is outside the vocabulary 0..1");
  CHECK(model.context().empty());
}

TEST_CASE("invalid tables are named in the error") {
  constexpr Index least = std::numeric_limits<Index>::min();
  const auto complaint = [](Index vocab_size, Index order) {
    SplitMix64 generator;
    return message_of([&] { TableModel<>::random(vocab_size, order, generator); });
  };
  CHECK(complaint(2, 0).empty());
  CHECK(complaint(0, 1) == "specdec: vocab_size = 0 is not positive");
  CHECK(complaint(least, 1) == "specdec: vocab_size = -9223372036854775808 is not positive");
  CHECK(complaint(2, -1) == "specdec: order = -1 is negative");
  CHECK(
      complaint(2, unlimited) ==
      "specdec: vocab_size = 2 and order = 9223372036854775807 make a table of more than 2147483647 entries");
  CHECK(
      complaint(unlimited, 2) ==
      "specdec: vocab_size = 9223372036854775807 and order = 2 make a table of more than 2147483647 entries");
  const TableModel<>::Rows row = TableModel<>::Rows::Constant(1, 2, 0.5);
  CHECK(message_of([&] { TableModel<>(row, -1); }) == "specdec: order = -1 is negative");
  CHECK(message_of([] { TableModel<>(TableModel<>::Rows(), 0); }) ==
        "specdec: vocab_size = 0 is not positive");
}

TEST_CASE("contexts that cannot be looked up are named; a negative length empties the context") {
  std::mt19937_64 rng{8};
  auto model = TableModel<>::random(2, 1, rng);
  CHECK(message_of([&] {
          model.distribution(std::vector<Token>{0, 70000});
        }) == "specdec: context[1] = 70000 is outside the vocabulary 0..1");
  CHECK(message_of([&] {
          model.distribution(std::vector<Token>{0, -1});
        }) == "specdec: context[1] = -1 is outside the vocabulary 0..1");
  model.forward(std::vector<Token>{0, 1}, 1);
  model.truncate(-1);
  CHECK(model.context().empty());
}

// What a temporary shows would not outlive it.
template <class M>
concept ShowsWhatIsGone = requires(M&& m, std::span<const Token> x) { std::forward<M>(m).distribution(x); } ||
                          requires(M&& m) { std::forward<M>(m).context(); } ||
                          requires(M&& m, std::span<const Token> x) { std::forward<M>(m).forward(x, 1); } ||
                          requires(M&& m, std::span<const Token> x, std::span<const Index> parents) {
                            std::forward<M>(m).forward(x, parents, 1);
                          };
static_assert(ShowsWhatIsGone<const TableModel<>&> && !ShowsWhatIsGone<TableModel<>>);

}  // namespace test_testing_table_model

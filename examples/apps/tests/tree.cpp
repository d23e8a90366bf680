// Trees of tokens in the transformer: every row equals, to the bit, the row of a line of the tokens on its path.
// SPDX-License-Identifier: MIT
#include "transformer/tree.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "small_transformer.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "trained_pair.hpp"
#include "transformer/self_draft.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_tree {

using Eigen::Index;
using support::message_of;
using transformer::EarlyExit, transformer::Sublayers;
using transformer::Shape;
using transformer::Token;
using transformer::Transformer;
using transformer::Tree;
using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

static_assert(specdec::Model<Transformer<float>> && specdec::takes_trees<Transformer<float>>);
static_assert(specdec::Model<Transformer<Eigen::half>> && specdec::takes_trees<Transformer<Eigen::half>>);
static_assert(specdec::takes_trees<specdec::ProcessedModel<Transformer<float>&, specdec::Chain<>>>);

namespace {

// Heads that fill panels and heads that do not; one key head for all query heads, for some, and for each.
const std::vector<Shape> shapes{
    {32, 48, 2, 2, 2, 40, 80, true},   {12, 20, 3, 2, 1, 37, 80, false}, {96, 70, 2, 6, 2, 50, 80, true},
    {40, 33, 1, 4, 4, 129, 80, false}, {8, 5, 2, 1, 1, 3, 80, true},
};

template <class Scalar = float>
Transformer<Scalar> transformer_of(const Shape& shape, unsigned seed) {
  const support::TemporaryFile file(support::RandomModel(shape, seed).versioned<float>());
  return Transformer<Scalar>(file.path());
}

// A model with an open tree, and a model that is fed lines.
template <class Scalar>
class Beside {
 public:
  explicit Beside(const Transformer<Scalar>& fresh, std::uint64_t seed = 0)
      : model(fresh), line_(fresh), rng_(seed) {}

  Index below(Index n) { return static_cast<Index>(rng_() % static_cast<std::uint64_t>(n)); }
  Tokens tokens(Index count) {
    Tokens x(static_cast<std::size_t>(count));
    for (Token& t : x) t = static_cast<Token>(below(model.vocab_size()));
    return x;
  }
  // Parents for `count` more tokens: any earlier tokens, but mostly some of the last `near`.
  Numbers parents(Index count, Index near) {
    Numbers result;
    for (Index k = std::ssize(tree_); std::ssize(result) < count; ++k)
      result.push_back(below(4) == 0 ? below(k + 1) - 1 : k - 1 - below(std::min(near, k + 1)));
    return result;
  }
  Index room() const { return model.context_size() - std::ssize(context) - std::ssize(tree_); }

  void feed(const Tokens& x) {
    const RowMajor rows = model.forward(x, std::ssize(x));
    context.insert(context.end(), x.begin(), x.end());
    CHECK(rows == linear(context, std::ssize(x)));
  }

  void grow(const Tokens& x, const Numbers& parents, Index rows) {
    const RowMajor got = model.forward(x, parents, rows);
    tree_.insert(tree_.end(), x.begin(), x.end());
    parents_.insert(parents_.end(), parents.begin(), parents.end());
    RowMajor expected(rows, model.vocab_size());
    for (Index i = 0; i < rows; ++i) expected.row(i) = linear(behind(std::ssize(tree_) - rows + i), 1);
    CHECK(got == expected);
    CHECK(model.length() == std::ssize(context));
  }

  Numbers any_path() {
    Numbers path;
    for (Index node = below(std::ssize(tree_) + 1) - 1; node >= 0;
         node = parents_[static_cast<std::size_t>(node)])
      path.insert(path.begin(), node);
    return path;
  }

  void keep(const Numbers& path) {
    model.keep(path);
    for (const Index node : path) context.push_back(tree_[static_cast<std::size_t>(node)]);
    forget();
  }

  void truncate(Index length) {
    model.truncate(length);
    context.resize(std::min(context.size(), static_cast<std::size_t>(length)));
    forget();
  }

  RowMajor linear(const Tokens& way, Index rows) {
    line_.truncate(0);
    return line_.forward(way, rows);
  }

  Transformer<Scalar> model;
  Tokens context;

 private:
  Tokens behind(Index node) const {
    Tokens way;
    for (; node >= 0; node = parents_[static_cast<std::size_t>(node)])
      way.insert(way.begin(), tree_[static_cast<std::size_t>(node)]);
    way.insert(way.begin(), context.begin(), context.end());
    return way;
  }
  void forget() {
    tree_.clear();
    parents_.clear();
    CHECK(model.length() == std::ssize(context));
  }

  Transformer<Scalar> line_;
  std::mt19937_64 rng_;
  Tokens tree_;
  Numbers parents_;
};

}  // namespace

TEMPLATE_TEST_CASE("a tree's rows are those of lines, to the bit, in calls of any size", "[long]", float,
                   Eigen::half) {
  for (const Shape& shape : shapes) {
    INFO(shape);
    const auto fresh = transformer_of<TestType>(shape, 10);
    for (const Index before : {0, 3, 15, 16, 17, 40}) {
      Beside<TestType> tested(fresh, static_cast<std::uint64_t>(before));
      if (before > 0) tested.feed(tested.tokens(before));
      for (const Index count : {1, 7, 16, 40}) {  // 40: attention takes 16 at a time
        const Tokens x = tested.tokens(count);
        tested.grow(x, tested.parents(count, 3), count);
        tested.truncate(before);
        tested.grow(x, Numbers(x.size(), -1), (count + 1) / 2);
        tested.truncate(before);
        Numbers line;
        for (Index k = 0; k < count; ++k) line.push_back(k - 1);
        tested.grow(x, line, count);
        tested.truncate(before);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a tree's rows of the trained models are those of lines", "[long]", float, Eigen::half) {
  for (const char* const name : {"target.bin", "draft.bin"}) {
    Beside<TestType> tested(Transformer<TestType>(support::trained_weights + name), 15);
    tested.feed(tested.tokens(21));
    tested.grow(tested.tokens(12), tested.parents(12, 4), 12);
    tested.grow(tested.tokens(8), tested.parents(8, 6), 8);
    tested.keep(tested.any_path());
    tested.grow(tested.tokens(5), tested.parents(5, 3), 5);
  }
}

TEMPLATE_TEST_CASE("trees grow call by call, and what is kept of them is a context", "", float, Eigen::half) {
  for (const Shape& shape : shapes) {
    INFO(shape);
    const auto fresh = transformer_of<TestType>(shape, 20);
    for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(support::bound(6)); ++seed) {
      Beside<TestType> tested(fresh, seed);
      for (int round = 0; round < 12; ++round) {
        if (tested.below(2) == 0 && tested.room() >= 5) tested.feed(tested.tokens(1 + tested.below(5)));
        for (Index calls = tested.below(4); calls > 0 && tested.room() > 0; --calls) {
          const Index count = 1 + tested.below(std::min<Index>(tested.room(), 9));
          tested.grow(tested.tokens(count), tested.parents(count, 4), 1 + tested.below(count));
        }
        if (tested.below(4) > 0) tested.keep(tested.any_path());
        else tested.truncate(tested.below(std::ssize(tested.context) + 2));
        if (tested.room() < 10) tested.truncate(tested.below(60));
      }
      tested.truncate(40);
      tested.feed(tested.tokens(20));
    }
  }
}

TEST_CASE("a tree goes on where a look ahead stopped, as far as it is that line") {
  for (const Shape& shape : shapes)
    for (Index layers = 1; layers <= shape.n_layers; ++layers) {
      INFO(shape << ", " << layers << " layers");
      Beside<float> tested(transformer_of(shape, 30), 31);
      tested.feed(tested.tokens(18));
      const Tokens x = tested.tokens(6);
      for (const Numbers& parents : std::vector<Numbers>{
               {-1, 0, 1, 2, 3, 4}, {-1, 0, 1, 1, 3, 4}, {-1, -1, 1, 0, 3, 1}, {-1, 0, 1, 2, 0, 4}}) {
        tested.model.peek(std::span(x).first(4), 1, Sublayers::first(layers));
        tested.grow(x, parents, 6);
        tested.keep({});
        tested.model.peek(x, 1, Sublayers::first(layers));
        tested.grow(Tokens(x.begin(), x.begin() + 3), Numbers(parents.begin(), parents.begin() + 3), 3);
        tested.grow(x, parents, 2);  // the tokens of the peek, at other places
        tested.keep({});
        tested.model.peek(x, 1, Sublayers::first(layers).without(0));  // nothing to go on from
        tested.grow(x, parents, 6);
        tested.keep({});
      }
    }
}

TEST_CASE("the states of a tree's rows are those of lines") {
  const auto fresh = transformer_of(shapes[2], 40);
  auto tree = fresh, line = fresh;
  const Tokens x{1, 2, 3, 4};
  tree.forward(x, Numbers{-1, 0, 0, 2}, 2);
  line.forward(Tokens{1, 3, 4}, 2);
  CHECK(tree.features() == line.features());
}

TEST_CASE("copies have a tree each") {
  auto first = transformer_of(shapes[0], 50);
  first.forward(Tokens{1, 2, 3}, Numbers{-1, 0, 0}, 1);
  auto second = first;
  second.keep(Numbers{0, 2});
  CHECK(second.length() == 2);
  CHECK(first.length() == 0);
  const RowMajor rows = second.forward(Tokens{7}, 1);
  CHECK(rows == first.forward(Tokens{7}, Numbers{2}, 1));
}

TEST_CASE("bad calls on a tree are named, and change nothing") {
  Beside<float> tested(transformer_of(shapes[0], 60), 61);
  auto& model = tested.model;
  tested.feed(tested.tokens(70));
  tested.grow({1, 2, 3, 4, 5, 6}, {-1, 0, 0, 2, 1, 3}, 6);
  const auto complaint = [&](const Tokens& tokens, const Numbers& parents, Index rows) {
    return message_of([&] { model.forward(tokens, parents, rows); });
  };
  CHECK(complaint({1}, {0}, 2) == "transformer: rows = 2 is outside 1..1, the number of tokens");
  CHECK(complaint({1, 40}, {0, 0}, 2) == "transformer: tokens[1] = 40 is outside the vocabulary 0..39");
  CHECK(complaint({1, 2}, {0}, 2) == "transformer: parents has 1 numbers, expected one for each of 2 tokens");
  CHECK(complaint({1, 2}, {6, 0}, 2) ==
        "transformer: parents[0] = 6 is outside -1..5: a token follows the context or a token before it");
  CHECK(complaint({1, 2}, {0, -2}, 2) ==
        "transformer: parents[1] = -2 is outside -1..6: a token follows the context or a token before it");
  CHECK(message_of<std::length_error>([&] { model.forward(Tokens(5, 1), Numbers(5, -1), 1); }) ==
        "transformer: 5 tokens after 76 do not fit in the context of 80");
  const char* const open = "transformer: a tree is open: keep() or truncate() closes it";
  CHECK(message_of<std::logic_error>([&] { model.forward(Tokens{1}, 1); }) == open);
  CHECK(message_of<std::logic_error>([&] { model.peek(Tokens{1}, 1, Sublayers::first(1)); }) == open);
  for (const Numbers& path : std::vector<Numbers>{{1}, {0, 3}, {0, 6}, {0, 2, 2}, {-1}})
    CHECK_THROWS_AS(model.keep(path), std::invalid_argument);
  CHECK(message_of([&] {
          model.keep(Numbers{0, 3});
        }) == "transformer: path[1] = 3 is no token of the tree that follows 0");
  tested.grow({7, 8, 9, 10}, {4, 6, 5, 8}, 4);
  tested.keep({0, 2, 3, 5, 8, 9});
  tested.feed({1, 2});
}

TEST_CASE("an early exit drafts again once the tree is closed") {
  const auto fresh = transformer_of(shapes[0], 70);
  auto target = fresh, line = fresh;
  EarlyExit<float> exit(target, 1), expected(line, 1);
  exit.forward(Tokens{1, 2}, 1);
  target.forward(Tokens{1, 2}, 1);
  target.forward(Tokens{3, 4, 5}, Numbers{-1, -1, 1}, 1);
  CHECK_THROWS_AS(exit.forward(Tokens{4}, 1), std::logic_error);
  target.keep(Numbers{1, 2});
  line.forward(Tokens{1, 2, 4, 5}, 1);
  expected.forward(Tokens{1, 2, 4, 5, 6}, 1);
  const RowMajor rows = exit.forward(Tokens{4, 5, 6}, 1);
  CHECK(rows == line.peek(Tokens{6}, 1, Sublayers::first(1)));
}

TEST_CASE("Tree: depths of what follows what") {
  Tree tree;
  CHECK(tree.empty());
  for (const Index parent : {-1, 0, 0, -1, 2}) tree.add(parent);
  CHECK(tree.size() == 5);
  for (const auto& [token, depth] :
       std::vector<std::pair<Index, Index>>{{0, 0}, {1, 1}, {2, 1}, {3, 0}, {4, 2}})
    CHECK(tree.depth(token) == depth);
  tree.check_path(Numbers{0, 2, 4});
  tree.clear();
  CHECK(tree.empty());
}

}  // namespace test_examples_tree

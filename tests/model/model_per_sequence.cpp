// A model for each sequence. A failing call leaves all of them as before, whichever model's rows were wrong.
// SPDX-License-Identifier: MIT
#include "specdec/model/model_per_sequence.hpp"

#include <algorithm>
#include <iterator>
#include <random>
#include <span>
#include <specdec/model/model.hpp>
#include <specdec/rows/kinds/dense.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_model_model_per_sequence {

using namespace specdec;

namespace {

// Returns a row too few after token 2, throws at token 3, and has a token too many after token 0. Its rows tell the
// length of its context.
class Moody {
 public:
  static Index vocab_size() { return 4; }
  const support::RowMajor<double>& forward(std::span<const Token> tokens, Index rows) {
    if (tokens.back() == 3) throw std::runtime_error("the model failed");
    length_ += std::ssize(tokens);
    rows_.setConstant(tokens.back() == 2 ? rows - 1 : rows, tokens.back() == 0 ? 5 : 4,
                      static_cast<double>(length_));
    return rows_;
  }
  void truncate(Index length) { length_ = std::min(length, length_); }

 private:
  Index length_ = 0;
  support::RowMajor<double> rows_;
};

// Contexts are copied only where the model says that a copy has its context.
static_assert(!can_fork<ModelPerSequence<Moody>>);
static_assert(can_fork<ModelPerSequence<specdec::testing::TableModel<>>>);

}  // namespace

TEST_CASE("after a failing call each sequence's model has the context that it had before") {
  ModelPerSequence<Moody> models{Moody{}};
  const auto feed = [](Index sequence, std::span<const Token> tokens, Index from) {
    return BatchFeed{{.tokens = tokens, .from = from, .rows = 1}, sequence};
  };
  const std::vector<Token> good{1, 1}, short_of_rows{1, 2}, throws{3}, wide{0};
  models.forward(std::vector{feed(0, good, 0), feed(1, good, 0)});
  CHECK_THROWS_AS(models.forward(std::vector{feed(0, good, 2), feed(1, short_of_rows, 2)}),
                  std::invalid_argument);
  CHECK_THROWS_AS(models.forward(std::vector{feed(0, good, 2), feed(1, throws, 2)}), std::runtime_error);
  CHECK_THROWS_AS(models.forward(std::vector{feed(0, good, 2), feed(1, wide, 2)}), std::invalid_argument);
  const auto rows = models.forward(std::vector{feed(0, good, 2), feed(1, good, 2)});
  CHECK(rows.row(0)[0] == 4);  // the length of the context after the call
  CHECK(rows.row(1)[0] == 4);
}

TEST_CASE("a feed that does not fit the context of its sequence is named, and no model is called") {
  std::mt19937_64 rng{1};
  ModelPerSequence models{specdec::testing::TableModel<>::random(3, 1, rng)};
  const std::vector<Token> tokens{1, 2};
  const std::vector<Index> fork{-1, -1};
  const auto call = [&](Index from, Index rows, std::span<const Index> parents = {}) {
    return support::message_of<std::logic_error>([&] {
      models.forward(
          std::vector<BatchFeed>{{{.tokens = tokens, .from = 0, .rows = 1}, 7},
                                 {{.tokens = tokens, .from = from, .rows = rows, .parents = parents}, 8}});
      models.keep(7, Index{0});
    });
  };
  CHECK(call(1, 1) == "specdec: feeds[1].from = 1, but the context of sequence 8 holds 0 tokens");
  CHECK(call(0, 3) == "specdec: feeds[1].rows = 3 is outside 0..2, the number of its tokens");
  CHECK(models.size() == 0);
  CHECK(call(0, 0).empty());
  CHECK(call(2, 2, fork).empty());
  CHECK(call(2, 1) ==
        "specdec: feeds[1] has no parents while the tree of sequence 8 is open: keep() closes it");
  models.fork(8, 9);  // without the tree
  models.forward(std::vector<BatchFeed>{{{.tokens = tokens, .from = 2, .rows = 1}, 9}});
  models.keep(8, std::vector<Index>{1});
  CHECK(call(2, 1) == "specdec: feeds[1].from = 2, but the context of sequence 8 holds 3 tokens");
  CHECK(call(3, 2, fork).empty());
  models.keep(8, Index{5});  // closes the tree
  CHECK(call(3, 1).empty());
  models.keep(8, Index{1});
  CHECK(call(1, 1).empty());
}

TEST_CASE("sequences begin with an empty context, also of a model that was used before") {
  Moody used;
  used.forward(std::vector<Token>{1, 1, 1}, 1);
  ModelPerSequence<Moody> models{used};
  const std::vector<Token> tokens{1, 1};
  const BatchFeed feed{{.tokens = tokens, .from = 0, .rows = 1}, 0};
  CHECK(models.forward(std::span(&feed, 1)).row(0)[0] == 2);
}

TEST_CASE("a decoder leaves no context in a model for many texts that others use after it") {
  std::mt19937_64 rng{5};
  ModelPerSequence target{testing::TableModel<>::random(5, 2, rng)};
  {
    SpecDec decoder{target, NoDrafter{}, BlockVerifier{}};
    decoder.generate(std::vector<Token>{1, 4}, {.max_new_tokens = 5}, rng);
    CHECK(target.size() == 1);
  }
  CHECK(target.size() == 0);
}

TEST_CASE("A model for many texts is the target of a decoder of one text: lines and trees") {
  using Table = testing::TableModel<>;
  std::mt19937_64 table_rng{5};
  const auto table = Table::random(5, 2, table_rng), small = Table::random(5, 1, table_rng);
  const auto text = [](auto target, auto drafter, auto verifier) {
    SpecDec decoder{std::move(target), std::move(drafter), verifier};
    const std::vector<Token> prompt{1, 4};
    std::mt19937_64 rng{3};
    std::vector<Token> both;
    for (int n = 0; n < 2; ++n)
      for (const Token x : decoder.generate(prompt, {.max_new_tokens = 20, .gamma = 4}, rng).tokens)
        both.push_back(x);
    return both;
  };
  const auto line = [&] { return ModelDrafter{Table(small)}; };
  const auto tree = [&] {
    return ModelDrafter{Table(small), Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}};
  };
  CHECK(text(ModelPerSequence{table}, line(), BlockVerifier{}) == text(table, line(), BlockVerifier{}));
  CHECK(text(ModelPerSequence{table}, tree(), TraversalVerifier{}) ==
        text(table, tree(), TraversalVerifier{}));
  CHECK(text(PathByPath{ModelPerSequence{table}}, tree(), TraversalVerifier{}) ==
        text(table, tree(), TraversalVerifier{}));
}

}  // namespace test_model_model_per_sequence

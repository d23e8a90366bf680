// A text's twin has a copy of its context through every wrapper of a model that can copy one, and a context that was filled
// elsewhere is known to every wrapper that can know it. Both are counted in tokens that the model inside is fed.
// SPDX-License-Identifier: MIT
#include "specdec/model/fed_texts.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/more/models/reread.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include "specdec/more/models/windowed.hpp"
#include "specdec/more/samplers/penalties.hpp"

#include "support/bookkeeper.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_model_fed_texts {

namespace {

using specdec::Batch;
using specdec::BatchFeed;
using specdec::Chain;
using specdec::CommonTokens;
using specdec::Finished;
using specdec::Index;
using specdec::ModelDrafter;
using specdec::Options;
using specdec::PathByPath;
using specdec::ProcessedModel;
using specdec::Reread;
using specdec::Temperature;
using specdec::Token;
using specdec::TokenMap;
using specdec::Windowed;
using support::Bookkeeper;
using support::message_of;
using support::models_of;
using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;

// Gives a new sequence a copy of a context, if it does not refuse to.
struct Copying : Bookkeeper {
  using Bookkeeper::Bookkeeper;

  bool refuses = false;

  Index reach() const { return 6; }
  void fork(Index from, Index to) {
    if (refuses) throw Failure();
    REQUIRE_FALSE(contexts.contains(to));
    contexts[to] = contexts.at(from);
  }
};
static_assert(specdec::can_fork<Copying> && !specdec::can_fork<Bookkeeper>);
static_assert(!specdec::can_fork<Windowed<Bookkeeper>> && !specdec::can_fork<PathByPath<Bookkeeper>>);

// Nothing but what it is called with decides what it does.
struct Penalty {
  void operator()(std::span<const Token> context, Eigen::Ref<Eigen::RowVectorXd> logits) const {
    logits[context.back()] -= .5;
    logits[context.front()] -= static_cast<double>(context.size()) / 64;
  }
};

// A row depends on three tokens.
specdec::testing::TableModel<> table() {
  std::mt19937_64 rng(1);
  return specdec::testing::TableModel<>::random(4, 3, rng);
}

Tokens text_of(Index count, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  Tokens tokens(static_cast<std::size_t>(count));
  for (Token& x : tokens) x = static_cast<Token>(rng() % 4);
  return tokens;
}

Eigen::VectorXd numbers_of(const auto& rows, Index i) {
  const auto row = specdec::distributions(rows).row(i);
  return Eigen::VectorXd::NullaryExpr(
      row.vocab_size(), [&](Index x) { return double(row.probability(static_cast<Token>(x))); });
}

// The row after a text, which is fed as a whole and forgotten.
Eigen::VectorXd row_after(auto& model, const Tokens& text) {
  const BatchFeed feed{{.tokens = text, .from = 0, .rows = 1}, 99};
  const Eigen::VectorXd row = numbers_of(model.forward(std::span(&feed, 1)), 0);
  model.release(99);
  return row;
}

// Three texts, of which `text` stays as number 1. A call whose second feed does not fit takes nothing from any of them.
void check_bad_feed(auto& model, const Tokens& text) {
  Tokens texts[] = {text, {3, 0, 2}, {1, 1}};
  const Tokens more{2, 3};
  const auto call = [&](Index wrong) {
    std::vector<BatchFeed> feeds;
    for (Index i = 0; i < 3; ++i)
      feeds.push_back(
          {{.tokens = more, .from = std::ssize(texts[i]) - (i == wrong ? 1 : 0), .rows = 1}, i + 1});
    return model.forward(feeds);
  };
  std::vector<BatchFeed> prompts;
  for (Index i = 0; i < 3; ++i) prompts.push_back({{.tokens = texts[i], .from = 0, .rows = 1}, i + 1});
  model.forward(prompts);
  CHECK(message_of([&] { call(1); }) ==
        "specdec: feeds[1].from = 2, but the context of sequence 2 holds 3 tokens");
  const auto& rows = call(-1);
  std::vector<Eigen::VectorXd> kept;
  for (Index i = 0; i < 3; ++i) kept.push_back(numbers_of(rows, i));
  for (Index i = 0; i < 3; ++i) {
    texts[i].insert(texts[i].end(), more.begin(), more.end());
    CHECK(kept[static_cast<std::size_t>(i)] == row_after(model, texts[i]));
  }
  model.release(2);
  model.release(3);
}

// Forks a text, with a tree open after it or after some rollbacks, and lets both go on, each in its own way.
template <class M>
void check_twin(M model, Copying& inside) {
  inside.contexts.clear();
  const Tokens text = text_of(14, 1), tree{1, 2, 3, 0};
  const Numbers parents{-1, -1, 0, 2};
  const auto feed = [](Index sequence, const Tokens& tokens, Index from, Index rows) {
    return BatchFeed{{.tokens = tokens, .from = from, .rows = rows}, sequence};
  };
  check_bad_feed(model, text);
  model.keep(1, Index{12});
  Tokens left(text.begin(), text.begin() + 12), right = left;
  if constexpr (specdec::takes_trees<M>)
    model.forward(std::vector<BatchFeed>{{{.tokens = tree, .from = 12, .rows = 4, .parents = parents}, 1}});

  inside.refuses = true;
  CHECK_THROWS_AS(model.fork(1, 2), Bookkeeper::Failure);
  inside.refuses = false;
  model.fork(1, 2);
  CHECK(message_of([&] { model.fork(1, 2); }) == "specdec: to = 2: this sequence has a context already");
  model.fork(7, 3);  // an unknown number has nothing to copy
  CHECK_FALSE(inside.contexts.contains(3));
  if constexpr (specdec::takes_trees<M>) {  // which the twin has not
    model.keep(1, Numbers{0, 2});
    left.insert(left.end(), {1, 3});
  }

  const Tokens one{2, 0}, other{3};
  const Index before = inside.fed;
  const auto rows =
      model.forward(std::vector{feed(1, one, std::ssize(left), 1), feed(2, other, std::ssize(right), 1)});
  // Path by path, another branch than the kept one may have been fed last: then its two tokens are fed again.
  CHECK(inside.fed <= before + 3 + 2);
  const Eigen::VectorXd of_left = numbers_of(rows, 0), of_right = numbers_of(rows, 1);
  left.insert(left.end(), one.begin(), one.end());
  right.insert(right.end(), other.begin(), other.end());
  CHECK(of_left == row_after(model, left));
  CHECK(of_right == row_after(model, right));

  // Each is cut back and released for itself.
  model.keep(2, Index{10});
  right.resize(10);
  right.push_back(1);
  const Tokens last{1};
  CHECK(numbers_of(model.forward(std::vector{feed(2, last, 10, 1)}), 0) == row_after(model, right));
  model.release(1);
  right.push_back(1);
  CHECK(numbers_of(model.forward(std::vector{feed(2, last, 11, 1)}), 0) == row_after(model, right));
  model.release(2);
  CHECK(inside.contexts.empty());
}

}  // namespace

TEST_CASE("a twin's context is a copy, through every wrapper, and after a throw there is none") {
  Copying inside(table());
  const Chain chain{Temperature{.8}};
#ifndef SPECDEC_TEST_SOME
  const auto processor = [](Index) { return specdec::RepetitionPenalty{1.3}; };
  const TokenMap same(Tokens{0, 1, 2, 3}, 4);
  check_twin(ProcessedModel{Reread{inside}, chain}, inside);
  check_twin(ProcessedModel{Reread{inside}, chain, Penalty{}}, inside);
  check_twin(ProcessedModel{Reread{inside}, chain, processor}, inside);
  check_twin(Windowed{Reread{inside}, 2, 20, 5}, inside);
  check_twin(Windowed{Reread{inside}, 2, 9, 5}, inside);
  check_twin(PathByPath{Windowed{Reread{inside}, 2, 20, 5}}, inside);
  check_twin(CommonTokens{Reread{inside}, same}, inside);
#endif
  check_twin(Reread{inside}, inside);
  check_twin(PathByPath{Reread{inside}}, inside);
  check_twin(ProcessedModel{PathByPath{Windowed{Reread{inside}, 2, 20, 5}}, chain, Penalty{}}, inside);
}

TEST_CASE("a twin of a text whose model is copied has a copy without the open tree") {
  specdec::ModelPerSequence model{table()};
  const Tokens text = text_of(9, 2), tree{3, 0};
  const Numbers parents{-1, -1};
  model.forward(std::vector<BatchFeed>{{{.tokens = text, .from = 0, .rows = 1}, 1}});
  model.forward(std::vector<BatchFeed>{{{.tokens = tree, .from = 9, .rows = 1, .parents = parents}, 1}});
  model.fork(1, 2);
  model.fork(7, 3);
  CHECK(model.size() == 2);
  Tokens longer = text;
  longer.push_back(2);
  const BatchFeed feed{{.tokens = std::span(longer).last(1), .from = 9, .rows = 1}, 2};
  CHECK(numbers_of(model.forward(std::span(&feed, 1)), 0) == row_after(model, longer));
}

namespace {

const Options options{.max_new_tokens = 24, .gamma = 3};
const Chain warm{Temperature{.8}};
specdec::RepetitionPenalty penalty() { return specdec::RepetitionPenalty{1.3}; }

Tokens alone(const Tokens& prompt, std::uint64_t seed) {
  specdec::SpecDec decoder{ProcessedModel{table(), warm, penalty()}, ModelDrafter{models_of(3).small}};
  std::mt19937_64 rng(seed);
  return decoder.generate(prompt, options, rng).tokens;
}

}  // namespace

TEST_CASE("samples of one prompt read it once, through wrappers around wrappers") {
  const Tokens prompt = text_of(300, 3);
  Copying inside(table());
  Bookkeeper small(models_of(3).small);
  Batch batch{ProcessedModel{PathByPath{Reread{inside}}, warm, [](Index) { return penalty(); }},
              ModelDrafter{small}};
  const Index first = batch.add(prompt, options, std::mt19937_64{0});
  for (std::uint64_t seed = 1; seed < 4; ++seed) batch.fork(first, std::mt19937_64{seed});
  for (const Finished& done : batch.run())
    CHECK(done.result.tokens == alone(prompt, static_cast<std::uint64_t>(done.sequence)));
  CHECK(inside.fed < 300 + 4 * 24 * 4);  // at the worst, each step of a text feeds four tokens and emits one
  CHECK(inside.contexts.empty());
}

TEST_CASE("a prefix that is cached for a text of a batch is not fed through the wrappers, which know it") {
  const Tokens prompt = text_of(300, 4);
  for (const bool fails : {false, true}) {
    Bookkeeper inside(table()), small(models_of(3).small);
    int failures = fails ? 1 : 0;
    const auto processor = [&](Index) {
      if (failures-- > 0) throw std::runtime_error("a function of the text's number");
      return penalty();
    };
    Batch batch{ProcessedModel{PathByPath{inside}, warm, processor}, ModelDrafter{small}};
    // More than is said to be cached.
    inside.forward(std::vector<BatchFeed>{{{.tokens = std::span(prompt).first(280), .rows = 0}, 5}});
    batch.add(
        {.prompt = prompt, .options = options, .source = std::mt19937_64{7}, .cached = 270, .number = 5});
    inside.fed = 0;
    const auto done = batch.run();
    REQUIRE(done.size() == 1);
    CHECK(done[0].result.tokens == alone(prompt, 7));
    if (fails) CHECK(inside.fed > 300);  // read anew
    else CHECK(inside.fed < 30 + 24 * 4);
  }
}

}  // namespace test_model_fed_texts

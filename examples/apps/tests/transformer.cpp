// The transformer: compared with the papers' formulae in double, and with itself, to the bit, for any split of its tokens
// into calls.
// SPDX-License-Identifier: MIT
#include "transformer/transformer.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "small_transformer.hpp"
#include "support/catch.hpp"
#include "transformer/deepened.hpp"
#include "transformer/weights.hpp"

namespace test_examples_transformer {

using Eigen::Index;
using support::RandomModel;
using support::TemporaryFile;
using transformer::Shape;
using transformer::Token;
using transformer::Transformer;
using Tokens = std::vector<Token>;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

static_assert(specdec::Model<Transformer<float>>);
static_assert(specdec::Model<Transformer<Eigen::half>>);
static_assert(std::copyable<Transformer<float>>);
static_assert(std::is_same_v<Token, specdec::Token>);
using Target = decltype(specdec::ProcessedModel{std::declval<Transformer<float>&>(),
                                                specdec::Chain{specdec::Temperature{0.8}}});
static_assert(specdec::Model<Target>);

namespace {

// Heads that fill panels and heads that do not; one key head for all query heads, for some, and for each.
const std::vector<Shape> shapes{
    {32, 48, 2, 2, 2, 40, 64, true},   {12, 20, 3, 2, 1, 37, 64, false}, {96, 70, 2, 6, 2, 50, 64, true},
    {40, 33, 1, 4, 4, 129, 64, false}, {8, 5, 2, 1, 1, 3, 64, true},
};

Tokens random_tokens(std::size_t size, Index vocab_size, unsigned seed) {
  std::mt19937 rng{seed};
  Tokens tokens(size);
  for (Token& x : tokens) x = static_cast<Token>(rng() % static_cast<unsigned>(vocab_size));
  return tokens;
}

template <class Scalar = float>
Transformer<Scalar> transformer_of(const RandomModel& model) {
  const TemporaryFile file(model.versioned<float>());
  return Transformer<Scalar>(file.path());
}

// The logits of all tokens, fed in calls of the given sizes in turn.
template <class Model>
RowMajor fed(Model& model, const Tokens& tokens, const std::vector<std::size_t>& sizes) {
  RowMajor all(static_cast<Index>(tokens.size()), model.vocab_size());
  std::size_t done = 0;
  for (std::size_t i = 0; done < tokens.size(); ++i) {
    const std::size_t size = std::min(sizes[i % sizes.size()], tokens.size() - done);
    const auto rows = static_cast<Index>(size);
    all.middleRows(static_cast<Index>(done), rows) =
        model.forward(std::span<const Token>(tokens).subspan(done, size), rows);
    done += size;
  }
  return all;
}

double largest(const Eigen::ArrayXXd& numbers) { return numbers.abs().maxCoeff(); }

double largest_difference(const RowMajor& a, const Eigen::MatrixXd& b) {
  return largest(a.cast<double>() - b);
}

}  // namespace

TEST_CASE("Transformer: the logits of the formulae") {
  for (const Shape& shape : shapes) {
    INFO(shape);
    const RandomModel model(shape, 10, false);
    const Tokens tokens = random_tokens(50, shape.vocab_size, 11);
    auto tested = transformer_of(model);
    CHECK(largest_difference(fed(tested, tokens, {50}), model.logits(tokens)) <= 1e-4);
    CHECK(tested.length() == 50);
  }
}

TEMPLATE_TEST_CASE("Transformer: the same bits however the tokens are cut into calls", "", float,
                   Eigen::half) {
  for (const Shape& shape : shapes) {
    INFO(shape);
    const RandomModel model(shape, 20);
    const Tokens tokens = random_tokens(64, shape.vocab_size, 21);
    auto tested = transformer_of<TestType>(model);
    const RowMajor one_at_a_time = fed(tested, tokens, {1});
    for (const std::vector<std::size_t>& sizes : std::vector<std::vector<std::size_t>>{
             {64}, {40, 1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {13}, {16}, {17}, {1, 9, 4, 17}}) {
      tested.truncate(0);
      CHECK(fed(tested, tokens, sizes) == one_at_a_time);
    }
    for (const Index rows : {1, 3, 17}) {  // only the last rows, and the calls after them
      tested.truncate(0);
      CHECK(tested.forward(std::span(tokens).first(40), rows) == one_at_a_time.middleRows(40 - rows, rows));
      CHECK(fed(tested, Tokens(tokens.begin() + 40, tokens.end()), {5}) == one_at_a_time.bottomRows(24));
    }
  }
}

TEST_CASE("Transformer: what is rolled back leaves no trace") {
  for (const Shape& shape : shapes) {
    INFO(shape);
    const RandomModel model(shape, 30);
    const Tokens tokens = random_tokens(40, shape.vocab_size, 31),
                 others = random_tokens(20, shape.vocab_size, 32);
    auto fresh = transformer_of(model);
    const RowMajor expected = fed(fresh, tokens, {40});
    for (const Index kept : {0, 1, 15, 16, 17, 30}) {
      auto tested = transformer_of(model);
      tested.forward(std::span(tokens).first(static_cast<std::size_t>(kept) + 5), 1);
      tested.truncate(kept + 2);
      tested.forward(others, 20);
      tested.truncate(kept);
      CHECK(tested.length() == kept);
      const Tokens rest(tokens.begin() + kept, tokens.end());
      CHECK(fed(tested, rest, {9}) == expected.bottomRows(40 - kept));
    }
  }
}

TEST_CASE("Transformer: truncate keeps what is there, no more and no less than nothing") {
  const RandomModel model(shapes[0], 40);
  auto tested = transformer_of(model);
  tested.forward(Tokens{1, 2, 3}, 1);
  tested.truncate(5);
  CHECK(tested.length() == 3);
  tested.truncate(3);
  CHECK(tested.length() == 3);
  tested.truncate(-2);
  CHECK(tested.length() == 0);
}

TEST_CASE("Transformer: formats give the same model") {
  const RandomModel model(shapes[2], 50);  // its weights are halves
  const Tokens tokens = random_tokens(20, model.shape.vocab_size, 51);
  auto expected = transformer_of(model);
  const RowMajor rows = fed(expected, tokens, {20});
  for (const std::string& bytes :
       {model.legacy(), model.versioned<float>(), model.versioned<Eigen::half>()}) {
    const TemporaryFile file(bytes);
    Transformer<float> floats(file.path());
    Transformer<Eigen::half> halves(file.path());
    CHECK(fed(floats, tokens, {20}) == rows);
    CHECK(fed(halves, tokens, {20}) == rows);
  }
}

TEST_CASE("Transformer: halves are the floats up to rounding") {
  const RandomModel model(shapes[2], 60, false);
  const Tokens tokens = random_tokens(20, model.shape.vocab_size, 61);
  auto floats = transformer_of(model);
  auto halves = transformer_of<Eigen::half>(model);
  const RowMajor rows = fed(floats, tokens, {20});
  const double difference = largest_difference(fed(halves, tokens, {20}), rows.cast<double>());
  CHECK(difference > 0);
  CHECK(difference < 0.02 * rows.cwiseAbs().maxCoeff());
}

TEST_CASE("Transformer: copies share weights and have a context each") {
  const RandomModel model(shapes[1], 70);
  const Tokens tokens = random_tokens(12, model.shape.vocab_size, 71);
  auto first = transformer_of(model);
  const RowMajor expected = fed(first, tokens, {12});
  first.truncate(6);
  auto second = first;
  second.forward(Tokens{0, 1, 2}, 1);
  CHECK(second.length() == 9);
  CHECK(first.length() == 6);
  CHECK(fed(first, Tokens(tokens.begin() + 6, tokens.end()), {6}) == expected.bottomRows(6));
}

TEST_CASE("Transformer: a full context, and arguments that are wrong, change nothing") {
  const RandomModel model(shapes[0], 80);
  const Tokens tokens = random_tokens(64, model.shape.vocab_size, 81);
  auto tested = transformer_of(model);
  CHECK(tested.context_size() == 64);
  const RowMajor expected = fed(tested, tokens, {64});
  tested.truncate(60);
  CHECK(support::message_of<std::length_error>([&] {
          tested.forward(Tokens{1, 2, 3, 4, 5}, 1);
        }) == "transformer: 5 tokens after 60 do not fit in the context of 64");
  CHECK(support::message_of<std::invalid_argument>([&] {
          tested.forward(Tokens{1, 40}, 1);
        }) == "transformer: tokens[1] = 40 is outside the vocabulary 0..39");
  CHECK(support::message_of<std::invalid_argument>([&] {
          tested.forward(Tokens{-1, 1}, 1);
        }) == "transformer: tokens[0] = -1 is outside the vocabulary 0..39");
  CHECK(support::message_of<std::invalid_argument>([&] {
          tested.forward(Tokens{1, 2}, 0);
        }) == "transformer: rows = 0 is outside 1..2, the number of tokens");
  CHECK(support::message_of<std::invalid_argument>([&] {
          tested.forward(Tokens{1, 2}, 3);
        }) == "transformer: rows = 3 is outside 1..2, the number of tokens");
  CHECK(support::message_of<std::invalid_argument>([&] { tested.forward(Tokens{}, 1); }) ==
        "transformer: rows = 1 is outside 1..0, the number of tokens");
  CHECK(tested.length() == 60);
  CHECK(fed(tested, Tokens(tokens.begin() + 60, tokens.end()), {4}) == expected.bottomRows(4));
  CHECK_THROWS_AS(tested.forward(Tokens{1}, 1), std::length_error);
}

TEST_CASE("Shape: the number of parameters") {
  for (const Shape& shape : shapes) {
    INFO(shape);
    Index numbers = 0;
    for (const auto& [part, matrices] : RandomModel(shape, 100).parts)
      for (const auto& matrix : matrices) numbers += matrix.size();
    CHECK(shape.parameters() == numbers);
  }
}

TEMPLATE_TEST_CASE("deepened: the same logits, to the bit", "", float, Eigen::half) {
  using transformer::Weights;
  for (const Shape& shape : shapes) {
    INFO(shape);
    const TemporaryFile file(RandomModel(shape, 110).versioned<float>());
    const auto weights = Weights<TestType>::read(file.path());
    const Tokens tokens = random_tokens(40, shape.vocab_size, 111);
    Transformer<TestType> own(file.path());
    const RowMajor expected = fed(own, tokens, {40});
    for (const Index layers : {shape.n_layers, shape.n_layers + 1, 3 * shape.n_layers + 1}) {
      Transformer<TestType> tested(
          std::make_shared<const Weights<TestType>>(transformer::deepened(weights, layers)));
      CHECK(tested.shape().n_layers == layers);
      const RowMajor logits = fed(tested, tokens, {9, 1, 4});
      CHECK(std::memcmp(logits.data(), expected.data(),
                        sizeof(float) * static_cast<std::size_t>(logits.size())) == 0);
    }
  }
}

TEST_CASE("deepened: what is added costs what the model's own layers cost, in turn") {
  const TemporaryFile file(RandomModel(shapes[1], 120).versioned<float>());
  const auto weights = transformer::Weights<float>::read(file.path());
  const auto deeper = transformer::deepened(weights, 8);
  REQUIRE(deeper.layers.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const auto &layer = deeper.layers[i], &own = weights.layers[i % 3];
    CHECK((layer.ffn_norm == own.ffn_norm).all());
    CHECK((layer.query_key_value.row(1) == own.query_key_value.row(1)).all());
    CHECK((layer.gate_up.row(2) == own.gate_up.row(2)).all());
    for (const auto& [matrix, copied] :
         {std::pair{&layer.output, &own.output}, std::pair{&layer.down, &own.down}}) {
      REQUIRE(matrix->rows() == copied->rows());
      REQUIRE(matrix->cols() == copied->cols());
      for (Index row = 0; row < matrix->rows(); ++row)
        CHECK((matrix->row(row) == copied->row(row) * (i < 3 ? 1.0f : 0.0f)).all());
    }
  }
}

TEST_CASE("deepened: no layer is taken away") {
  const transformer::Weights<float> weights(shapes[1]);
  CHECK(support::message_of<std::invalid_argument>([&] { transformer::deepened(weights, 2); }) ==
        "transformer: expected at least 3 layers, the model's own, found 2");
}

TEST_CASE("Transformer: drafts for a larger one without a trace in the output") {
  const RandomModel large({32, 48, 3, 4, 2, 40, 128, true}, 90), small({16, 24, 1, 2, 1, 40, 128, true}, 91);
  auto target = transformer_of(large), draft = transformer_of(small);
  const specdec::Chain greedy{specdec::Temperature{0}};
  specdec::ProcessedModel processed{target, greedy};
  std::mt19937_64 rng{92};
  const Tokens prompt = random_tokens(10, 40, 93);
  const specdec::Options options{.max_new_tokens = 80, .gamma = 5};
  const auto expected = specdec::autoregressive(processed, prompt, options, rng).tokens;
  CHECK(expected.size() == 80);
  for (Transformer<float>* drafter : {&draft, &target}) {
    Transformer<float> own = *drafter;
    specdec::SpecDec decoder{processed, specdec::ModelDrafter{specdec::ProcessedModel{own, greedy}},
                             specdec::BlockVerifier{}};
    const auto result = decoder.generate(prompt, options, rng);
    CHECK(result.tokens == expected);
    if (drafter == &target) CHECK(result.stats.accepted_fraction() == 1);
  }
}

}  // namespace test_examples_transformer

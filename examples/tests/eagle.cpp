// Drafting with an EAGLE layer on the target's hidden states. The oracles: the formulae in double, without a cache, and the
// target's own text.
#include "transformer/eagle.hpp"

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <specdec/model/eagle_model.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "heads.hpp"
#include "small_transformer.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/temporary_file.hpp"
#include "transformer/batch.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_eagle {

using namespace specdec;
using support::normed, support::random_state, support::random_tokens;
using support::RandomModel;
using support::refusal, support::with_word;
using support::TemporaryFile;
using transformer::Eagle;
using transformer::Part;
using transformer::Shape;
using transformer::Transformer, transformer::TransformerBatch;
using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;

static_assert(ShowsHiddenAt<Transformer<float>> && ShowsHiddenAt<TransformerBatch<float>>);
static_assert(DraftLayer<Eagle<float>> && DraftLayer<Eagle<Eigen::half>>);

namespace {

// Sizes that are no multiples of 16.
constexpr int vocab = 50, target_dim = 20, dim = 24, heads = 4, kv_heads = 2, hidden = 20, context = 40;

// An EAGLE layer with random weights, and the formulae of train/eagle.py.
struct RandomEagle : support::RandomHead {
  explicit RandomEagle(unsigned seed) : RandomHead(seed) {
    const Index features = 2 * target_dim;
    add("features_norm", 1, features, 1);
    add("features", dim, features);
    add("embedding", vocab, dim);
    add("embedding_norm", 1, dim, 1);
    add("state_norm", 1, dim, 1);
    add("join", dim, 2 * dim);
    add("attention_norm", 1, dim, 1);
    add("query", dim, dim);
    add("key", dim / heads * kv_heads, dim);
    add("value", dim / heads * kv_heads, dim);
    add("output", dim, dim);
    add("ffn_norm", 1, dim, 1);
    add("w1", hidden, dim);
    add("w2", dim, hidden);
    add("w3", hidden, dim);
    add("final_norm", 1, dim, 1);
  }

  std::string file() const {
    return RandomHead::file(
        {0x6C676165, 2, vocab, target_dim, dim, heads, kv_heads, hidden, context, 2, 2, 4});
  }

  Eigen::VectorXd begin(const Eigen::VectorXd& hidden_state) const {
    return part("features") * normed(hidden_state, part("features_norm"));
  }
  // What the layer returns after each token, one row for each, normed by RMS. Row i of `states` comes with tokens[i].
  Eigen::MatrixXd outputs(const Tokens& tokens, const Eigen::MatrixXd& states) const {
    RandomModel model({dim, hidden, 1, heads, kv_heads, std::ssize(tokens), context, false}, 1);
    Eigen::MatrixXd& inputs = model.parts[Part::embedding][0];
    Tokens numbers;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      Eigen::VectorXd both(2 * dim);
      both << normed(part("embedding").row(tokens[i]), part("embedding_norm")),
          normed(states.row(static_cast<Index>(i)), part("state_norm"));
      inputs.row(static_cast<Index>(i)) = part("join") * both;
      numbers.push_back(static_cast<Token>(i));
    }
    for (const auto& [name, of_model] : {std::pair{"attention_norm", Part::attention_norm},
                                         {"query", Part::query},
                                         {"key", Part::key},
                                         {"value", Part::value},
                                         {"output", Part::output},
                                         {"ffn_norm", Part::ffn_norm},
                                         {"w1", Part::w1},
                                         {"w2", Part::w2},
                                         {"w3", Part::w3}})
      model.parts[of_model][0] = part(name);
    model.parts[Part::final_norm][0].setOnes();
    model.parts[Part::classifier][0] = Eigen::MatrixXd::Identity(dim, dim);
    return model.logits(numbers);
  }
  // The logits after an output that is normed.
  Eigen::VectorXd logits(const Eigen::VectorXd& output) const {
    return part("embedding") * output.cwiseProduct(part("final_norm").transpose());
  }
};

template <class Scalar>
Eagle<Scalar> eagle_of(const RandomEagle& random) {
  const TemporaryFile file(random.file());
  return Eagle<Scalar>(file.path());
}

Eigen::VectorXd normed_by_ones(const Eigen::VectorXf& x) {
  return normed(x.cast<double>(), Eigen::MatrixXd::Ones(1, dim));
}

}  // namespace

TEST_CASE("hidden_at(): what the layers return for each token of the context") {
  const RandomModel random(Shape{40, 33, 4, 4, 2, vocab, 64, false}, 1);
  const TemporaryFile file(random.versioned<float>());
  Transformer<float> model(file.path());
  TransformerBatch<float> many(model.weights());
  model.show_hidden(Numbers{4, 2});
  many.show_hidden(Numbers{4, 2});
  std::mt19937 rng{2};
  const Tokens text = random_tokens(rng, 12, vocab);
  std::vector<Eigen::VectorXf> one_by_one;
  for (std::size_t i = 0; i < text.size(); ++i) {
    model.forward(std::span(text).subspan(i, 1), 1);
    one_by_one.push_back(model.hidden());
  }
  many.forward(std::vector{BatchFeed{{.tokens = text, .rows = 1}, 3}});
  for (std::size_t i = 0; i < text.size(); ++i) {
    CHECK(model.hidden_at(static_cast<Index>(i)) == one_by_one[i]);
    CHECK(many.hidden_at(3, static_cast<Index>(i)) == one_by_one[i]);
  }
}

TEST_CASE("an EAGLE layer computes the formulae, and no token depends on others of its call") {
  const RandomEagle random(3);
  Eagle<float> layer = eagle_of<float>(random);
  Eagle<Eigen::half> halves = eagle_of<Eigen::half>(random);
  CHECK(layer.vocab_size() == vocab);
  CHECK(layer.features_size() == 2 * target_dim);
  CHECK(layer.context_size() == context);
  CHECK((layer.layers()[0] == 2 && layer.layers()[1] == 4));
  std::mt19937 rng{4};
  for (int text = 0; text < 5; ++text) {
    layer.truncate(0);
    halves.truncate(0);
    const Tokens tokens = random_tokens(rng, 9, vocab);
    Eigen::MatrixXf states(dim, 9), next(dim, 9), next_of_halves(dim, 9), alone(dim, 1);
    for (Index i = 0; i < 9; ++i) {
      const Eigen::VectorXf state = random_state(rng, 2 * target_dim);
      layer.begin(state, states.col(i));
      CHECK(states.col(i).cast<double>().isApprox(random.begin(state.cast<double>()), 1e-4));
    }
    const Eigen::MatrixXd outputs = random.outputs(tokens, states.cast<double>().transpose());
    const Eigen::MatrixXf rows = layer.forward(states, tokens, next, 3);
    CHECK(halves.forward(states, tokens, next_of_halves, 3).isApprox(rows, 1e-3f));
    layer.truncate(0);
    for (Index i = 0; i < 9; ++i) {
      CHECK(normed_by_ones(next.col(i)).isApprox(outputs.row(i).transpose(), 1e-3));
      const Eigen::VectorXf row =
          layer.forward(states.col(i), std::span(tokens).subspan(static_cast<std::size_t>(i), 1), alone, 1)
              .row(0);
      CHECK(alone == next.col(i));
      CHECK(row.cast<double>().isApprox(random.logits(outputs.row(i)), 1e-3));
      if (i >= 6) CHECK(row == rows.row(i - 6).transpose());
    }
  }
  Eigen::VectorXf state(dim);
  CHECK(support::message_of<std::invalid_argument>([&] { layer.begin(Eigen::VectorXf::Zero(39), state); }) ==
        "EAGLE layer: the hidden state has 39 numbers, expected 40");
}

TEST_CASE("branches of a tree are what they are as lines, to the bit, and a path of it can be kept") {
  const RandomEagle random(3);
  Eagle<float> layer = eagle_of<float>(random), fresh = layer;
  std::mt19937 rng{5};
  const Eigen::MatrixXf states =
      Eigen::MatrixXf::NullaryExpr(dim, 8, [&] { return std::normal_distribution<float>{}(rng); });
  const Tokens tokens = random_tokens(rng, 8, vocab);
  Eigen::MatrixXf next(dim, 3);
  const auto part = [&](std::size_t from, std::size_t count) {
    return std::span(tokens).subspan(from, count);
  };
  layer.forward(states.leftCols(3), part(0, 3), next, 0);
  Eigen::MatrixXf rows(4, vocab), of_tree(dim, 4), alone(dim, 1);
  rows.topRows(2) =
      layer.forward(states.middleCols(3, 2), part(3, 2), Numbers{-1, -1}, of_tree.leftCols(2), 2);
  rows.bottomRows(2) =
      layer.forward(states.middleCols(5, 2), part(5, 2), Numbers{1, 0}, of_tree.rightCols(2), 2);
  fresh.forward(states.leftCols(3), part(0, 3), next, 0);
  for (const auto& [first, second] : {std::pair<Index, Index>{0, 3}, {1, 2}}) {  // the second one stays
    fresh.truncate(3);
    for (const Index node : {first, second}) {
      const Index i = 3 + node;
      const Eigen::MatrixXf row =
          fresh.forward(states.col(i), part(static_cast<std::size_t>(i), 1), alone, 1);
      CHECK(row.row(0) == rows.row(node));
      CHECK(alone == of_tree.col(node));
    }
  }
  CHECK_THROWS_AS(layer.forward(states.col(7), part(7, 1), alone, 1), std::logic_error);
  CHECK_THROWS_AS(layer.forward(states.col(7), part(7, 1), Numbers{4}, alone, 1), std::invalid_argument);
  layer.keep(Numbers{1, 2});
  CHECK(layer.forward(states.col(7), part(7, 1), next.leftCols(1), 1).row(0) ==
        fresh.forward(states.col(7), part(7, 1), next.rightCols(1), 1).row(0));
  next.resize(dim, 40);
  CHECK_THROWS_AS(layer.forward(Eigen::MatrixXf::Zero(dim, 40), Tokens(40), next, 1), std::length_error);
}

TEST_CASE("files that are no EAGLE layer") {
  const std::string file = RandomEagle(5).file();
  const auto read = [](const std::string& path) { Eagle<float>{path}; };
  support::check_refusals(file, "EAGLE layer", read);
  CHECK(refusal(with_word(file, 5, 5), read) == "dim = 24, heads = 5 and kv_heads = 2 make no layer");
  CHECK(refusal(with_word(file, 5, 8), read) == "dim = 24, heads = 8 and kv_heads = 2 make no layer");
  CHECK(refusal(with_word(file, 6, 3), read) == "dim = 24, heads = 4 and kv_heads = 3 make no layer");
  CHECK(refusal(with_word(file, 8, -1), read) == "context_size = -1 is outside 1..1048576");
  CHECK(refusal(with_word(file, 9, 55), read) == "the number of layers = 55 is outside 1..54");
  CHECK(refusal(with_word(file, 11, 0), read) == "a layer = 0 is outside 1..1048576");
}

namespace {

Eagle<float> shipped() { return Eagle<float>(support::trained_weights + "eagle.bin"); }

}  // namespace

TEST_CASE("with the shipped EAGLE layer the target writes its own text, in fewer calls") {
  const support::HeadCalls calls = support::check_text(shipped());
  CHECK(calls.lines < 40);
  CHECK(calls.trees < calls.lines);
}

TEST_CASE("sequences on one target take turns with one EAGLE layer, and each is the text of its prompt") {
  support::check_turns(shipped());
}

TEST_CASE("in a batch each text has its own context of the EAGLE layer, and is what it is alone") {
  support::check_batch(shipped());
}

TEST_CASE(
    "texts that an EAGLE layer drafts follow the target's law, and tokens are drawn from the rows it reports",
    "[law][sampled]") {
  support::check_law(shipped());
}

}  // namespace test_examples_eagle

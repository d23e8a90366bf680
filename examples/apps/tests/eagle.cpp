// Drafting with an EAGLE layer on the target's hidden states. The oracles: the formulae in double, without a cache, and the
// target's own text.
// SPDX-License-Identifier: MIT
#include "transformer/eagle.hpp"

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/more/lengths.hpp>
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
#include "transformer/eagle_batch.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_eagle {

using namespace specdec;
using support::normed, support::random_state, support::random_tokens;
using support::RandomModel;
using support::refusal, support::with_word;
using support::TemporaryFile;
using transformer::Eagle, transformer::EagleBatch;
using transformer::Part;
using transformer::Shape;
using transformer::Transformer, transformer::TransformerBatch;
using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;

static_assert(ShowsHiddenAt<Transformer<float>> && ShowsHiddenAt<TransformerBatch<float>>);
static_assert(DraftLayer<Eagle<float>> && DraftLayer<Eagle<Eigen::half>> &&
              BatchDraftLayer<EagleBatch<float>>);

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

TEST_CASE(
    "an EAGLE layer that drafts some of the tokens returns their logits, to the bit, and takes in all "
    "tokens") {
  const RandomEagle random(3);
  Eagle<float> layer = eagle_of<float>(random);
  const Tokens some{7, 49, 0, 21};
  Eagle<float> smaller(
      std::make_shared<const transformer::EagleWeights<float>>(layer.weights()->drafting(some)));
  CHECK(smaller.vocab_size() == 4);
  REQUIRE(smaller.token_map() != nullptr);
  CHECK(smaller.token_map()->to(1) == 49);
  CHECK(layer.token_map() == nullptr);
  const Tokens tokens{48, 3, 7, 1};
  const Eigen::MatrixXf states = Eigen::MatrixXf::Random(dim, 4);
  Eigen::MatrixXf next(dim, 4), next_of_smaller(dim, 4);
  const Eigen::MatrixXf rows = layer.forward(states, tokens, next, 3);
  CHECK(smaller.forward(states, tokens, next_of_smaller, 3) == rows(Eigen::all, some));
  CHECK(next == next_of_smaller);
  const auto says = [&](const Tokens& wrong) {
    return support::message_of<std::invalid_argument>([&] { layer.weights()->drafting(wrong); });
  };
  CHECK(says({1, 50}) == "specdec: targets[1] = 50 is outside the target's vocabulary 0..49");
  CHECK(says({1, 1}) ==
        "specdec: targets[0] and targets[1] are both 1: two draft tokens cannot stand for one");
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

namespace {

// An EAGLE layer for many texts, and one for each of them. They are fed random tokens with random states.
class Beside {
 public:
  // A feed in a call.
  struct Fed {
    Index sequence, count;
    Numbers parents;  // empty for a line
    Index rows;
  };

  EagleBatch<float>& batch() { return batch_; }

  // Whether all rows and states of a call equal those of the texts alone.
  bool feed(const std::vector<Fed>& all) {
    std::vector<BatchFeed> feeds;
    Index count = 0, first = 0, row = 0;
    for (const Fed& fed : all) count += fed.count;
    const Tokens tokens = random_tokens(rng_, static_cast<std::size_t>(count), vocab);
    const Eigen::MatrixXf states = random_state(rng_, dim * count).reshaped(dim, count);
    for (const Fed& fed : all) {
      feeds.push_back(
          {{part(tokens, first, fed.count), text(fed.sequence).length, fed.rows, fed.parents}, fed.sequence});
      first += fed.count;
    }
    Eigen::MatrixXf next(dim, count), next_alone(dim, count);
    const Eigen::MatrixXf rows = batch_.forward(states, feeds, next);
    bool equal = true;
    first = 0;
    for (const Fed& fed : all) {
      const Eigen::MatrixXf alone =
          feed_alone(fed, states.middleCols(first, fed.count), part(tokens, first, fed.count),
                     next_alone.middleCols(first, fed.count));
      equal = equal && rows.middleRows(row, fed.rows) == alone;
      first += fed.count;
      row += fed.rows;
    }
    return equal && row == rows.rows() && next == next_alone;
  }

  void keep(Index sequence, Index length) {
    batch_.keep(sequence, length);
    text(sequence).layer.truncate(length);
    text(sequence).length = length;
  }
  void keep(Index sequence, const Numbers& path) {
    batch_.keep(sequence, path);
    text(sequence).layer.keep(path);
    text(sequence).length += std::ssize(path);
  }
  void release(Index sequence) {
    batch_.release(sequence);
    texts_.erase(sequence);
  }

 private:
  struct Text {
    Eagle<float> layer;
    Index length = 0;
  };

  static std::span<const Token> part(const Tokens& tokens, Index first, Index count) {
    return std::span(tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  }
  Text& text(Index sequence) { return texts_.try_emplace(sequence, Text{layer_}).first->second; }
  Eigen::MatrixXf feed_alone(const Fed& fed, const Eigen::Ref<const Eigen::MatrixXf>& states,
                             std::span<const Token> tokens, Eigen::Ref<Eigen::MatrixXf> next) {
    Text& alone = text(fed.sequence);
    if (!fed.parents.empty()) return alone.layer.forward(states, tokens, fed.parents, next, fed.rows);
    alone.length += fed.count;
    return alone.layer.forward(states, tokens, next, fed.rows);
  }

  Eagle<float> layer_ = eagle_of<float>(RandomEagle(3));
  EagleBatch<float> batch_{layer_.weights()};
  std::map<Index, Text> texts_;
  std::mt19937 rng_{7};
};

}  // namespace

TEST_CASE("rows and states of an EAGLE layer for many texts are those of each text alone, to the bit") {
  Beside texts;
  CHECK(texts.feed({{3, 9, {}, 1}, {8, 2, {}, 2}, {5, 3, {}, 0}}));
  CHECK(texts.feed({{5, 2, {}, 1}, {8, 3, {-1, -1, 0}, 3}, {3, 1, {}, 1}}));
  CHECK(texts.feed({{8, 2, {1, 2}, 1}, {6, 1, {}, 1}, {3, 4, {-1, 0, -1, 2}, 0}}));
  texts.keep(8, Numbers{1, 3});
  texts.keep(3, 7);
  CHECK(texts.feed({{3, 2, {}, 2}, {8, 2, {}, 1}, {5, 2, {-1, -1}, 2}}));
  texts.release(8);
  texts.batch().keep(8, 1);
  texts.batch().keep(8, Numbers{0});
  texts.batch().release(8);
  CHECK(texts.feed({{5, 1, {1}, 1}, {8, 4, {}, 2}, {9, 1, {}, 1}}));
  CHECK(texts.feed({}));
}

TEST_CASE("an EAGLE layer for many texts refuses a call that does not fit, and is as before") {
  Beside texts;
  EagleBatch<float>& batch = texts.batch();
  REQUIRE(texts.feed({{1, 6, {}, 1}, {2, 1, {}, 0}}));
  REQUIRE(texts.feed({{1, 2, {-1, 0}, 2}}));  // a tree stays open
  const auto complaint = [&](const Tokens& tokens, Index from, Index rows, const Numbers& parents,
                             Index sequence) {
    return support::message_of<std::exception>([&] {
      const Index count = 1 + std::ssize(tokens);
      Eigen::MatrixXf states = Eigen::MatrixXf::Zero(dim, count), next(dim, count);
      const Tokens one{1};
      batch.forward(states, std::vector<BatchFeed>{{{one, 1}, 2}, {{tokens, from, rows, parents}, sequence}},
                    next);
    });
  };
  const std::string place = "transformer: EAGLE layer: feeds[1]: ";
  CHECK(complaint({4}, 5, 1, {0}, 1) == place + "from = 5, but sequence 1 has 6 tokens in its context");
  CHECK(complaint({4}, 1, 1, {}, 2) == place + "sequence 2 is in feeds[0], too");
  CHECK(complaint({4}, 0, 2, {}, 3) == place + "rows = 2 is outside 0..1, the number of tokens");
  CHECK(complaint({50}, 0, 1, {}, 3) == place + "tokens[0] = 50 is outside the vocabulary 0..49");
  CHECK(complaint({4}, 6, 1, {}, 1) == place + "a tree is open: keep() or truncate() closes it");
  CHECK(complaint({4, 5}, 6, 1, {0}, 1) ==
        place + "parents has 1 numbers, expected one for each of 2 tokens");
  CHECK(complaint(Tokens(33), 6, 1, Numbers(33, -1), 1) ==
        place + "33 tokens after 8 do not fit in the context of 40");
  CHECK_THROWS_AS(batch.keep(1, Numbers{1}), std::invalid_argument);
  Eigen::VectorXf state(dim);
  CHECK(support::message_of<std::invalid_argument>([&] { batch.begin(Eigen::VectorXf::Zero(41), state); }) ==
        "EAGLE layer: the hidden state has 41 numbers, expected 40");
  EagleBatch<float> copy = batch;
  copy.release(1);
  CHECK(texts.feed({{3, 2, {}, 2}, {1, 2, {0, 2}, 2}, {2, 1, {}, 1}}));
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

// Drafts the first 700 tokens.
Eagle<float> shipped_for_some() {
  Tokens some(700);
  std::iota(some.begin(), some.end(), 0);
  const Eagle<float> layer = shipped();
  return Eagle<float>(
      std::make_shared<const transformer::EagleWeights<float>>(layer.weights()->drafting(some)));
}

}  // namespace

TEST_CASE("with the shipped EAGLE layer the target writes its own text, in fewer calls") {
  const support::HeadCalls calls = support::check_text(shipped());
  CHECK(calls.lines < 40);
  CHECK(calls.trees < calls.lines);
}

TEST_CASE("so it does with a layer that drafts the first 700 tokens, in some more calls") {
  const Eagle<float> smaller = shipped_for_some();
  const support::HeadCalls calls = support::check_text(smaller);
  CHECK(calls.lines < 50);
  CHECK(calls.trees < calls.lines);
  support::check_batch(smaller, EagleBatch<float>(smaller.weights()));
}

TEST_CASE("sequences on one target take turns with one EAGLE layer, and each is the text of its prompt") {
  support::check_turns(shipped());
}

TEST_CASE("in a batch each text has its own context of the EAGLE layer, and is what it is alone") {
  const Eagle<float> layer = shipped();
  support::check_batch(layer, EagleBatch<float>(layer.weights()));
}

TEST_CASE(
    "texts that an EAGLE layer drafts follow the target's law, and tokens are drawn from the rows it reports",
    "[law][sampled]") {
  support::check_law(shipped());
  support::check_law(shipped_for_some());
}

}  // namespace test_examples_eagle

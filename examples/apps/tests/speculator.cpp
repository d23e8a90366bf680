// Drafting with a head on the target's hidden states. The oracles: a transformer that stops at a layer, the formulae in
// double, and the target's own text.
// SPDX-License-Identifier: MIT
#include "transformer/speculator.hpp"

#include <Eigen/Core>
#include <cstddef>
#include <iterator>
#include <random>
#include <span>
#include <specdec/more/heads/head_model.hpp>
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
#include "transformer/sublayers.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_speculator {

using namespace specdec;
using support::normed, support::silu, support::random_state, support::random_tokens;
using support::RandomModel;
using support::refusal, support::with_word;
using support::TemporaryFile;
using transformer::Shape;
using transformer::Speculator;
using transformer::Sublayers;
using transformer::Transformer;
using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;

static_assert(ShowsHidden<Transformer<float>> && Head<Speculator<float>> && Head<Speculator<Eigen::half>>);

namespace {

// Sizes that are no multiples of 16.
const Shape shape{40, 33, 4, 4, 2, 50, 64, false};

Transformer<float> transformer_of(const RandomModel& model) {
  const TemporaryFile file(model.versioned<float>());
  return Transformer<float>(file.path());
}

// A speculator with random weights, and the formulae of train/speculator.py.
struct RandomSpeculator : support::RandomHead {
  static constexpr int vocab = 50, target_dim = 40, dim = 24, hidden = 20, layers = 2;

  explicit RandomSpeculator(unsigned seed) : RandomHead(seed) {
    const Index features = target_dim * layers;
    add("features_norm", 1, features, 1);
    add("features", dim, features);
    add("embedding", vocab, dim);
    add("feed_forward_norm", 1, dim, 1);
    add("gate", hidden, dim);
    add("up", hidden, dim);
    add("down", dim, hidden);
    add("norm", 1, dim, 1);
    add("classifier", vocab, dim);
    add("state_norm", 1, dim, 1);
    add("state", dim, dim);
  }

  std::string file() const {
    return RandomHead::file({0x63657073, 2, vocab, target_dim, dim, hidden, layers, 2, 4});
  }

  Eigen::VectorXd begin(const Eigen::VectorXd& hidden_state) const {
    return part("features") * normed(hidden_state, part("features_norm"));
  }
  // Replaces the state by the next one and returns the logits after the token.
  Eigen::VectorXd step(Eigen::VectorXd& state, Token token) const {
    Eigen::VectorXd x = state + part("embedding").row(token).transpose();
    const Eigen::VectorXd y = normed(x, part("feed_forward_norm"));
    x += part("down") * silu(part("gate") * y).cwiseProduct(part("up") * y);
    state = part("state") * normed(x, part("state_norm"));
    return part("classifier") * normed(x, part("norm"));
  }
};

template <class Scalar>
Speculator<Scalar> speculator_of(const RandomSpeculator& random) {
  const TemporaryFile file(random.file());
  return Speculator<Scalar>(file.path());
}

}  // namespace

TEST_CASE(
    "hidden(): what the layers return for the last token, whatever calls, trees and rollbacks led to it") {
  const RandomModel random(shape, 1);
  Transformer<float> model = transformer_of(random), fresh = model;
  const Numbers layers{4, 1, 3};
  model.show_hidden(layers);
  std::mt19937 rng{2};
  Tokens context;
  for (int round = 0; round < 300; ++round) {
    const Tokens next = random_tokens(rng, 1 + rng() % 5, shape.vocab_size);
    const Sublayers whole = Sublayers::first(1 + static_cast<Index>(rng() % 4));
    if (rng() % 3 == 0) model.peek(next, 1, rng() % 2 == 0 ? whole : support::random_sublayers(rng, 4));
    if (rng() % 2 == 0) {
      model.forward(next, 1);
      context.insert(context.end(), next.begin(), next.end());
    } else {
      Numbers parents;
      for (std::size_t i = 0; i < next.size(); ++i)
        parents.push_back(static_cast<Index>(rng() % (i + 1)) - 1);
      model.forward(next, parents, 1);
      Numbers path;
      for (Index node = static_cast<Index>(rng() % next.size()); node >= 0;
           node = parents[static_cast<std::size_t>(node)])
        path.insert(path.begin(), node);
      model.keep(path);
      for (const Index node : path) context.push_back(next[static_cast<std::size_t>(node)]);
    }
    if (rng() % 3 == 0) context.resize(1 + rng() % context.size());
    if (context.size() > 50) context.resize(3);
    model.truncate(std::ssize(context));
    REQUIRE(model.length() == std::ssize(context));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      fresh.peek(context, 1, Sublayers::first(layers[i]));
      REQUIRE(model.hidden().segment(static_cast<Index>(i) * shape.dim, shape.dim) ==
              fresh.features().col(0));
    }
  }
  CHECK(support::message_of<std::logic_error>([&] {
          model.show_hidden(layers);
        }).ends_with("the context must be empty"));
  model.truncate(0);
  CHECK(support::message_of<std::invalid_argument>([&] {
          model.show_hidden(Numbers{1, 5});
        }) == "transformer: layers[1] = 5 is outside 1..4");
}

TEST_CASE("a speculator computes the formulae, and no token depends on others of its call") {
  const RandomSpeculator random(3);
  Speculator<float> speculator = speculator_of<float>(random);
  Speculator<Eigen::half> halves = speculator_of<Eigen::half>(random);
  CHECK(speculator.vocab_size() == 50);
  CHECK(speculator.features_size() == 80);
  CHECK((speculator.layers()[0] == 2 && speculator.layers()[1] == 4));
  std::mt19937 rng{4};
  for (int text = 0; text < 5; ++text) {
    const Eigen::VectorXf hidden = random_state(rng, 80);
    Eigen::VectorXd expected = random.begin(hidden.cast<double>());
    Eigen::MatrixXf states(24, 3), next(24, 3);
    for (Index i = 0; i < 3; ++i) speculator.begin(hidden, states.col(i));
    for (const Token token : random_tokens(rng, 6, shape.vocab_size)) {
      CHECK(states.col(1).cast<double>().isApprox(expected, 1e-4));
      const Eigen::VectorXd logits = random.step(expected, token);
      const Tokens tokens{7, token, 8};
      const Eigen::MatrixXf together = speculator.forward(states, tokens, next, 2);
      CHECK(together.row(0).transpose().cast<double>().isApprox(logits, 1e-4));
      Eigen::VectorXf alone(24);
      const Eigen::VectorXf row =
          speculator.forward(states.col(1), std::span(tokens).subspan(1, 1), alone, 1).row(0);
      CHECK(row == together.row(0).transpose());
      CHECK(alone == next.col(1));
      CHECK(halves.forward(states.col(1), std::span(tokens).subspan(1, 1), alone, 1)
                .row(0)
                .transpose()
                .cast<double>()
                .isApprox(logits, 1e-4));
      for (Index i = 0; i < 3; ++i) states.col(i) = next.col(1);
    }
  }
  Eigen::VectorXf state(24);
  CHECK(support::message_of<std::invalid_argument>([&] {
          speculator.begin(Eigen::VectorXf::Zero(79), state);
        }) == "speculator: the hidden state has 79 numbers, expected 80");
}

TEST_CASE("files that are no speculator") {
  const std::string file = RandomSpeculator(5).file();
  const auto read = [](const std::string& path) { Speculator<float>{path}; };
  support::check_refusals(file, "speculator", read);
  CHECK(refusal(with_word(file, 5, -3), read) == "hidden = -3 is outside 1..1048576");
  CHECK(refusal(with_word(file, 6, 58), read) == "the number of layers = 58 is outside 1..57");
  CHECK(refusal(with_word(file, 8, 0), read) == "a layer = 0 is outside 1..1048576");
}

namespace {

Speculator<float> shipped() { return Speculator<float>(support::trained_weights + "speculator.bin"); }

}  // namespace

TEST_CASE("with the shipped speculator the target writes its own text, in fewer calls") {
  const support::HeadCalls calls = support::check_text(shipped());
  CHECK(calls.lines < 40);
  CHECK(calls.trees < calls.lines);
}

TEST_CASE("sequences on one target take turns with one speculator, and each is the text of its prompt") {
  support::check_turns(shipped());
}

TEST_CASE("in a batch one speculator drafts for all texts, and each is what it is alone") {
  const auto head = shipped();
  support::check_batch(head, head);
}

TEST_CASE(
    "texts that a speculator drafts follow the target's law, and tokens are drawn from the rows it reports",
    "[law][sampled]") {
  support::check_law(shipped());
}

}  // namespace test_examples_speculator

// Drafting with a head on the target's hidden states. The oracles: a transformer that stops at a layer, the formulae in
// double, and the target's own text.
#include "transformer/speculator.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <specdec/model/head_model.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "generate/sampled.hpp"
#include "small_transformer.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/temporary_file.hpp"
#include "trained_pair.hpp"
#include "transformer/batch.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_speculator {

using namespace specdec;
using generate::sampled;
using support::RandomModel;
using support::TemporaryFile;
using transformer::Shape;
using transformer::Speculator;
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

Tokens random_tokens(std::mt19937& rng, std::size_t size) {
  Tokens tokens(size);
  for (Token& x : tokens) x = static_cast<Token>(rng() % static_cast<unsigned>(shape.vocab_size));
  return tokens;
}

// A speculator with random weights, and the formulae of train/speculator.py.
struct RandomSpeculator {
  Index vocab = 50, target_dim = 40, dim = 24, hidden = 20;
  std::vector<std::int32_t> layers{2, 4};
  std::map<std::string, Eigen::MatrixXd> parts = {};
  std::string numbers = {};

  explicit RandomSpeculator(unsigned seed) {
    std::mt19937 rng{seed};
    const auto features = target_dim * std::ssize(layers);
    const auto add = [&](const std::string& name, Index rows, Index cols, double mean = 0) {
      std::normal_distribution<double> normal{mean,
                                              rows == 1 ? 0.3 : 1.5 / std::sqrt(static_cast<double>(cols))};
      Eigen::MatrixXd matrix(rows, cols);
      for (Index i = 0; i < rows; ++i)
        for (Index j = 0; j < cols; ++j) {
          const Eigen::half number(static_cast<float>(normal(rng)));
          matrix(i, j) = static_cast<double>(static_cast<float>(number));
          numbers.append(reinterpret_cast<const char*>(&number), 2);
        }
      parts[name] = matrix;
    };
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

  std::string header() const {
    std::vector<std::int32_t> words{0x63657073,
                                    1,
                                    static_cast<std::int32_t>(vocab),
                                    static_cast<std::int32_t>(target_dim),
                                    static_cast<std::int32_t>(dim),
                                    static_cast<std::int32_t>(hidden),
                                    static_cast<std::int32_t>(layers.size())};
    words.insert(words.end(), layers.begin(), layers.end());
    words.resize(64);
    return {reinterpret_cast<const char*>(words.data()), 256};
  }
  std::string file() const { return header() + numbers; }

  Eigen::VectorXd normed(const std::string& name, const Eigen::VectorXd& x) const {
    return x.cwiseProduct(parts.at(name).row(0).transpose()) /
           std::sqrt(x.squaredNorm() / static_cast<double>(x.size()) + 1e-5);
  }
  Eigen::VectorXd begin(const Eigen::VectorXd& hidden_state) const {
    return parts.at("features") * normed("features_norm", hidden_state);
  }
  // Replaces the state by the next one and returns the logits after the token.
  Eigen::VectorXd step(Eigen::VectorXd& state, Token token) const {
    Eigen::VectorXd x = state + parts.at("embedding").row(token).transpose();
    const Eigen::VectorXd y = normed("feed_forward_norm", x);
    const Eigen::ArrayXd gate = parts.at("gate") * y, up = parts.at("up") * y;
    x += parts.at("down") * (gate / (1 + (-gate).exp()) * up).matrix();
    state = parts.at("state") * normed("state_norm", x);
    return parts.at("classifier") * normed("norm", x);
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
    const Tokens next = random_tokens(rng, 1 + rng() % 5);
    if (rng() % 3 == 0) model.peek(next, 1, 1 + static_cast<Index>(rng() % 4));
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
      fresh.peek(context, 1, layers[i]);
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
    const Eigen::VectorXf hidden =
        Eigen::VectorXf::NullaryExpr(80, [&] { return std::normal_distribution<float>{}(rng); });
    Eigen::VectorXd expected = random.begin(hidden.cast<double>());
    Eigen::MatrixXf states(24, 3), next(24, 3);
    for (Index i = 0; i < 3; ++i) speculator.begin(hidden, states.col(i));
    for (const Token token : random_tokens(rng, 6)) {
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
  const RandomSpeculator random(5);
  const auto says = [](const std::string& bytes) {
    const TemporaryFile file(bytes);
    const std::string message =
        support::message_of<std::runtime_error>([&] { Speculator<float>{file.path()}; });
    REQUIRE(message.starts_with(file.path() + ": "));
    return message.substr(file.path().size() + 2);
  };
  const std::string file = random.file();
  const auto with = [&](std::size_t word, std::int32_t value) {
    std::string changed = file;
    changed.replace(4 * word, 4, reinterpret_cast<const char*>(&value), 4);
    return changed;
  };
  CHECK(says("spec") == "is no speculator of version 1");
  CHECK(says(with(0, 5)) == "is no speculator of version 1");
  CHECK(says(with(1, 2)) == "is no speculator of version 1");
  CHECK(says(with(2, 0)) == "vocab_size = 0 is outside 1..1048576");
  CHECK(says(with(5, -3)) == "hidden = -3 is outside 1..1048576");
  CHECK(says(with(6, 58)) == "the number of layers = 58 is outside 1..57");
  CHECK(says(with(8, 0)) == "a layer = 0 is outside 1..1048576");
  CHECK(says(file.substr(0, file.size() - 2)) ==
        "expected " + std::to_string(file.size()) + " bytes, found " + std::to_string(file.size() - 2));
  std::string infinite = file;
  const Eigen::half infinity(std::numeric_limits<float>::infinity());
  infinite.replace(file.size() - 2, 2, reinterpret_cast<const char*>(&infinity), 2);
  CHECK(says(infinite) == "holds a weight that is not a finite number");
  CHECK(support::message_of<std::runtime_error>([] { Speculator<float>{"/no/such/file"}; }) ==
        "/no/such/file: cannot be read");
}

TEST_CASE("with the shipped speculator the target writes its own text, in fewer calls") {
  Transformer<float> target = support::trained_pair<float>().target, plain = target;
  Speculator<float> speculator(support::trained_weights + "speculator.bin");
  target.show_hidden(speculator.layers());
  HeadModel head{target, speculator};
  const Tokens prompt = support::trained_tokenizer().encode("The people of the United States");
  std::mt19937_64 rng{6};
  const Options options{.max_new_tokens = 60, .gamma = 3};
  const Tokens alone = autoregressive(sampled(plain, 0), prompt, options, rng).tokens;
  SpecDec lines{sampled(target, 0), ModelDrafter{sampled(head, 0)}};
  const Result line = lines.generate(prompt, options, rng);
  CHECK(line.tokens == alone);
  CHECK(line.stats.target_calls < 40);
  SpecDec trees{sampled(target, 0), ModelDrafter{sampled(head, 0), ConfidentTree{.nodes = 16}},
                TraversalVerifier{}};
  const Result tree = trees.generate(prompt, {.max_new_tokens = 60, .gamma = 16}, rng);
  CHECK(tree.tokens == alone);
  CHECK(tree.stats.target_calls < line.stats.target_calls);
}

TEST_CASE("sequences on one target take turns with one speculator, and each is the text of its prompt") {
  Transformer<float> target = support::trained_pair<float>().target, plain = target;
  Speculator<float> speculator(support::trained_weights + "speculator.bin");
  target.show_hidden(speculator.layers());
  HeadModel head{target, speculator};
  SpecDec decoder{sampled(target, 0), ModelDrafter{sampled(head, 0)}};
  std::mt19937_64 rng{8};
  const Options options{.max_new_tokens = 30, .gamma = 3};
  const auto encode = [](const char* text) { return support::trained_tokenizer().encode(text); };
  auto a = decoder.start(encode("Call me"), options), b = decoder.start(encode("The ship was"), options);
  while (!a.done() || !b.done()) {
    a.step(rng);
    b.step(rng);
  }
  CHECK(a.result().tokens == autoregressive(sampled(plain, 0), encode("Call me"), options, rng).tokens);
  CHECK(b.result().tokens == autoregressive(sampled(plain, 0), encode("The ship was"), options, rng).tokens);
}

TEST_CASE("in a batch one speculator drafts for all texts, and each is what it is alone") {
  const auto weights = support::trained_weights;
  Transformer<float> alone = support::trained_pair<float>().target;
  transformer::TransformerBatch<float> together(weights + "target.bin");
  Speculator<float> speculator(weights + "speculator.bin");
  alone.show_hidden(speculator.layers());
  together.show_hidden(speculator.layers());
  HeadModel head{alone, speculator};
  HeadModel heads{together, speculator};
  const Temperature chain{0.8};
  Batch batch{ProcessedModel{together, chain}, ModelDrafter{ProcessedModel{heads, chain}}};
  const std::vector<Tokens> prompts{support::trained_tokenizer().encode("Call me"),
                                    support::trained_tokenizer().encode("The people of the United States"),
                                    support::trained_tokenizer().encode("The ship was")};
  const Options options{.max_new_tokens = 30, .gamma = 3};
  for (std::size_t i = 0; i < prompts.size(); ++i) batch.add(prompts[i], options, std::mt19937_64{i});
  CHECK(support::message_of<std::logic_error>([&] {
          batch.step();
          together.show_hidden(speculator.layers());
        }) == "transformer: show_hidden() while there are sequences");
  SpecDec decoder{ProcessedModel{alone, chain}, ModelDrafter{ProcessedModel{head, chain}}};
  Index accepted = 0;
  for (const Finished& done : batch.run()) {
    REQUIRE(!done.error);
    const auto i = static_cast<std::size_t>(done.sequence);
    std::mt19937_64 rng{i};
    CHECK(done.result.tokens == decoder.generate(prompts[i], options, rng).tokens);
    accepted += done.result.stats.accepted;
  }
  CHECK(accepted > 30);
}

// False-alarm rate 1e-6 each; the seed is fixed.
TEST_CASE(
    "texts that a speculator drafts follow the target's law, and tokens are drawn from the rows it reports",
    "[law][sampled]") {
  Transformer<float> target = support::trained_pair<float>().target;
  Speculator<float> speculator(support::trained_weights + "speculator.bin");
  target.show_hidden(speculator.layers());
  HeadModel head{target, speculator};
  testing::AuditedDrafter drafter{ModelDrafter{sampled(head, 1)}};
  SpecDec decoder{sampled(target, 1), drafter};
  const auto report = support::check_trained([&](const auto& prompt, const Options& options, auto& rng) {
    return decoder.generate(prompt, options, rng).tokens;
  });
  INFO(report);
  CHECK(report.accepted());
  CHECK(!drafter.report().convicted());
}

}  // namespace test_examples_speculator

// Medusa's heads with and without a Markov term. The oracles: the formulae in double, rows that are made from scratch, and
// the target's own text.
// SPDX-License-Identifier: MIT
#include "transformer/medusa.hpp"

#include <Eigen/Core>
#include <algorithm>
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
#include "trained_pair.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_medusa {

using namespace specdec;
using support::normed, support::silu, support::random_state, support::random_tokens;
using support::RandomModel;
using support::refusal, support::with_word;
using support::TemporaryFile;
using transformer::Medusa;
using transformer::Part;
using transformer::Shape;
using transformer::Transformer;
using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;

static_assert(Head<Medusa<float>> && Head<Medusa<Eigen::half>>);

namespace {

// Sizes that are no multiples of 16.
const Shape shape{40, 33, 2, 4, 2, 50, 64, false};

template <class Scalar = float>
Transformer<Scalar> transformer_of(const RandomModel& model) {
  const TemporaryFile file(model.versioned<float>());
  return Transformer<Scalar>(file.path());
}

// Heads with random weights, and the formulae of train/medusa.py.
struct RandomMedusa : support::RandomHead {
  static constexpr int vocab = 50, dim = 40, heads = 3, hidden = 20;
  int rank;

  RandomMedusa(unsigned seed, int rank_of_term) : RandomHead(seed), rank(rank_of_term) {
    add("norm", 1, dim, 1);
    add("down", heads * hidden, dim);
    for (int k = 0; k < heads; ++k) add("up" + std::to_string(k), dim, hidden);
    if (rank == 0) return;
    add("before", vocab, rank);
    add("after", vocab, rank);
  }

  std::string file() const { return RandomHead::file({0x7564656d, 2, vocab, dim, heads, hidden, rank}); }
  template <class Scalar>
  Medusa<Scalar> on(const Transformer<Scalar>& target) const {
    const TemporaryFile written(file());
    return Medusa<Scalar>(written.path(), target);
  }

  // The logits after a token at this depth of a draft.
  Eigen::VectorXd row(const RandomModel& target, const Eigen::VectorXd& h, Index depth, Token token) const {
    const int k = static_cast<int>(std::min<Index>(depth, heads - 1));
    const Eigen::VectorXd inner = part("down").middleRows(k * hidden, hidden) * normed(h, part("norm"));
    const Eigen::VectorXd x = h + part("up" + std::to_string(k)) * silu(inner);
    Eigen::VectorXd logits = target.part(Part::classifier) * normed(x, target.part(Part::final_norm));
    if (rank > 0) logits += part("after") * part("before").row(token).transpose();
    return logits;
  }
};

}  // namespace

TEST_CASE("Medusa computes the formulae at every depth, and no token depends on others of its call") {
  const RandomModel model(shape, 1);
  for (const int rank : {5, 0}) {
    INFO("rank " << rank);
    const RandomMedusa random(2, rank);
    const Transformer<float> target = transformer_of(model);
    const Medusa<float> fresh = random.on(target);
    Medusa<float> medusa = fresh;
    Medusa<Eigen::half> halves = random.on(transformer_of<Eigen::half>(model));
    CHECK(medusa.vocab_size() == 50);
    CHECK(medusa.heads() == 3);
    REQUIRE(medusa.state_size() == 41);
    CHECK((medusa.layers().size() == 1 && medusa.layers()[0] == 2));
    std::mt19937 rng{4};
    for (int text = 0; text < 5; ++text) {
      const Eigen::VectorXf hidden = random_state(rng, 40);
      Eigen::MatrixXf states(41, 3), next(41, 3);
      for (const Index column : {0, 1, 2})
        medusa.begin(column == 1 ? hidden : random_state(rng, 40), states.col(column));
      states(40, 2) = static_cast<float>(text % 4);
      Index depth = 0;
      for (const Token token : random_tokens(rng, 6, shape.vocab_size)) {
        CHECK((states.col(1).head(40) == hidden && states(40, 1) == static_cast<float>(depth)));
        const Eigen::VectorXd expected = random.row(model, hidden.cast<double>(), depth++, token);
        const Tokens tokens{7, token, 8};
        const auto one = std::span(tokens).subspan(1, 1);
        const Eigen::MatrixXf together = medusa.forward(states, tokens, next, 2);
        CHECK(together.row(0).transpose().cast<double>().isApprox(expected, 1e-4));
        Medusa<float> other = fresh;
        Eigen::VectorXf after(41);
        const Eigen::VectorXf row = other.forward(states.col(1), one, after, 1).row(0);
        CHECK(row == together.row(0).transpose());
        CHECK(after == next.col(1));
        const Eigen::VectorXf of_halves = halves.forward(states.col(1), one, after, 1).row(0);
        CHECK(of_halves.cast<double>().isApprox(expected, 1e-4));
        for (const Index column : {0, 1, 2}) states.col(column) = next.col(column);
      }
    }
  }
}

TEST_CASE("with a Markov term a row follows from the token before it, without one it does not") {
  const Transformer<float> target = transformer_of(RandomModel(shape, 1));
  for (const int rank : {5, 0}) {
    Medusa<float> medusa = RandomMedusa(2, rank).on(target);
    std::mt19937 rng{3};
    Eigen::MatrixXf states(41, 2), next(41, 2);
    medusa.begin(random_state(rng, 40), states.col(0));
    states.col(1) = states.col(0);
    const Tokens tokens{7, 8};
    const Eigen::MatrixXf rows = medusa.forward(states, tokens, next, 2);
    CHECK((rows.row(0) == rows.row(1)) == (rank == 0));
  }
}

TEST_CASE("rows follow from the target's state, the depth and the last token, whatever calls led there") {
  const RandomMedusa random(5, 5);
  Transformer<float> target = transformer_of(RandomModel(shape, 4)), fresh = target;
  const Medusa<float> medusa = random.on(target);
  target.show_hidden(medusa.layers());
  fresh.show_hidden(medusa.layers());
  HeadModel head{target, medusa};
  std::mt19937 rng{6};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<unsigned>(n)); };
  const auto draw = [&](Index n) {
    return random_tokens(rng, static_cast<std::size_t>(n), shape.vocab_size);
  };

  // The row after the text and the drafted tokens, for a target that has taken in all tokens of the text but the last one.
  const auto row_after = [&](const Tokens& text, const Tokens& drafted) {
    const Index taken = std::ssize(text) - 1;
    Medusa<float> alone = medusa;
    Eigen::VectorXf state = Eigen::VectorXf::Zero(41), next(41);
    fresh.truncate(0);
    if (taken > 0) {
      fresh.forward(std::span(text).first(static_cast<std::size_t>(taken)), 1);
      alone.begin(fresh.hidden(), state);
    }
    Eigen::RowVectorXf row = alone.forward(state, std::span(text).last(1), next, 1).row(0);
    for (const Token& x : drafted) {
      state = next;
      row = alone.forward(state, std::span(&x, 1), next, 1).row(0);
    }
    return row;
  };

  Tokens text = draw(1);
  Index fed = 0;  // to the head, of the text
  for (int round = 0; round < 300; ++round) {
    const auto behind = std::span(text).subspan(static_cast<std::size_t>(fed));
    REQUIRE(head.forward(behind, 1).row(0) == row_after(text, {}));
    const Index length = std::ssize(text), size = 1 + below(5);
    const Tokens drafted = draw(size);
    Numbers parents, path;
    if (below(2) == 0) {  // a line, in two calls
      const auto cut = static_cast<std::size_t>(below(size + 1));
      for (const auto& part : {std::span(drafted).first(cut), std::span(drafted).subspan(cut)}) {
        if (part.empty()) continue;
        const auto end = part.data() + part.size() - drafted.data();
        REQUIRE(head.forward(part, 1).row(0) == row_after(text, {drafted.begin(), drafted.begin() + end}));
      }
      for (Index i = below(size + 1); i > 0; --i) path.push_back(std::ssize(path));
      Tokens call{text.back()};
      call.insert(call.end(), drafted.begin(), drafted.end());
      target.forward(call, 1);
      target.truncate(length + std::ssize(path));
      head.truncate(length + std::ssize(path));
    } else {
      for (Index i = 0; i < size; ++i) parents.push_back(below(i + 1) - 1);
      const Eigen::MatrixXf rows = head.forward(drafted, parents, size);
      for (Index i = 0; i < size; ++i) {
        Tokens way;
        for (Index node = i; node >= 0; node = parents[static_cast<std::size_t>(node)])
          way.insert(way.begin(), drafted[static_cast<std::size_t>(node)]);
        REQUIRE(rows.row(i) == row_after(text, way));
      }
      for (Index node = below(size + 1) - 1; node >= 0; node = parents[static_cast<std::size_t>(node)])
        path.insert(path.begin(), node);
      head.keep(path);
      target.forward(std::span(text).last(1), 1);
      target.forward(drafted, parents, 1);
      target.keep(path);
    }
    for (const Index node : path) text.push_back(drafted[static_cast<std::size_t>(node)]);
    fed = std::ssize(text);
    text.push_back(draw(1)[0]);
    if (below(8) == 0 || text.size() > 50) {  // the text is cut, and goes on in another way
      text.resize(1 + rng() % text.size());
      text.back() = draw(1)[0];
      fed = std::min(fed, std::ssize(text) - 1);
      target.truncate(std::ssize(text) - 1);
      head.truncate(fed);
    }
  }
}

TEST_CASE("files that are no Medusa, and heads for another target") {
  const Transformer<float> target = transformer_of(RandomModel(shape, 1));
  const RandomMedusa random(2, 5);
  const std::string file = random.file();
  const auto read = [&](const std::string& path) { Medusa<float>(path, target); };
  support::check_refusals(file, "Medusa", read);
  CHECK(refusal(with_word(file, 3, 0), read) == "dim = 0 is outside 1..1048576");
  CHECK(refusal(with_word(file, 4, 65), read) == "heads = 65 is outside 1..64");
  CHECK(refusal(with_word(file, 5, -3), read) == "hidden = -3 is outside 1..1048576");
  CHECK(refusal(with_word(file, 6, -1), read) == "rank = -1 is outside 0..1048576");

  for (const Shape& other : {Shape{48, 33, 2, 4, 2, 50, 64, false}, Shape{40, 33, 2, 4, 2, 49, 64, false}})
    CHECK(support::message_of([&] { random.on(transformer_of(RandomModel(other, 1))); }) ==
          "Medusa: the heads are for a target of 50 tokens and states of 40 numbers, found one of " +
              std::to_string(other.vocab_size) + " and " + std::to_string(other.dim));
  Medusa<float> medusa = random.on(target);
  Eigen::VectorXf state(41);
  CHECK(support::message_of([&] { medusa.begin(Eigen::VectorXf::Zero(41), state); }) ==
        "Medusa: the hidden state has 41 numbers, expected 40");
}

namespace {

Medusa<float> shipped() {
  return {support::trained_weights + "medusa.bin", support::trained_pair<float>().target};
}

}  // namespace

TEST_CASE("with the shipped Medusa the target writes its own text, in fewer calls") {
  const support::HeadCalls calls = support::check_text(shipped());
  CHECK(calls.lines < 30);
  CHECK(calls.trees < calls.lines);
}

TEST_CASE("sequences on one target take turns with one Medusa, and each is the text of its prompt") {
  support::check_turns(shipped());
}

TEST_CASE("in a batch one Medusa drafts for all texts, and each is what it is alone") {
  const auto head = shipped();
  support::check_batch(head, head);
}

TEST_CASE("texts that Medusa drafts follow the target's law, and tokens are drawn from the rows it reports",
          "[law][sampled]") {
  support::check_law(shipped());
}

}  // namespace test_examples_medusa

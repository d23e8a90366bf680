// An EAGLE layer: one layer with attention on the target's hidden states, which drafts from its own outputs.
// Source: Li et al., "EAGLE", arXiv:2401.15077; as in "EAGLE-3", arXiv:2503.01840, the states of several layers of the target
// are read, and the layer is trained on its own outputs.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <specdec/more/rows/mapped.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "transformer/checkpoint.hpp"
#include "transformer/context.hpp"
#include "transformer/error.hpp"
#include "transformer/feed_forward.hpp"
#include "transformer/layers.hpp"
#include "transformer/panels.hpp"
#include "transformer/product.hpp"
#include "transformer/shape.hpp"
#include "transformer/weight_file.hpp"
#include "transformer/weights.hpp"

namespace transformer {

/// The weights of an EAGLE layer. train/eagle.py describes the file.
template <class Scalar>
struct EagleWeights {
  Index target_dim = 0;       ///< numbers that a layer of the target returns for a token
  std::vector<Index> layers;  ///< of the target, numbered from 1: their states are read
  Eigen::ArrayXf features_norm, embedding_norm, state_norm;
  Panels<Scalar> features, of_token, of_state;  ///< the last two are the halves of W
  std::shared_ptr<const Weights<Scalar>>
      layer;  ///< of a model with one layer: its embedding, too, and its final norm

  /// The tokens that the layer drafts; null: all.
  std::shared_ptr<const specdec::TokenMap> tokens = nullptr;

  Index features_size() const { return target_dim * std::ssize(layers); }

  /// A layer that drafts only these tokens, as EAGLE-3 does: it computes no logits of others.
  /// Throws: std::invalid_argument if a token is outside the vocabulary, or given twice.
  EagleWeights drafting(std::span<const Token> some) const {
    EagleWeights result = *this;
    result.tokens = std::make_shared<const specdec::TokenMap>(some, layer->shape.vocab_size);
    Weights<Scalar> own = *layer;
    own.shape.shared_classifier = false;
    own.own_classifier = Panels<Scalar>(std::ssize(some), own.shape.dim);
    for (Index i = 0; i < std::ssize(some); ++i)
      own.own_classifier.set_rows(i, layer->embedding.row(some[static_cast<std::size_t>(i)]).matrix());
    result.layer = std::make_shared<const Weights<Scalar>>(std::move(own));
    return result;
  }

  /// Throws: std::runtime_error if the file cannot be read, is of another kind or size, or holds a number that is not
  /// finite. The message names the file.
  static EagleWeights read(const std::string& path) {
    WeightFile file(path, 0x6C676165, "EAGLE layer");
    EagleWeights weights;
    const Shape shape = weights.read_header(file);
    file.check_room(shape.parameters());
    weights.take(file, shape);
    file.end();
    return weights;
  }

 private:
  Shape read_header(const WeightFile& file) {
    target_dim = file.word(3, "target_dim");
    const Index heads = file.word(5, "heads"), kv_heads = file.word(6, "kv_heads");
    const Shape shape{file.word(4, "dim"),        file.word(7, "hidden"),      1, heads, kv_heads,
                      file.word(2, "vocab_size"), file.word(8, "context_size")};
    file.check(shape.dim % (2 * heads) == 0 && heads % kv_heads == 0, "dim = ", shape.dim,
               ", heads = ", heads, " and kv_heads = ", kv_heads, " make no layer");
    const Index count = file.word(9, "the number of layers", 1, Index{WeightFile::header / 4 - 10});
    for (Index i = 0; i < count; ++i)
      layers.push_back(file.word(static_cast<std::size_t>(10 + i), "a layer"));
    return shape;
  }

  // Takes the matrices in the order of the file.
  void take(WeightFile& file, const Shape& shape) {
    const Index dim = shape.dim, kv_dim = shape.kv_dim(), hidden = shape.hidden_dim;
    Weights<Scalar> own(shape);
    const auto take = [&](Part part, Index rows, Index cols) { own.set(part, 0, file.matrix(rows, cols)); };
    const auto take_norm = [&](Part part) { own.set(part, 0, file.row(dim)); };
    features_norm = file.vector(features_size());
    features = file.template panels<Scalar>(dim, features_size());
    take(Part::embedding, shape.vocab_size, dim);
    embedding_norm = file.vector(dim);
    state_norm = file.vector(dim);
    const WeightFile::Matrix halves = file.matrix(dim, 2 * dim);
    of_token = of_state = Panels<Scalar>(dim, dim);
    of_token.set_rows(0, halves.leftCols(dim));
    of_state.set_rows(0, halves.rightCols(dim));
    take_norm(Part::attention_norm);
    take(Part::query, dim, dim);
    take(Part::key, kv_dim, dim);
    take(Part::value, kv_dim, dim);
    take(Part::output, dim, dim);
    take_norm(Part::ffn_norm);
    take(Part::w1, hidden, dim);
    take(Part::w2, dim, hidden);
    take(Part::w3, hidden, dim);
    take_norm(Part::final_norm);
    layer = std::make_shared<const Weights<Scalar>>(std::move(own));
  }
};

/// What an EAGLE layer computes:
///
///   begin(h)       s = A·norm(h)
///   forward(s, t)  x = W·(norm(E[t]), norm(s)) goes through a layer of a Llama model, with the keys and values of the tokens
///                  before it. What the layer returns is its own state; logits E·norm(state)
///
/// It has no context: Eagle has one, and EagleBatch one for each text.
template <class Scalar>
class EagleLayer {
 public:
  using Logits = typename Layers<Scalar>::Logits;

  /// Throws: std::runtime_error on a bad file.
  explicit EagleLayer(const std::string& path)
      : EagleLayer(std::make_shared<const EagleWeights<Scalar>>(EagleWeights<Scalar>::read(path))) {}
  explicit EagleLayer(std::shared_ptr<const EagleWeights<Scalar>> weights)
      : layers_(weights->layer), weights_(std::move(weights)) {
    read_ = Columns::Zero(padded(features_size()), 2);
    reserve(1, 1);
  }

  const std::shared_ptr<const EagleWeights<Scalar>>& weights() const { return weights_; }
  const Shape& shape() const { return layers_.shape(); }
  /// How many tokens it drafts. It takes in all tokens of shape().vocab_size.
  Index vocab_size() const {
    return token_map() == nullptr ? shape().vocab_size : token_map()->draft_vocab_size();
  }
  const specdec::TokenMap* token_map() const { return weights_->tokens.get(); }
  Index state_size() const { return shape().dim; }
  /// The most tokens of each context.
  Index context_size() const { return shape().context_size; }
  /// The layers of the target whose states are read, numbered from 1: for Transformer::show_hidden.
  std::span<const Index> layers() const { return weights_->layers; }
  /// The numbers of these layers' states together.
  Index features_size() const { return weights_->features_size(); }

  /// Throws: std::invalid_argument if the hidden state is of another size.
  void begin(const Eigen::Ref<const Eigen::VectorXf>& hidden, Eigen::Ref<Eigen::VectorXf> state) {
    if (hidden.size() != features_size())
      fail<std::invalid_argument>("EAGLE layer: the hidden state has ", hidden.size(), " numbers, expected ",
                                  features_size());
    read_.col(0).head(hidden.size()) = hidden.array();
    rms_norm(read_.col(0).data(), weights_->features_norm, features_size(), read_.col(1).data());
    product(weights_->features.view(), {read_.col(1).data(), 1, read_.rows()}, x_.data(), x_.rows());
    state = x_.col(0).head(state_size()).matrix();
  }

 protected:
  // Makes room for a call.
  void reserve(Index count, Index rows) {
    layers_.reserve(count, rows);
    if (x_.cols() >= count) return;
    Columns x = Columns::Zero(padded(state_size()), count), normed = x, joined = x;
    x_.swap(x);
    normed_.swap(normed);
    joined_.swap(joined);
  }

  // Puts the embeddings of tokens where run() reads them, from `column` on.
  void embed(std::span<const Token> tokens, Index column) {
    for (const Token token : tokens)
      x_.col(column++).head(state_size()) =
          weights_->layer->embedding.row(token).template cast<float>().transpose();
  }

  // Runs `count` embedded tokens, each with its column of `states`, through the layer. All tokens of the stretches are rows.
  // Their own states go to `next`, and stay in the stream.
  void run(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Stretch> stretches, Index count,
           Eigen::Ref<Eigen::MatrixXf> next) {
    const Index dim = state_size();
    const Vectors normed{normed_.data(), count, normed_.rows()};
    normalise(weights_->embedding_norm, count);
    product(weights_->of_token.view(), normed, joined_.data(), joined_.rows());
    x_.topLeftCorner(dim, count) = states.array();
    normalise(weights_->state_norm, count);
    add_product(weights_->of_state.view(), normed, joined_.data(), joined_.rows());
    for (Index i = 0; i < count; ++i) layers_.enter(joined_.col(i).head(dim), i);
    layers_.run(0, stretches, 0);
    next = layers_.features(0, count);
  }

  Layers<Scalar> layers_;

 private:
  using Columns = Eigen::ArrayXXf;  // one for each token, padded with zeros

  // RMSNorm of the first `count` columns of x_.
  void normalise(const Eigen::ArrayXf& weights, Index count) {
    for (Index i = 0; i < count; ++i)
      rms_norm(x_.col(i).data(), weights, state_size(), normed_.col(i).data());
  }

  std::shared_ptr<const EagleWeights<Scalar>> weights_;
  Columns read_;  // a hidden state, and its norm
  Columns x_, normed_, joined_;
};

/// The layer with a context, for specdec::EagleModel:
///
///   transformer::Transformer<float> target("target.bin");
///   transformer::Eagle<float> layer("eagle.bin");
///   target.show_hidden(layer.layers());
///   specdec::EagleModel eagle{target, layer};
///
/// Copies share the weights, and each has its own context.
/// Cost: no allocation once a call with as many tokens was made.
/// Numeric: arithmetic in float. A token's row and state depend only on the tokens and states on its path, to the bit.
template <class Scalar>
class Eagle : public EagleLayer<Scalar> {
  using Base = EagleLayer<Scalar>;
  using Base::layers_;

 public:
  using Base::Base;
  using typename Base::Logits;

  /// Throws: as Transformer::forward.
  Logits forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> tokens,
                 Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    context_.check_closed();
    prepare(tokens, rows);
    context_.add_line(std::ssize(tokens));
    const Logits logits = run(states, tokens, next, rows);
    context_.take_line();
    return logits;
  }
  Logits forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> tokens,
                 std::span<const Index> parents, Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    layers_.check_parents(context_, tokens, parents, "EAGLE layer: ");
    prepare(tokens, rows);
    context_.add(parents);
    return run(states, tokens, next, rows);
  }
  void keep(std::span<const Index> path) { context_.keep(path); }
  void truncate(Index length) noexcept { context_.truncate(length); }

 private:
  // Checks the tokens, and makes room for them.
  void prepare(std::span<const Token> tokens, Index rows) {
    const Index count = std::ssize(tokens);
    layers_.check(context_, tokens, rows, 0, "EAGLE layer: ");
    Base::reserve(count, rows);
    context_.reserve(count);
  }

  // Runs the tokens, the last ones of the tree, through the layer.
  Logits run(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> tokens,
             Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    const Index count = std::ssize(tokens);
    const Stretch stretch{&context_, count, count};
    Base::embed(tokens, 0);
    Base::run(states, std::span(&stretch, 1), count, next);
    return layers_.classify(count - rows, rows);
  }

  Context context_{Base::shape()};
};

}  // namespace transformer

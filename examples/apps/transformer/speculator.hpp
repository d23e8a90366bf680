// An MLP speculator: a small network on the target's hidden states that drafts tokens one after another.
// Source: Wertheimer et al., "Accelerating Production LLMs with Combined Token/Embedding Speculators", arXiv:2404.19124. The
// weights are the same at every depth of a draft, as in Cheng et al., "Recurrent Drafter", arXiv:2403.09919. The states of
// several layers of the target are read, as in Li et al., "EAGLE-3", arXiv:2503.01840.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "transformer/error.hpp"
#include "transformer/feed_forward.hpp"
#include "transformer/layers.hpp"
#include "transformer/panels.hpp"
#include "transformer/product.hpp"
#include "transformer/weight_file.hpp"

namespace transformer {

/// The weights of a speculator. train/speculator.py describes the file.
template <class Scalar>
struct SpeculatorWeights {
  Index vocab_size = 0;
  Index target_dim = 0;       ///< numbers that a layer of the target returns for a token
  Index dim = 0, hidden = 0;  ///< numbers of a state, and inside the feed-forward network
  std::vector<Index> layers;  ///< of the target, numbered from 1: their states are read
  Eigen::ArrayXf features_norm, feed_forward_norm, norm, state_norm;
  Panels<Scalar> features, embedding, gate_up, down, classifier, state;

  Index features_size() const { return target_dim * std::ssize(layers); }

  /// Throws: std::runtime_error if the file cannot be read, is of another kind or size, or holds a number that is not
  /// finite. The message names the file.
  static SpeculatorWeights read(const std::string& path) {
    WeightFile file(path, 0x63657073, "speculator");
    SpeculatorWeights weights;
    weights.read_header(file);
    weights.take(file);
    file.end();
    return weights;
  }

 private:
  void read_header(const WeightFile& file) {
    vocab_size = file.word(2, "vocab_size");
    target_dim = file.word(3, "target_dim");
    dim = file.word(4, "dim");
    hidden = file.word(5, "hidden");
    const Index count = file.word(6, "the number of layers", 1, Index{WeightFile::header / 4 - 7});
    for (Index i = 0; i < count; ++i) layers.push_back(file.word(static_cast<std::size_t>(7 + i), "a layer"));
  }

  // Takes the matrices in the order of the file.
  void take(WeightFile& file) {
    features_norm = file.vector(features_size());
    features = file.panels<Scalar>(dim, features_size());
    embedding = file.panels<Scalar>(vocab_size, dim);
    feed_forward_norm = file.vector(dim);
    const WeightFile::Matrix gate = file.matrix(hidden, dim);
    gate_up = Panels<Scalar>(padded(hidden) + hidden, dim);
    gate_up.set_rows(0, gate);
    gate_up.set_rows(padded(hidden), file.matrix(hidden, dim));
    down = file.panels<Scalar>(dim, hidden);
    norm = file.vector(dim);
    classifier = file.panels<Scalar>(vocab_size, dim);
    state_norm = file.vector(dim);
    state = file.panels<Scalar>(dim, dim);
  }
};

/// The network, a head for specdec::HeadModel:
///
///   begin(h)       s = A·norm(h)
///   forward(s, t)  x = s + E[t], then x += W_down·(SiLU(W_gate·norm(x)) · W_up·norm(x));
///                  logits C·norm(x), and the next state B·norm(x)
///
///   transformer::Transformer<float> target("target.bin");
///   transformer::Speculator<float> speculator("speculator.bin");
///   target.show_hidden(speculator.layers());
///   specdec::HeadModel head{target, speculator};
///
/// Copies share the weights.
/// Cost: no allocation once a call with as many tokens was made.
/// Numeric: arithmetic in float. A token's row and state do not depend on the other tokens of a call, to the bit.
template <class Scalar>
class Speculator {
 public:
  using Logits = typename Layers<Scalar>::Logits;

  /// Throws: std::runtime_error on a bad file.
  explicit Speculator(const std::string& path)
      : Speculator(std::make_shared<const SpeculatorWeights<Scalar>>(SpeculatorWeights<Scalar>::read(path))) {
  }
  explicit Speculator(std::shared_ptr<const SpeculatorWeights<Scalar>> weights)
      : weights_(std::move(weights)), read_(Columns::Zero(padded(weights_->features_size()), 2)) {
    reserve(1);
  }

  Index vocab_size() const { return weights_->vocab_size; }
  Index state_size() const { return weights_->dim; }
  /// The layers of the target whose states are read, numbered from 1: for Transformer::show_hidden.
  std::span<const Index> layers() const { return weights_->layers; }
  /// The numbers of these layers' states together.
  Index features_size() const { return weights_->features_size(); }

  /// Throws: std::invalid_argument if the hidden state is of another size.
  void begin(const Eigen::Ref<const Eigen::VectorXf>& hidden, Eigen::Ref<Eigen::VectorXf> state) {
    if (hidden.size() != features_size())
      fail<std::invalid_argument>("speculator: the hidden state has ", hidden.size(), " numbers, expected ",
                                  features_size());
    read_.col(0).head(hidden.size()) = hidden.array();
    rms_norm(read_.col(0).data(), weights_->features_norm, features_size(), read_.col(1).data());
    product(weights_->features.view(), {read_.col(1).data(), 1, read_.rows()}, x_.data(), x_.rows());
    state = x_.col(0).head(state_size()).matrix();
  }

  Logits forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> tokens,
                 Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    const Index count = std::ssize(tokens), dim = weights_->dim;
    reserve(count);
    for (Index i = 0; i < count; ++i)
      x_.col(i).head(dim) =
          states.col(i).array() +
          weights_->embedding.row(tokens[static_cast<std::size_t>(i)]).template cast<float>().transpose();
    normalise(weights_->feed_forward_norm, 0, count);
    product(weights_->gate_up.view(), {normed_.data(), count, normed_.rows()}, hidden_.data(),
            hidden_.rows());
    for (Index i = 0; i < count; ++i) swiglu(hidden_.col(i).data(), hidden_.rows());
    add_product(weights_->down.view(), {hidden_.data(), count, hidden_.rows()}, x_.data(), x_.rows());

    normalise(weights_->state_norm, 0, count);
    product(weights_->state.view(), {normed_.data(), count, normed_.rows()}, next_.data(), next_.rows());
    next = next_.topLeftCorner(dim, count).matrix();
    normalise(weights_->norm, count - rows, rows);
    product(weights_->classifier.view(), {normed_.data(), rows, normed_.rows()}, logits_.data(),
            logits_.rows());
    return Logits(logits_.data(), rows, vocab_size(), Eigen::OuterStride<>(logits_.rows()));
  }

 private:
  using Columns = Eigen::ArrayXXf;  // one for each token, padded with zeros

  void reserve(Index count) {
    if (x_.cols() >= count) return;
    const Index rows = padded(weights_->dim);
    x_ = normed_ = next_ = Columns::Zero(rows, count);
    hidden_ = Columns::Zero(2 * padded(weights_->hidden), count);
    logits_ = Columns::Zero(padded(vocab_size()), count);
  }

  // RMSNorm of `count` columns of x_ from `first` on.
  void normalise(const Eigen::ArrayXf& weights, Index first, Index count) {
    for (Index i = 0; i < count; ++i)
      rms_norm(x_.col(first + i).data(), weights, weights_->dim, normed_.col(i).data());
  }

  std::shared_ptr<const SpeculatorWeights<Scalar>> weights_;
  Columns read_;  // a hidden state, and its norm
  Columns x_, normed_, hidden_, next_, logits_;
};

}  // namespace transformer

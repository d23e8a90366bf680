// The layers of a Llama model, and how tokens run through them.
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", arXiv:2302.13971, section 2.2,
// and "Llama 2", arXiv:2307.09288, section 2.2: pre-normalisation by RMSNorm (Zhang, Sennrich, arXiv:1910.07467,
// equation 4) and SwiGLU (Shazeer, arXiv:2002.05202, equation 6) in feed_forward.hpp, RoPE (rotation.hpp), grouped-query
// attention (attention.hpp).
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "transformer/attention.hpp"
#include "transformer/context.hpp"
#include "transformer/error.hpp"
#include "transformer/feed_forward.hpp"
#include "transformer/panels.hpp"
#include "transformer/product.hpp"
#include "transformer/shape.hpp"
#include "transformer/sparse_cache.hpp"
#include "transformer/weights.hpp"

namespace transformer {

using Token = std::int32_t;

/// The tokens of one context in a call: the last `tokens` tokens of its tree.
struct Stretch {
  Context* context;
  Index tokens;
  Index rows;             ///< the last `rows` of these tokens leave the layer
  SparseCache seen = {};  ///< what the attentions read of the context
};

/// The layers, their weights, and the stream: the states of a call's tokens, one column a token, stretch after stretch. All
/// stretches run through a layer together, so that its weights are read once.
/// Cost: no allocation once reserve() has made room.
/// Numeric: arithmetic in float. A token's states depend only on the tokens on its path, without those that a sparse cache
/// leaves out, to the bit: not on how they were cut into calls, not on other branches of a tree, and not on other stretches.
template <class Scalar>
class Layers {
 public:
  /// One row a token, one column for each row of the output layer (usually vocab_size). The view lives until the next call.
  using Logits = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                            Eigen::OuterStride<>>;
  /// dim × rows. The view lives until the next call.
  using Features = Eigen::Map<const Eigen::MatrixXf, 0, Eigen::OuterStride<>>;

  explicit Layers(std::shared_ptr<const Weights<Scalar>> weights)
      : weights_(std::move(weights)), attention_(shape()) {
    reserve(1, 1);
  }

  const Shape& shape() const { return weights_->shape; }
  const std::shared_ptr<const Weights<Scalar>>& weights() const { return weights_; }

  /// Checks tokens that are to follow a context.
  /// Throws: std::invalid_argument unless least <= rows <= tokens.size() and every token is in the vocabulary;
  /// std::length_error if the tokens do not fit in the context. The messages begin with `words`.
  template <class... Words>
  void check(const Context& context, std::span<const Token> tokens, Index rows, Index least,
             const Words&... words) const {
    const Index count = std::ssize(tokens), vocab_size = shape().vocab_size;
    if (rows < least || rows > count)
      fail<std::invalid_argument>("transformer: ", words..., "rows = ", rows, " is outside ", least, "..",
                                  count, ", the number of tokens");
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] < 0 || tokens[i] >= vocab_size)
        fail<std::invalid_argument>("transformer: ", words..., "tokens[", i, "] = ", tokens[i],
                                    " is outside the vocabulary 0..", vocab_size - 1);
    const Index taken = context.length() + context.tree().size();
    if (count > shape().context_size - taken)
      fail<std::length_error>("transformer: ", words..., count, " tokens after ", taken,
                              " do not fit in the context of ", shape().context_size);
  }
  /// Checks the parents of tokens that branch.
  /// Throws: std::invalid_argument on bad parents. The message begins with `words`.
  template <class... Words>
  void check_parents(const Context& context, std::span<const Token> tokens, std::span<const Index> parents,
                     const Words&... words) const {
    if (parents.size() != tokens.size())
      fail<std::invalid_argument>("transformer: ", words..., "parents has ", parents.size(),
                                  " numbers, expected one for each of ", tokens.size(), " tokens");
    context.tree().check_parents(parents, words...);
  }

  /// Throws: std::invalid_argument unless these are layers, numbered from 1.
  void check_layers(std::span<const Index> layers) const {
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (layers[i] < 1 || layers[i] > shape().n_layers)
        fail<std::invalid_argument>("transformer: layers[", i, "] = ", layers[i], " is outside 1..",
                                    shape().n_layers);
  }

  /// Makes room for a call, before anything changes. (Eigen's own resize() leaves a dangling pointer if memory runs out.)
  void reserve(Index count, Index rows) {
    const auto grow = [](Columns& columns, Index size, Index needed) {
      if (columns.cols() >= needed) return;
      Columns wider = Columns::Zero(size, needed);
      wider.topLeftCorner(columns.rows(), columns.cols()) = columns;
      wider.swap(columns);
    };
    grow(stream_, padded(shape().dim), count);
    grow(normed_, padded(shape().dim), count);
    grow(joined_, weights_->value_row() + padded(shape().kv_dim()), count);
    grow(hidden_, 2 * weights_->up_row(), count);
    grow(logits_, padded(output_size()), rows);
  }

  /// Puts the embeddings of tokens into the stream, from `column` on.
  void embed(std::span<const Token> tokens, Index column) {
    for (const Token token : tokens)
      stream_.col(column++).head(shape().dim) =
          weights_->embedding.row(token).template cast<float>().transpose();
  }

  /// Puts a state into the stream.
  template <class State>
  void enter(const State& state, Index column) {
    stream_.col(column).head(shape().dim) = state;
  }

  /// Runs the stretches through a layer. Their states stand in the stream from column `first` on, one stretch after another.
  /// The outputs of attention and feed-forward network are added to the last `rows` tokens of each stretch. For the tokens
  /// before them, only keys and values are stored, which is enough in the last layer. If there are fewer rows than tokens,
  /// the states of the rows move together, to the last columns.
  void run(Index l, std::span<const Stretch> stretches, Index first) {
    add_attention(l, stretches, first);
    const auto [count, rows] = sizes(stretches);
    add_feed_forward(l, first + count - rows, rows);
  }

  /// The attention of run(), without the feed-forward network.
  void add_attention(Index l, std::span<const Stretch> stretches, Index first) {
    const auto& layer = weights_->layers[static_cast<std::size_t>(l)];
    const auto [count, rows] = sizes(stretches);
    normalise(stream_, layer.attention_norm, first, count);
    product(layer.query_key_value.view(), vectors(normed_, count), joined_.data(), joined_.rows());
    remember(l, stretches);
    if (rows == 0) return;
    attend(l, stretches);
    move_rows(stretches, first + count);
    add_product(layer.output.view(), vectors(normed_, rows), stream_.col(first + count - rows).data(),
                stream_.rows());
  }

  /// Adds the output of a layer's feed-forward network to `count` states in the stream, from column `first` on.
  void add_feed_forward(Index l, Index first, Index count) {
    if (count == 0) return;
    const auto& layer = weights_->layers[static_cast<std::size_t>(l)];
    normalise(stream_, layer.ffn_norm, first, count);
    product(layer.gate_up.view(), vectors(normed_, count), hidden_.data(), hidden_.rows());
    for (Index i = 0; i < count; ++i) swiglu(hidden_.col(i).data(), hidden_.rows());
    add_product(layer.down.view(), vectors(hidden_, count), stream_.col(first).data(), stream_.rows());
  }

  /// The logits of `rows` states in the stream, from column `first` on.
  Logits classify(Index first, Index rows) {
    normalise(stream_, weights_->final_norm, first, rows);
    product(weights_->classifier().view(), vectors(normed_, rows), logits_.data(), logits_.rows());
    return Logits(logits_.data(), rows, output_size(), Eigen::OuterStride<>(logits_.rows()));
  }

  Features features(Index first, Index rows) const {
    return Features(&stream_(0, first), shape().dim, rows, Eigen::OuterStride<>(stream_.rows()));
  }
  /// If layer `l` is one of `shown`, numbered from 1: copies the states of `count` tokens, which stand in the stream from
  /// column `first` on, to the hidden states of these tokens. They are the last ones of the context's tree.
  void remember_hidden(Index l, std::span<const Index> shown, Index first, Index count,
                       Context& context) const {
    const Index dim = shape().dim;
    for (std::size_t i = 0; i < shown.size(); ++i)
      if (shown[i] == l + 1)
        context.last_states(count).middleRows(static_cast<Index>(i) * dim, dim) = features(first, count);
  }

  /// Moves the states of the last `rows` tokens of each stretch together, to the last columns before `end`. From the last
  /// stretch to the first, so that no state is overwritten before it has moved.
  void move_rows(std::span<const Stretch> stretches, Index end) {
    Index to = end, from = end;
    for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
      for (Index i = 1; i <= stretch->rows; ++i)
        if (to != from) stream_.col(to - i) = stream_.col(from - i);
      to -= stretch->rows;
      from -= stretch->tokens;
    }
  }

 private:
  using Columns = Eigen::ArrayXXf;  // one for each token, padded with zeros

  // Smaller than the vocabulary if other ranks have the rest.
  Index output_size() const { return weights_->classifier().rows(); }

  // The numbers of tokens and of rows of all stretches.
  static std::pair<Index, Index> sizes(std::span<const Stretch> stretches) {
    std::pair<Index, Index> sum{0, 0};
    for (const Stretch& stretch : stretches) sum.first += stretch.tokens, sum.second += stretch.rows;
    return sum;
  }

  // The number, in its tree, of the first of the last `count` tokens.
  static Index number(const Stretch& stretch, Index count) { return stretch.context->tree().size() - count; }

  void remember(Index l, std::span<const Stretch> stretches) {
    Index column = 0;
    for (const Stretch& stretch : stretches)
      for (Index i = 0; i < stretch.tokens; ++i, ++column)
        attention_.remember(stretch.context->length(), stretch.context->tree(),
                            number(stretch, stretch.tokens) + i, &joined_(weights_->key_row(), column),
                            &joined_(weights_->value_row(), column), stretch.context->cache(l));
  }

  void attend(Index l, std::span<const Stretch> stretches) {
    Index column = 0, row = 0;
    for (const Stretch& stretch : stretches) {
      column += stretch.tokens;
      if (stretch.rows > 0)
        attention_(stretch.context->length(), stretch.seen, stretch.context->tree(),
                   number(stretch, stretch.rows), joined_.middleCols(column - stretch.rows, stretch.rows),
                   stretch.context->cache(l), normed_.middleCols(row, stretch.rows));
      row += stretch.rows;
    }
  }

  // RMSNorm of `count` tokens from `first` on.
  void normalise(const Columns& from, const Eigen::ArrayXf& weights, Index first, Index count) {
    for (Index i = 0; i < count; ++i)
      rms_norm(&from(0, first + i), weights, shape().dim, normed_.col(i).data());
  }

  static Vectors vectors(const Columns& columns, Index count) {
    return {columns.data(), count, columns.rows()};
  }

  std::shared_ptr<const Weights<Scalar>> weights_;
  Attention attention_;
  Columns stream_;  // the layers add to it
  Columns normed_, joined_, hidden_, logits_;
};

}  // namespace transformer

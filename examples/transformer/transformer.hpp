// A Llama model on Eigen: a target or a draft model with a real KV cache.
// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", arXiv:2302.13971, section 2.2,
// and "Llama 2", arXiv:2307.09288, section 2.2: pre-normalisation by RMSNorm (Zhang, Sennrich, arXiv:1910.07467,
// equation 4), SwiGLU (Shazeer, arXiv:2002.05202, equation 6), RoPE (rotation.hpp), grouped-query attention
// (attention.hpp).
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "transformer/attention.hpp"
#include "transformer/error.hpp"
#include "transformer/panels.hpp"
#include "transformer/product.hpp"
#include "transformer/shape.hpp"
#include "transformer/weights.hpp"

namespace transformer {

using Token = std::int32_t;

/// A Llama model with a context, whose weights are kept as float or Eigen::half. A model of logits as
/// specdec::ProcessedModel takes it.
///
///   transformer::Transformer<float> model("stories15M.bin");
///   specdec::ProcessedModel target{model, specdec::Chain{specdec::Temperature{0.8}}};
///
/// All tokens of a call go through a layer together, so that its weights are read once.
/// Copies share the weights, which never change, and have a context each.
/// Cost: no allocation once as many tokens and as many rows have been asked for in one call.
/// Numeric: arithmetic in float. A row depends on the tokens before it alone, to the bit: not on how they were
/// cut into calls, nor on what has been rolled back.
template <class Scalar>
class Transformer {
 public:
  /// rows × vocab_size. A view that lives until the next call.
  using Logits = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                            Eigen::OuterStride<>>;

  /// Reads a checkpoint. Throws: std::runtime_error on a bad file.
  explicit Transformer(const std::string& checkpoint)
      : Transformer(std::make_shared<const Weights<Scalar>>(Weights<Scalar>::read(checkpoint))) {}

  explicit Transformer(std::shared_ptr<const Weights<Scalar>> weights)
      : weights_(std::move(weights)),
        caches_(static_cast<std::size_t>(shape().n_layers), KeyValueCache(shape())),
        attention_(shape()) {
    reserve(1, 1);
  }

  const Shape& shape() const { return weights_->shape; }
  Index vocab_size() const { return shape().vocab_size; }
  Index context_size() const { return shape().context_size; }
  /// Tokens in the context.
  Index length() const { return length_; }

  /// Appends `tokens` to the context and returns the logits after each of the last `rows` of them.
  /// Throws: std::invalid_argument unless 1 <= rows <= tokens.size() and every token is in the vocabulary;
  /// std::length_error where the tokens do not fit in the context. After a throw nothing has changed.
  Logits forward(std::span<const Token> tokens, Index rows) {
    check(tokens, rows);
    const Index count = static_cast<Index>(tokens.size());
    reserve(count, rows);
    for (Index i = 0; i < count; ++i)
      stream_.col(i).head(shape().dim) =
          weights_->embedding.row(tokens[static_cast<std::size_t>(i)]).template cast<float>().transpose();
    const Index last = shape().n_layers - 1;
    for (Index l = 0; l <= last; ++l)
      layer(weights_->layers[static_cast<std::size_t>(l)], caches_[static_cast<std::size_t>(l)], count,
            l < last ? count : rows);
    length_ += count;
    return classify(count - rows, rows);
  }

  /// Keeps the first `length` tokens of the context; does nothing where there are no more. O(1): keys and values
  /// beyond are overwritten by the tokens that come there next.
  void truncate(Index length) noexcept { length_ = std::clamp<Index>(length, 0, length_); }

 private:
  using Columns = Eigen::ArrayXXf;  // one a token, padded with zeros

  template <class Error, class... Words>
  [[noreturn]] static void fail(const Words&... words) {
    transformer::fail<Error>("transformer: ", words...);
  }

  void check(std::span<const Token> tokens, Index rows) const {
    const Index count = static_cast<Index>(tokens.size());
    if (rows < 1 || rows > count)
      fail<std::invalid_argument>("rows = ", rows, " is outside 1..", count, ", the number of tokens");
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] < 0 || tokens[i] >= vocab_size())
        fail<std::invalid_argument>("tokens[", i, "] = ", tokens[i], " is outside the vocabulary 0..",
                                    vocab_size() - 1);
    if (count > context_size() - length_)
      fail<std::length_error>(count, " tokens after ", length_, " do not fit in the context of ",
                              context_size());
  }

  // Room for a call, before anything changes. (Eigen's own resize() would leave a pointer to nowhere where there
  // is no memory.)
  void reserve(Index count, Index rows) {
    const auto grow = [](Columns& columns, Index size, Index needed) {
      if (columns.cols() < needed) Columns(Columns::Zero(size, needed)).swap(columns);
    };
    grow(stream_, padded(shape().dim), count);
    grow(normed_, padded(shape().dim), count);
    grow(joined_, weights_->value_row() + padded(shape().kv_dim()), count);
    grow(hidden_, 2 * weights_->up_row(), count);
    grow(logits_, padded(vocab_size()), rows);
  }

  // What attention and the feed-forward network find is added to the stream of the last `rows` tokens. Those
  // before are of use to later layers only; the last one has just to remember them.
  void layer(const typename Weights<Scalar>::Layer& layer, KeyValueCache& cache, Index count, Index rows) {
    normalise(stream_, layer.attention_norm, 0, count);
    product(layer.query_key_value.view(), vectors(normed_, count), joined_.data(), joined_.rows());
    for (Index i = 0; i < count; ++i)
      attention_.remember(length_ + i, &joined_(weights_->key_row(), i), &joined_(weights_->value_row(), i),
                          cache);
    const Index first = count - rows;
    float* stream = stream_.col(first).data();
    attention_(length_ + first, joined_.middleCols(first, rows), cache, normed_);
    add_product(layer.output.view(), vectors(normed_, rows), stream, stream_.rows());

    normalise(stream_, layer.ffn_norm, first, rows);
    product(layer.gate_up.view(), vectors(normed_, rows), hidden_.data(), hidden_.rows());
    for (Index i = 0; i < rows; ++i) swiglu(hidden_.col(i));
    add_product(layer.down.view(), vectors(hidden_, rows), stream, stream_.rows());
  }

  // The first half becomes SiLU(first half) · second half.
  static void swiglu(Eigen::Ref<Eigen::ArrayXf> hidden) {
    using Map = Eigen::Map<Eigen::ArrayXf, Eigen::AlignedMax>;
    const Index size = hidden.size() / 2;
    Map gate(hidden.data(), size), up(hidden.data() + size, size);
    gate *= up / (1 + (-gate).exp());
  }

  // RMSNorm of `count` tokens from `first` on.
  void normalise(const Columns& from, const Eigen::ArrayXf& weights, Index first, Index count) {
    using Map = Eigen::Map<const Eigen::ArrayXf, Eigen::AlignedMax>;
    for (Index i = 0; i < count; ++i) {
      const Map x(&from(0, first + i), from.rows());
      const float mean_square = x.square().sum() / static_cast<float>(shape().dim);
      normed_.col(i) = x * (1 / std::sqrt(mean_square + 1e-5f)) * weights;
    }
  }

  Logits classify(Index first, Index rows) {
    normalise(stream_, weights_->final_norm, first, rows);
    product(weights_->classifier().view(), vectors(normed_, rows), logits_.data(), logits_.rows());
    return Logits(logits_.data(), rows, vocab_size(), Eigen::OuterStride<>(logits_.rows()));
  }

  static Vectors vectors(const Columns& columns, Index count) {
    return {columns.data(), count, columns.rows()};
  }

  std::shared_ptr<const Weights<Scalar>> weights_;
  std::vector<KeyValueCache> caches_;  // one a layer
  Attention attention_;
  Index length_ = 0;
  Columns stream_;  // what the layers add to
  Columns normed_, joined_, hidden_, logits_;
};

}  // namespace transformer

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
#include <iterator>
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
#include "transformer/tree.hpp"
#include "transformer/weights.hpp"

namespace transformer {

using Token = std::int32_t;

/// A Llama model with a context, whose weights are kept as float or Eigen::half. A model of logits as
/// specdec::ProcessedModel takes it, for lines of tokens and for trees.
///
///   transformer::Transformer<float> model("stories15M.bin");
///   specdec::ProcessedModel target{model, specdec::Chain{specdec::Temperature{0.8}}};
///
/// All tokens of a call go through a layer together, so that its weights are read once.
/// What a drafter that shares the model needs (early_exit.hpp is one): peek(), the guess of the first layers alone,
/// and features(), the states that the logits of the last call were made of.
/// Copies share the weights, which never change, and have a context each.
/// Cost: no allocation once as many tokens and as many rows have been asked for in one call.
/// Numeric: arithmetic in float. A row depends on the tokens before it alone, to the bit: not on how they were
/// cut into calls, nor on what has been rolled back, nor on the other branches of a tree.
template <class Scalar>
class Transformer {
 public:
  /// rows × vocab_size. A view that lives until the next call.
  using Logits = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                            Eigen::OuterStride<>>;
  /// dim × rows. A view that lives until the next call.
  using Features = Eigen::Map<const Eigen::MatrixXf, 0, Eigen::OuterStride<>>;

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
  /// Tokens in the context; those of an open tree are not.
  Index length() const { return length_; }

  /// Appends `tokens` to the context and returns the logits after each of the last `rows` of them.
  /// Throws: std::invalid_argument unless 1 <= rows <= tokens.size() and every token is in the vocabulary;
  /// std::length_error where the tokens do not fit in the context; std::logic_error while a tree is open. After a throw
  /// nothing has changed.
  Logits forward(std::span<const Token> tokens, Index rows) {
    check_closed();
    check(tokens, rows);
    reserve(std::ssize(tokens), rows);
    add_line(std::ssize(tokens));
    run(tokens, rows);
    length_ += std::ssize(tokens);
    tree_.clear();
    return classify(std::ssize(tokens) - rows, rows);
  }

  /// Adds `tokens` to the tree behind the context, which numbers its tokens from 0 on, across calls. tokens[k] follows
  /// token number parents[k], or the context itself where parents[k] = −1. Returns the logits after each of the last
  /// `rows` of them. The tree is open until keep() or truncate(). Every token takes a place in the context.
  /// Throws: as forward(tokens, rows), and std::invalid_argument unless there is a parent for each token, −1 or the
  /// number of a token before it.
  Logits forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    check(tokens, rows);
    if (parents.size() != tokens.size())
      fail<std::invalid_argument>("parents has ", parents.size(), " numbers, expected one for each of ",
                                  tokens.size(), " tokens");
    tree_.check_parents(parents);
    reserve(std::ssize(tokens), rows);
    for (const Index parent : parents) tree_.add(parent);
    run(tokens, rows);
    return classify(std::ssize(tokens) - rows, rows);
  }

  /// Makes a way of the tree, from the context outward, part of the context, and forgets the rest of the tree. Costs a
  /// copy of the keys and values of the tokens that are kept, where there were others before them.
  /// Throws: std::invalid_argument where the numbers are no such way. After a throw nothing has changed.
  void keep(std::span<const Index> path) {
    tree_.check_path(path);
    for (Index i = 0; i < std::ssize(path); ++i) {
      const Index token = path[static_cast<std::size_t>(i)];
      if (token == i) continue;  // i is its depth: its keys are turned for that place
      for (KeyValueCache& cache : caches_) cache.copy(length_ + token, length_ + i);
    }
    length_ += std::ssize(path);
    tree_.clear();
  }

  /// The logits after each of the last `rows` tokens, if `tokens` were appended and the model had its first `layers`
  /// layers only. They are not appended. But what this and earlier looks computed serves the next: a look at the same
  /// tokens and more takes only those, and a forward() that begins with the same tokens goes on where they stopped.
  /// Throws: as forward(), and std::invalid_argument unless layers is one of 1..n_layers.
  Logits peek(std::span<const Token> tokens, Index rows, Index layers) {
    check_closed();
    check(tokens, rows);
    if (layers < 1 || layers > shape().n_layers)
      fail<std::invalid_argument>("layers = ", layers, " is outside 1..", shape().n_layers);
    const Index count = std::ssize(tokens);
    reserve(count, rows);
    if (layers != ahead_layers_) ahead_.clear();
    add_line(count);
    const Index begun = this->begun(tokens);
    embed(tokens, begun);
    for (Index l = 0; l < layers && begun < count; ++l) layer(l, begun, count, count - begun);
    tree_.clear();
    ahead_.assign(tokens.begin(), tokens.end());
    ahead_layers_ = layers;
    return classify(count - rows, rows);
  }

  /// The states that the last call of forward() or peek() made its logits of, behind the last layer and before the
  /// final normalisation, one column a row of logits. For drafters with a head of their own on the target.
  Features features() const {
    return Features(&stream_(0, returned_first_), shape().dim, returned_rows_,
                    Eigen::OuterStride<>(stream_.rows()));
  }

  /// Forgets an open tree, and keeps the first `length` tokens of the context; does nothing more where there are no
  /// more. O(1): keys and values beyond are overwritten by the tokens that come there next.
  void truncate(Index length) noexcept {
    tree_.clear();
    if (length >= length_) return;
    length_ = std::max<Index>(length, 0);
    ahead_.clear();
  }

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
    if (count > context_size() - length_ - tree_.size())
      fail<std::length_error>(count, " tokens after ", length_ + tree_.size(),
                              " do not fit in the context of ", context_size());
  }

  void check_closed() const {
    if (!tree_.empty()) fail<std::logic_error>("a tree is open: keep() or truncate() closes it");
  }

  // Room for a call, before anything changes. (Eigen's own resize() would leave a pointer to nowhere where there
  // is no memory.)
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
    grow(logits_, padded(vocab_size()), rows);
    ahead_.reserve(static_cast<std::size_t>(count));
    tree_.reserve(tree_.size() + count);
  }

  // A line is a tree that does not branch.
  void add_line(Index count) {
    for (Index i = 0; i < count; ++i) tree_.add(i - 1);
  }

  // Takes the tokens, which are the last ones of the tree, through all layers, the last `rows` of them to the end.
  void run(std::span<const Token> tokens, Index rows) {
    const Index count = std::ssize(tokens), last = shape().n_layers - 1;
    const Index begun = this->begun(tokens), begun_layers = begun > 0 ? ahead_layers_ : 0;
    embed(tokens, begun);
    for (Index l = 0; l < begun_layers && begun < count; ++l) layer(l, begun, count, count - begun);
    for (Index l = begun_layers; l <= last; ++l) layer(l, 0, count, l < last ? count : rows);
    ahead_.clear();
  }

  // How many of the tokens have been through the first ahead_layers_ layers already. They are a line, so that a token
  // that is one of them has its number for its depth.
  Index begun(std::span<const Token> tokens) const {
    Index n = std::ranges::mismatch(tokens, ahead_).in1 - tokens.begin();
    while (n > 0 && tree_.depth(n - 1) != n - 1) --n;
    return n;
  }

  void embed(std::span<const Token> tokens, Index first) {
    for (Index i = first; i < std::ssize(tokens); ++i)
      stream_.col(i).head(shape().dim) =
          weights_->embedding.row(tokens[static_cast<std::size_t>(i)]).template cast<float>().transpose();
  }

  // Takes the tokens from `start` to `end` of the call, the last ones of the tree, through a layer. What attention and
  // the feed-forward network find is added to the stream of the last `rows` of them. Those before are of use to later
  // layers only; the last one has just to remember them.
  void layer(Index l, Index start, Index end, Index rows) {
    const auto& layer = weights_->layers[static_cast<std::size_t>(l)];
    KeyValueCache& cache = caches_[static_cast<std::size_t>(l)];
    const Index count = end - start, number = tree_.size() - end;  // of the call's first token in the tree
    normalise(stream_, layer.attention_norm, start, count);
    product(layer.query_key_value.view(), vectors(normed_, count), joined_.data(), joined_.rows());
    for (Index i = 0; i < count; ++i)
      attention_.remember(length_, tree_, number + start + i, &joined_(weights_->key_row(), i),
                          &joined_(weights_->value_row(), i), cache);
    const Index first = end - rows;
    float* stream = stream_.col(first).data();
    attention_(length_, tree_, number + first, joined_.middleCols(count - rows, rows), cache, normed_);
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
    returned_first_ = first;
    returned_rows_ = rows;
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
  Tree tree_;                 // behind the context; the tokens of a line are one while they are taken in
  std::vector<Token> ahead_;  // behind the context: the stream has them as they left layer ahead_layers_
  Index ahead_layers_ = 0;
  Index returned_first_ = 0, returned_rows_ = 0;  // columns of the stream: see features()
  Columns stream_;                                // what the layers add to, one column a token of the call
  Columns normed_, joined_, hidden_, logits_;
};

}  // namespace transformer

// A Llama model on Eigen: a target or a draft model with a real KV cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "transformer/context.hpp"
#include "transformer/error.hpp"
#include "transformer/layers.hpp"
#include "transformer/shape.hpp"
#include "transformer/weights.hpp"

namespace transformer {

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
  using Logits = typename Layers<Scalar>::Logits;
  using Features = typename Layers<Scalar>::Features;

  /// Reads a checkpoint. Throws: std::runtime_error on a bad file.
  explicit Transformer(const std::string& checkpoint)
      : Transformer(std::make_shared<const Weights<Scalar>>(Weights<Scalar>::read(checkpoint))) {}

  explicit Transformer(std::shared_ptr<const Weights<Scalar>> weights)
      : layers_(std::move(weights)), context_(shape()) {}

  const Shape& shape() const { return layers_.shape(); }
  Index vocab_size() const { return shape().vocab_size; }
  Index context_size() const { return shape().context_size; }
  /// Tokens in the context; those of an open tree are not.
  Index length() const { return context_.length(); }

  /// Appends `tokens` to the context and returns the logits after each of the last `rows` of them.
  /// Throws: std::invalid_argument unless 1 <= rows <= tokens.size() and every token is in the vocabulary;
  /// std::length_error where the tokens do not fit in the context; std::logic_error while a tree is open. After a throw
  /// nothing has changed.
  Logits forward(std::span<const Token> tokens, Index rows) {
    context_.check_closed();
    layers_.check(context_, tokens, rows, 1);
    reserve(std::ssize(tokens), rows);
    context_.add_line(std::ssize(tokens));
    run(tokens, rows);
    context_.take_line();
    return classify(std::ssize(tokens) - rows, rows);
  }

  /// Adds `tokens` to the tree behind the context, which numbers its tokens from 0 on, across calls. tokens[k] follows
  /// token number parents[k], or the context itself where parents[k] = −1. Returns the logits after each of the last
  /// `rows` of them. The tree is open until keep() or truncate(). Every token takes a place in the context.
  /// Throws: as forward(tokens, rows), and std::invalid_argument unless there is a parent for each token, −1 or the
  /// number of a token before it.
  Logits forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    layers_.check(context_, tokens, rows, 1);
    layers_.check_parents(context_, tokens, parents);
    reserve(std::ssize(tokens), rows);
    context_.add(parents);
    run(tokens, rows);
    return classify(std::ssize(tokens) - rows, rows);
  }

  /// Makes a way of the tree, from the context outward, part of the context, and forgets the rest of the tree. Costs a
  /// copy of the keys and values of the tokens that are kept, where there were others before them.
  /// Throws: std::invalid_argument where the numbers are no such way. After a throw nothing has changed.
  void keep(std::span<const Index> path) { context_.keep(path); }

  /// The logits after each of the last `rows` tokens, if `tokens` were appended and the model had its first `layers`
  /// layers only. They are not appended. But what this and earlier looks computed serves the next: a look at the same
  /// tokens and more takes only those, and a forward() that begins with the same tokens goes on where they stopped.
  /// Throws: as forward(), and std::invalid_argument unless layers is one of 1..n_layers.
  Logits peek(std::span<const Token> tokens, Index rows, Index layers) {
    context_.check_closed();
    layers_.check(context_, tokens, rows, 1);
    if (layers < 1 || layers > shape().n_layers)
      fail<std::invalid_argument>("transformer: layers = ", layers, " is outside 1..", shape().n_layers);
    reserve(std::ssize(tokens), rows);
    if (layers != ahead_layers_) ahead_.clear();
    context_.add_line(std::ssize(tokens));
    begin(tokens, begun(tokens), layers);
    context_.close();
    ahead_.assign(tokens.begin(), tokens.end());
    ahead_layers_ = layers;
    return classify(std::ssize(tokens) - rows, rows);
  }

  /// The states that the last call of forward() or peek() made its logits of, behind the last layer and before the
  /// final normalisation, one column a row of logits. For drafters with a head of their own on the target.
  Features features() const { return layers_.features(returned_first_, returned_rows_); }

  /// Forgets an open tree, and keeps the first `length` tokens of the context; does nothing more where there are no
  /// more. O(1): keys and values beyond are overwritten by the tokens that come there next.
  void truncate(Index length) noexcept {
    if (length < context_.length()) ahead_.clear();
    context_.truncate(length);
  }

 private:
  // Room for a call, before anything changes.
  void reserve(Index count, Index rows) {
    layers_.reserve(count, rows);
    ahead_.reserve(static_cast<std::size_t>(count));
    context_.reserve(count);
  }

  // Takes the tokens, which are the last ones of the tree, through all layers, the last `rows` of them to the end.
  void run(std::span<const Token> tokens, Index rows) {
    const Index count = std::ssize(tokens), last = shape().n_layers - 1;
    const Index begun = this->begun(tokens), begun_layers = begun > 0 ? ahead_layers_ : 0;
    begin(tokens, begun, begun_layers);
    for (Index l = begun_layers; l <= last; ++l) layer(l, 0, count, l < last ? count : rows);
    ahead_.clear();
  }

  // Takes the tokens from number `begun` on through the first layers, which those before have been through.
  void begin(std::span<const Token> tokens, Index begun, Index layers) {
    const Index count = std::ssize(tokens);
    layers_.embed(tokens.subspan(static_cast<std::size_t>(begun)), begun);
    for (Index l = 0; l < layers && begun < count; ++l) layer(l, begun, count, count - begun);
  }

  // Takes the tokens from `start` to `end` of the call, the last ones of the tree, through a layer.
  void layer(Index l, Index start, Index end, Index rows) {
    const Stretch stretch{&context_, end - start, rows};
    layers_.run(l, std::span(&stretch, 1), start);
  }

  // How many of the tokens have been through the first ahead_layers_ layers already. They are a line, so that a token
  // that is one of them has its number for its depth.
  Index begun(std::span<const Token> tokens) const {
    Index n = std::ranges::mismatch(tokens, ahead_).in1 - tokens.begin();
    while (n > 0 && context_.tree().depth(n - 1) != n - 1) --n;
    return n;
  }

  Logits classify(Index first, Index rows) {
    returned_first_ = first;
    returned_rows_ = rows;
    return layers_.classify(first, rows);
  }

  Layers<Scalar> layers_;
  Context context_;
  std::vector<Token> ahead_;  // behind the context: the stream has them as they left layer ahead_layers_
  Index ahead_layers_ = 0;
  Index returned_first_ = 0, returned_rows_ = 0;  // columns of the stream: see features()
};

}  // namespace transformer

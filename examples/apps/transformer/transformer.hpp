// A Llama model on Eigen with a KV cache, as target or draft model.
// SPDX-License-Identifier: MIT
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
#include "transformer/long_context.hpp"
#include "transformer/shape.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/weights.hpp"

namespace transformer {

/// A Llama model with a context. Its weights are float or Eigen::half. It is a model of logits for specdec::ProcessedModel,
/// and takes lines and trees.
///
///   transformer::Transformer<float> model("stories15M.bin");
///   specdec::ProcessedModel target{model, specdec::Chain{specdec::Temperature{0.8}}};
///
/// All tokens of a call go through a layer together, so that its weights are read once.
/// For drafters that share the model, peek() gives the logits of some sublayers (self_draft.hpp), features() the states
/// before the logits of the last call, and hidden() the states of chosen layers after the context (speculator.hpp, medusa.hpp).
/// Copies share the weights, which never change, and each has its own context.
/// Cost: no allocation once a call with as many tokens and rows was made.
/// Numeric: arithmetic in float. A row depends only on the tokens before it, to the bit: not on how they were cut into
/// calls, not on a rollback, and not on other branches of a tree.
template <class Scalar>
class Transformer {
 public:
  using Logits = typename Layers<Scalar>::Logits;
  using Features = typename Layers<Scalar>::Features;

  /// Reads a checkpoint.
  /// Throws: std::runtime_error on a bad file.
  explicit Transformer(const std::string& checkpoint)
      : Transformer(std::make_shared<const Weights<Scalar>>(Weights<Scalar>::read(checkpoint))) {}

  /// Reads a checkpoint, and changes it by an adapter for long contexts.
  /// Throws: std::runtime_error on a bad file, and if the adapter is for models of another shape.
  Transformer(const std::string& checkpoint, const LongContext& adapter)
      : Transformer(std::make_shared<const Weights<Scalar>>(Weights<Scalar>::read(checkpoint, &adapter))) {}

  explicit Transformer(std::shared_ptr<const Weights<Scalar>> weights)
      : layers_(std::move(weights)), context_(shape()) {}

  const Shape& shape() const { return layers_.shape(); }
  /// For heads that use the final norm and the classifier, too (medusa.hpp).
  const std::shared_ptr<const Weights<Scalar>>& weights() const { return layers_.weights(); }
  Index vocab_size() const { return shape().vocab_size; }
  Index context_size() const { return shape().context_size; }
  /// The number of tokens in the context, without an open tree.
  Index length() const { return context_.length(); }

  /// Appends `tokens` to the context and returns the logits after each of the last `rows` of them. After a throw nothing has
  /// changed.
  /// Throws: std::invalid_argument unless 1 <= rows <= tokens.size() and every token is in the vocabulary;
  /// std::length_error if the tokens do not fit in the context; std::logic_error while a tree is open.
  Logits forward(std::span<const Token> tokens, Index rows) {
    context_.check_closed();
    layers_.check(context_, tokens, rows, 1);
    reserve(std::ssize(tokens), rows);
    context_.add_line(std::ssize(tokens));
    run(tokens, rows);
    context_.take_line();
    return classify(std::ssize(tokens) - rows, rows);
  }

  /// Adds `tokens` to the tree after the context, and returns the logits after each of the last `rows` of them. The tokens
  /// of the tree are numbered from 0, across calls. tokens[k] follows token number parents[k]; −1 is the context. The tree
  /// is open until keep() or truncate(). Every token takes a place in the context.
  /// Throws: as forward(tokens, rows), and std::invalid_argument unless each token has a parent, which is −1 or the number
  /// of an earlier token.
  Logits forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    layers_.check(context_, tokens, rows, 1);
    layers_.check_parents(context_, tokens, parents);
    reserve(std::ssize(tokens), rows);
    context_.add(parents);
    run(tokens, rows);
    return classify(std::ssize(tokens) - rows, rows);
  }

  /// Makes a path of the tree part of the context, and forgets the rest of the tree. After a throw nothing has changed.
  /// Throws: std::invalid_argument unless the numbers are a path that begins at the context.
  /// Cost: copies the keys and values of kept tokens that are not in their slots, because other tokens came before them.
  void keep(std::span<const Index> path) { context_.keep(path); }

  /// The logits after each of the last `rows` tokens by some sublayers alone. The tokens are not appended. For the tokens of
  /// the context, attention reads the keys and values that all sublayers made. A peek() by these sublayers at these tokens
  /// and more computes only the new ones. If the sublayers are the first layers, whole, and read the whole context, a
  /// forward() that begins with these tokens runs them only through the remaining layers.
  /// Throws: as forward(), and std::invalid_argument if the sublayers are of more layers than the model has.
  /// Cost: no allocation once a peek() with as many tokens and rows, and with sublayers of as many layers, was made.
  Logits peek(std::span<const Token> tokens, Index rows, const Sublayers& sublayers) {
    context_.check_closed();
    layers_.check(context_, tokens, rows, 1);
    if (sublayers.layers() > shape().n_layers)
      fail<std::invalid_argument>("transformer: the sublayers are of ", sublayers.layers(),
                                  " layers, the model has ", shape().n_layers);
    reserve(std::ssize(tokens), rows);
    if (sublayers != ahead_by_) {
      ahead_.clear();
      ahead_by_ = sublayers;
    }
    context_.add_line(std::ssize(tokens));
    look(tokens, begun(tokens));
    context_.close();
    ahead_.assign(tokens.begin(), tokens.end());
    return classify(std::ssize(tokens) - rows, rows);
  }

  /// The states of the last forward() or peek(), after the last layer and before the final normalisation: one column for
  /// each row of logits. For drafters with their own head on the target.
  Features features() const { return layers_.features(returned_first_, returned_rows_); }

  /// From now on hidden() shows what these layers, numbered from 1, return. All tokens then go through all layers: in a long
  /// prompt this costs up to 1 / n_layers more.
  /// Throws: std::invalid_argument unless these are layers; std::logic_error unless the context is empty.
  void show_hidden(std::span<const Index> layers) {
    if (length() > 0 || !context_.tree().empty())
      fail<std::logic_error>("transformer: show_hidden() after ", length(),
                             " tokens: the context must be empty");
    layers_.check_layers(layers);
    shown_.assign(layers.begin(), layers.end());
    context_.remember_states(std::ssize(shown_) * shape().dim, context_size());
    ahead_.clear();
  }
  /// The states that the shown layers returned for the last token of the context, layer after layer: see
  /// specdec::ShowsHidden. The column lives until the next call.
  /// Pre: show_hidden() was called, and the context is not empty.
  auto hidden() const { return context_.state(); }
  /// The same for token number `token` of the context: see specdec::ShowsHiddenAt.
  /// Pre: 0 <= token < length().
  auto hidden_at(Index token) const { return context_.state(token); }

  /// Forgets an open tree, and keeps the first `length` tokens of the context, or all if it has fewer.
  /// Cost: O(1). The next tokens overwrite the keys and values that are left.
  void truncate(Index length) noexcept {
    if (length < context_.length()) ahead_.clear();
    context_.truncate(length);
  }

 private:
  // Makes room for a call, before anything changes.
  void reserve(Index count, Index rows) {
    layers_.reserve(count, rows);
    ahead_.reserve(static_cast<std::size_t>(count));
    context_.reserve(count);
  }

  // Runs the tokens, the last ones of the tree, through all layers; only the last `rows` of them leave the last layer,
  // unless its states are shown. Tokens that a peek() ran through the first layers, whole, go on from there. Other sublayers
  // leave nothing that all layers could go on from; the keys and values that they wrote are overwritten.
  void run(std::span<const Token> tokens, Index rows) {
    const Index count = std::ssize(tokens), last = shape().n_layers - 1;
    const Index whole = ahead_by_.whole_layers(), begun = whole > 0 ? this->begun(tokens) : 0;
    embed(tokens, begun);
    for (Index l = 0; l <= last; ++l) {
      const Index start = l < whole ? begun : 0;
      const bool all_leave = l < last || start > 0 || !shown_.empty();
      if (start < count) layer(l, start, count, all_leave ? count - start : rows);
    }
    ahead_.clear();
  }

  // Runs the tokens from number `begun` on through the sublayers of a peek(). The earlier tokens have been through them.
  void look(std::span<const Token> tokens, Index begun) {
    const Index count = std::ssize(tokens) - begun;
    if (count == 0) return;
    embed(tokens, begun);
    const Stretch stretch{&context_, count, count, ahead_by_.seen()};
    for (Index l = 0; l < ahead_by_.layers(); ++l) {
      if (ahead_by_.attention(l)) layers_.add_attention(l, std::span(&stretch, 1), begun);
      if (ahead_by_.feed_forward(l)) layers_.add_feed_forward(l, begun, count);
      layers_.remember_hidden(l, shown_, begun, count, context_);
    }
  }

  void embed(std::span<const Token> tokens, Index begun) {
    layers_.embed(tokens.subspan(static_cast<std::size_t>(begun)), begun);
  }

  // Runs tokens [start, end) of the call, the last ones of the tree, through a layer.
  void layer(Index l, Index start, Index end, Index rows) {
    const Stretch stretch{&context_, end - start, rows};
    layers_.run(l, std::span(&stretch, 1), start);
    layers_.remember_hidden(l, shown_, start, end - start, context_);
  }

  // The number of tokens that have been through the sublayers of the last peek(). Tokens of a peek() are a line, so the
  // number of such a token is its depth.
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
  std::vector<Index> shown_;  // the layers of hidden(), numbered from 1
  std::vector<Token> ahead_;  // after the context; the stream has their states after the sublayers ahead_by_
  Sublayers ahead_by_;
  Index returned_first_ = 0, returned_rows_ = 0;  // columns of the stream: see features()
};

}  // namespace transformer

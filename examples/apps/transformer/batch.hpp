// A Llama model for many texts: each layer multiplies the tokens of all texts at once.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <specdec/model/feed.hpp>
#include <specdec/model/model.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "transformer/contexts.hpp"
#include "transformer/error.hpp"
#include "transformer/layers.hpp"
#include "transformer/shape.hpp"
#include "transformer/weights.hpp"

namespace transformer {

/// A Transformer for many sequences: a batch model of logits for specdec::ProcessedModel, which takes lines and trees.
///
///   transformer::TransformerBatch<float> model("stories15M.bin");
///   specdec::ProcessedModel target{model, specdec::Chain{specdec::Temperature{0.8}}};
///
/// All tokens of a call go through a layer together, so that its weights are read once for all sequences. Each token attends
/// only to its own context (contexts.hpp).
/// Copies share the weights and have their own contexts.
/// Cost: no allocation once a call with as many tokens, rows and sequences was made.
/// Numeric: rows equal the rows of a Transformer with this sequence alone, to the bit.
template <class Scalar>
class TransformerBatch {
 public:
  using Logits = typename Layers<Scalar>::Logits;

  /// Reads a checkpoint.
  /// Throws: std::runtime_error on a bad file.
  explicit TransformerBatch(const std::string& checkpoint)
      : TransformerBatch(std::make_shared<const Weights<Scalar>>(Weights<Scalar>::read(checkpoint))) {}

  explicit TransformerBatch(std::shared_ptr<const Weights<Scalar>> weights)
      : layers_(std::move(weights)), contexts_(shape()) {}

  const Shape& shape() const { return layers_.shape(); }
  Index vocab_size() const { return shape().vocab_size; }
  /// The most tokens of each sequence.
  Index context_size() const { return shape().context_size; }
  /// The number of tokens in a sequence's context, without an open tree.
  Index length(Index sequence) const { return contexts_.of(sequence).length(); }
  /// From now on hidden() shows what these layers, numbered from 1, return: see Transformer::show_hidden.
  /// Throws: std::invalid_argument unless these are layers; std::logic_error unless there is no sequence.
  void show_hidden(std::span<const Index> layers) {
    if (contexts_.in_use()) fail<std::logic_error>("transformer: show_hidden() while there are sequences");
    layers_.check_layers(layers);
    shown_.assign(layers.begin(), layers.end());
    contexts_.remember_states(std::ssize(shown_) * shape().dim);
  }
  /// The states that the shown layers returned for the last token of the sequence's context, layer after layer: see
  /// specdec::ShowsHidden. The column lives until the next call.
  /// Pre: show_hidden() was called, and the context is not empty.
  auto hidden(Index sequence) const { return contexts_.of(sequence).state(); }
  /// The same for token number `token` of the context: see specdec::ShowsHiddenAt.
  auto hidden_at(Index sequence, Index token) const { return contexts_.of(sequence).state(token); }
  /// The number of contexts, including the unused ones.
  Index contexts() const { return contexts_.size(); }

  /// Appends the tokens of each feed to the context of its sequence, or to the tree after it if they have parents. Returns
  /// the logits after the last feed.rows tokens of each feed, feed after feed. After a throw nothing has changed.
  /// Throws: as Transformer::forward for any feed, but a feed may want 0 rows; std::invalid_argument if a context does not
  /// hold feed.from tokens, and on two feeds of one sequence.
  Logits forward(Feeds feeds) {
    contexts_.check(feeds, layers_);
    const FeedSizes sizes(feeds);
    contexts_.reserve(feeds);
    layers_.reserve(sizes.tokens, sizes.rows);
    run(feeds, contexts_.begin(feeds), sizes.tokens);
    contexts_.take_lines(feeds);
    return layers_.classify(sizes.tokens - sizes.rows, sizes.rows);
  }

  /// Forgets an open tree, and keeps the first `length` tokens of the context.
  void keep(Index sequence, Index length) noexcept { contexts_.keep(sequence, length); }
  /// Makes a path of the tree part of the context, and forgets the rest of the tree. After a throw nothing has changed.
  /// Throws: std::invalid_argument unless the numbers are a path that begins at the context.
  void keep(Index sequence, std::span<const Index> path) { contexts_.keep(sequence, path); }
  void release(Index sequence) noexcept { contexts_.release(sequence); }

 private:
  // Runs the tokens through all layers; only the last feed.rows tokens of each feed leave the last layer, unless its states
  // are shown. Then their states move together.
  void run(Feeds feeds, std::span<Stretch> stretches, Index tokens) {
    Index column = 0;
    for (const specdec::BatchFeed& feed : feeds) {
      layers_.embed(feed.tokens, column);
      column += std::ssize(feed.tokens);
    }
    const Index last = shape().n_layers - 1;
    for (Index l = 0; l < last; ++l) layer(l, stretches);
    if (!shown_.empty()) layer(last, stretches);
    for (std::size_t i = 0; i < feeds.size(); ++i) stretches[i].rows = feeds[i].rows;
    if (!shown_.empty()) layers_.move_rows(stretches, tokens);
    else layers_.run(last, stretches, 0);
  }
  void layer(Index l, std::span<const Stretch> stretches) {
    layers_.run(l, stretches, 0);
    Index column = 0;
    for (const Stretch& stretch : stretches) {
      layers_.remember_hidden(l, shown_, column, stretch.tokens, *stretch.context);
      column += stretch.tokens;
    }
  }

  Layers<Scalar> layers_;
  Contexts contexts_;
  std::vector<Index> shown_;  // the layers of hidden(), numbered from 1
};

}  // namespace transformer

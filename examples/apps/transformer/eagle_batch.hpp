// An EAGLE layer for many texts: one call serves the tokens of all texts.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <iterator>
#include <span>
#include <specdec/model/feed.hpp>

#include "transformer/contexts.hpp"
#include "transformer/eagle.hpp"
#include "transformer/layers.hpp"

namespace transformer {

/// The layer with a context for each sequence, a specdec::BatchDraftLayer:
///
///   transformer::TransformerBatch<float> target("target.bin");
///   transformer::EagleBatch<float> layer("eagle.bin");
///   target.show_hidden(layer.layers());
///   specdec::EagleModel eagle{target, layer};
///
/// All tokens of a call go through the layer together, so that its weights are read once for all sequences. Each token
/// attends only to its own context (contexts.hpp).
/// Copies share the weights and have their own contexts.
/// Cost: no allocation once a call with as many tokens, rows and sequences was made.
/// Numeric: rows and states equal those of an Eagle with this sequence alone, to the bit.
template <class Scalar>
class EagleBatch : public EagleLayer<Scalar> {
  using Base = EagleLayer<Scalar>;
  using Base::layers_;

 public:
  using Base::Base;
  using typename Base::Logits;

  /// Appends the tokens of each feed to the context of its sequence, or to the tree after it if they have parents. `states`
  /// and `next` have a column for each token, feed after feed: the state after the token before it or after its parent, and
  /// the layer's own state after the token. Returns the logits after the last feed.rows tokens of each feed, feed after
  /// feed. After a throw nothing has changed.
  /// Throws: as TransformerBatch::forward.
  Logits forward(const Eigen::Ref<const Eigen::MatrixXf>& states, Feeds feeds,
                 Eigen::Ref<Eigen::MatrixXf> next) {
    contexts_.check(feeds, layers_, "EAGLE layer: ");
    const FeedSizes sizes(feeds);
    contexts_.reserve(feeds);
    Base::reserve(sizes.tokens, sizes.rows);
    const std::span<Stretch> stretches = contexts_.begin(feeds);
    embed(feeds);
    Base::run(states, stretches, sizes.tokens, next);
    for (std::size_t i = 0; i < feeds.size(); ++i) stretches[i].rows = feeds[i].rows;
    layers_.move_rows(stretches, sizes.tokens);
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
  void embed(Feeds feeds) {
    Index column = 0;
    for (const specdec::BatchFeed& feed : feeds) {
      Base::embed(feed.tokens, column);
      column += std::ssize(feed.tokens);
    }
  }

  Contexts contexts_{Base::shape()};
};

}  // namespace transformer

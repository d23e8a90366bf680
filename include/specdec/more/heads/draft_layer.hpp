// Layers that draft, for EagleModel.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/heads/hidden_states.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The requirements of layers for many texts, besides the requirements of heads and of models.
template <class L>
concept LayerTakesFeeds = requires(L& layer, const Eigen::Ref<const Eigen::MatrixXf>& states,
                                   std::span<const BatchFeed> feeds, Eigen::Ref<Eigen::MatrixXf> next) {
  { layer.forward(states, feeds, next) } -> NumberMatrix;
};

}  // namespace detail

/// A layer that drafts: a small network with a KV cache, which reads a state beside each token.
///
///   vocab_size(), state_size()     numbers of tokens in the vocabulary, and of floats in a state
///   begin(hidden, state)           writes the state that is made of the target's hidden_at(i) to the column `state`
///   forward(states, tokens, next, rows)
///                                  appends `tokens` to the context. Column i of `states` is the state after the token
///                                  before tokens[i]: the target's, or the layer's own. Writes the layer's own state after
///                                  tokens[i] to column i of `next`. Returns a matrix of logits, with a row after each of
///                                  the last `rows` tokens (0 <= rows <= tokens.size()); they live until the next call.
///   truncate(length)               keeps the first `length` tokens of the context. Must not throw.
///   context_size()                 optional: how many tokens the context can hold
///   copies_context                 optional: true if a copy has a copy of the context; then twins of a text get one
///   token_map()                    optional: a const TokenMap*, for a layer that drafts only some of the target's tokens
///                                  (EAGLE-3). Then vocab_size() and the logits are of its own tokens: see Head
///
/// A layer that takes trees also has forward(states, tokens, parents, next, rows) and keep(path): see model/trees.hpp. Column i of
/// `states` is then the state after the parent of tokens[i]. A throw of forward() may leave what truncate() takes away.
///
/// The first token of a text comes with zeros. A layer that was trained without first tokens leaves it out of its keys.
template <class L>
concept DraftLayer =
    detail::HasSizes<L> && detail::BeginsStates<L> && detail::TakesStates<L> && detail::HasTruncate<L>;

/// A layer that drafts for many texts in one call, so that its weights are read once. Each sequence has a number and a
/// context of its own. It differs from a DraftLayer in these functions:
///
///   forward(states, feeds, next)   appends each feed's tokens to the context of its sequence, or to its tree if they have
///                                  parents. The columns of `states` and `next` are for these tokens, feed after feed.
///                                  Returns a matrix of logits, feed after feed: a row after each of the last feed.rows
///                                  tokens, often none. They live until the next call. A new number begins an empty
///                                  context, and feed.from is the length of the layer's context.
///   keep(sequence, length)         keeps the first `length` tokens of the context. Must not throw.
///   release(sequence)              forgets the sequence and its context. Must not throw.
///
/// A layer that takes trees also has keep(sequence, path): see model/trees.hpp. A layer may have fork(from, to), which gives a
/// new number a copy of a context: see BatchModel. keep() and release() do nothing for an unknown number. Each feed has tokens,
/// and no sequence is in two feeds. A row must not depend on the other feeds. A throw of forward() may leave
/// anything that keep(sequence, length) takes away. A layer that is also a DraftLayer is called with feeds.
template <class L>
concept BatchDraftLayer = detail::HasSizes<L> && detail::BeginsStates<L> && detail::LayerTakesFeeds<L> &&
                          detail::KeepsLength<L> && detail::HasRelease<L>;

namespace detail {

/// Whether a layer takes trees.
template <class L>
inline constexpr bool layer_takes_trees =
    requires(L& layer, const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> tokens,
             Eigen::Ref<Eigen::MatrixXf> next, std::span<const Index> numbers, Index rows) {
      layer.forward(states, tokens, numbers, next, rows);
      layer.keep(numbers);
    };
template <BatchDraftLayer L>
inline constexpr bool layer_takes_trees<L> =
    requires(L& layer, Index sequence, std::span<const Index> path) { layer.keep(sequence, path); };

/// Never called: its type is that of a layer's logits.
template <class L>
auto logits_of(L& layer, Eigen::Ref<Eigen::MatrixXf> states) {
  const Eigen::Ref<const Eigen::MatrixXf> before(states);
  if constexpr (BatchDraftLayer<L>) return layer.forward(before, std::span<const BatchFeed>(), states);
  else return layer.forward(before, std::span<const Token>(), states, Index{0});
}

/// Calls a layer with feeds of one text or of many. A DraftLayer is copied for each of many texts.
template <class Layer, bool one_text>
class LayerOverFeeds {
  static constexpr bool together = BatchDraftLayer<Layer>;
  static constexpr bool copied = !one_text && !together;

 public:
  using States = Eigen::MatrixXf;
  using Scalar = typename decltype(logits_of(std::declval<Layer&>(), std::declval<States&>()))::Scalar;
  static constexpr bool forks = (copied && copies_context<Layer>) || can_fork<Layer>;

  explicit LayerOverFeeds(Layer layer) : layer_(std::move(layer)) {
    if constexpr (!together) layer_.truncate(0);
    else if constexpr (one_text) layer_.keep(0, 0);
  }

  Layer& layer() { return layer_; }
  const Layer& layer() const { return layer_; }

  /// Calls take(k, rows) with the logits of each feed. After a throw the layer may hold some of the tokens.
  template <class Take>
  void forward(const Eigen::Ref<const States>& states, std::span<const BatchFeed> feeds,
               Eigen::Ref<States> next, const Take& take) {
    if constexpr (together) {
      const auto& logits = layer_.forward(states, feeds, next);
      check_shape("layer", logits.rows(), logits.cols(), rows_of(feeds), layer_.vocab_size());
      Index row = 0;
      for (std::size_t k = 0; k < feeds.size(); row += feeds[k++].rows)
        take(k, logits.middleRows(row, feeds[k].rows));
    } else {
      Index column = 0;
      for (std::size_t k = 0; k < feeds.size(); ++k) {
        const Index count = std::ssize(feeds[k].tokens);
        const auto check_and_take = [&](const auto& logits) {
          check_shape("layer", logits.rows(), logits.cols(), feeds[k].rows, layer_.vocab_size());
          take(k, logits);
        };
        call(feeds[k], states.middleCols(column, count), next.middleCols(column, count), check_and_take);
        column += count;
      }
    }
  }
  void keep(Index sequence, Index length) noexcept {
    if constexpr (together) layer_.keep(sequence, length);
    else if (Layer* const layer = find(sequence)) layer->truncate(length);
  }
  void keep(Index sequence, std::span<const Index> path)
    requires layer_takes_trees<Layer>
  {
    if constexpr (together) layer_.keep(sequence, path);
    else if (Layer* const layer = find(sequence)) layer->keep(path);
  }
  void release(Index sequence) {
    if constexpr (together) layer_.release(sequence);
    else if constexpr (copied) copies_.erase(sequence);
  }
  void fork(Index from, Index to)
    requires forks
  {
    if constexpr (together) layer_.fork(from, to);
    else if (const Layer* const layer = find(from)) copies_.make(to, *layer);
  }

 private:
  // The layer of a text, or null if the text has none yet.
  Layer* find([[maybe_unused]] Index sequence) {
    if constexpr (copied) return copies_.find(sequence);
    else return &layer_;
  }

  template <class Take>
  void call(const BatchFeed& feed, const Eigen::Ref<const States>& states, Eigen::Ref<States> next,
            const Take& take) {
    Layer* layer = &layer_;
    if constexpr (copied) layer = &copies_.make(feed.sequence, layer_);
    if constexpr (layer_takes_trees<Layer>)
      if (!feed.parents.empty())
        return take(layer->forward(states, feed.tokens, feed.parents, next, feed.rows));
    take(layer->forward(states, feed.tokens, next, feed.rows));
  }

  Layer layer_;  // if it is copied, its own context stays empty
  PerSequence<Layer> copies_;
};

}  // namespace detail
}  // namespace specdec

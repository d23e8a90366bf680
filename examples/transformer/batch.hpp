// A Llama model for many texts: each layer multiplies the tokens of all texts at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <ostream>
#include <span>
#include <specdec/model/batch_model.hpp>
#include <specdec/model/feed.hpp>
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

/// A Transformer for many sequences: a batch model of logits for specdec::ProcessedModel, which takes lines and trees.
///
///   transformer::TransformerBatch<float> model("stories15M.bin");
///   specdec::ProcessedModel target{model, specdec::Chain{specdec::Temperature{0.8}}};
///
/// All tokens of a call go through a layer together, so that its weights are read once for all sequences. Each token attends
/// only to its own context. The first feed of a sequence makes its context; a released context is used again for another
/// sequence. So there are as many contexts as there were sequences at a time.
/// Copies share the weights and have their own contexts.
/// Cost: no allocation once a call with as many tokens, rows and sequences was made.
/// Numeric: rows equal the rows of a Transformer with this sequence alone, to the bit.
template <class Scalar>
class TransformerBatch {
  using Feeds = std::span<const specdec::BatchFeed>;

 public:
  using Logits = typename Layers<Scalar>::Logits;

  /// Reads a checkpoint.
  /// Throws: std::runtime_error on a bad file.
  explicit TransformerBatch(const std::string& checkpoint)
      : TransformerBatch(std::make_shared<const Weights<Scalar>>(Weights<Scalar>::read(checkpoint))) {}

  explicit TransformerBatch(std::shared_ptr<const Weights<Scalar>> weights) : layers_(std::move(weights)) {}

  const Shape& shape() const { return layers_.shape(); }
  Index vocab_size() const { return shape().vocab_size; }
  /// The most tokens of each sequence.
  Index context_size() const { return shape().context_size; }
  /// The number of tokens in a sequence's context, without an open tree.
  Index length(Index sequence) const { return context_of(sequence).length(); }
  /// From now on hidden() shows what these layers, numbered from 1, return: see Transformer::show_hidden.
  /// Throws: std::invalid_argument unless these are layers; std::logic_error unless there is no sequence.
  void show_hidden(std::span<const Index> layers) {
    if (std::ranges::count(seats_, true, &Seat::taken) > 0)
      fail<std::logic_error>("transformer: show_hidden() while there are sequences");
    layers_.check_layers(layers);
    shown_.assign(layers.begin(), layers.end());
    seats_.clear();  // their contexts have no room for the states
  }
  /// The states that the shown layers returned for the last token of the sequence's context, layer after layer: see
  /// specdec::ShowsHidden. The column lives until the next call.
  /// Pre: show_hidden() was called, and the context is not empty.
  auto hidden(Index sequence) const { return context_of(sequence).state(); }
  /// The same for token number `token` of the context: see specdec::ShowsHiddenAt.
  auto hidden_at(Index sequence, Index token) const { return context_of(sequence).state(token); }
  /// The number of contexts, including the unused ones.
  Index contexts() const { return std::ssize(seats_); }

  /// Appends the tokens of each feed to the context of its sequence, or to the tree after it if they have parents. Returns
  /// the logits after the last feed.rows tokens of each feed, feed after feed. After a throw nothing has changed.
  /// Throws: as Transformer::forward for any feed, but a feed may want 0 rows; std::invalid_argument if a context does not
  /// hold feed.from tokens, and on two feeds of one sequence.
  Logits forward(Feeds feeds) {
    for (std::size_t i = 0; i < feeds.size(); ++i) check(feeds, i);
    reserve(feeds);
    for (std::size_t i = 0; i < feeds.size(); ++i) stretches_[i].context = &begin(feeds[i]);
    const Index end = run(feeds);
    for (std::size_t i = 0; i < feeds.size(); ++i)
      if (feeds[i].parents.empty()) stretches_[i].context->take_line();
    return layers_.classify(end - rows_, rows_);
  }

  /// Forgets an open tree, and keeps the first `length` tokens of the context.
  void keep(Index sequence, Index length) noexcept {
    if (Seat* const seat = find(sequence)) seat->context.truncate(length);
  }
  /// Makes a path of the tree part of the context, and forgets the rest of the tree. After a throw nothing has changed.
  /// Throws: std::invalid_argument unless the numbers are a path that begins at the context.
  void keep(Index sequence, std::span<const Index> path) {
    if (Seat* const seat = find(sequence)) seat->context.keep(path);
  }
  void release(Index sequence) noexcept {
    if (Seat* const seat = find(sequence)) {
      seat->context.truncate(0);
      seat->taken = false;
    }
  }

 private:
  struct Seat {
    Context context;
    Index sequence = 0;
    bool taken = false;
  };

  // The place of an error in a call.
  struct Where {
    std::size_t feed;
    friend std::ostream& operator<<(std::ostream& out, const Where& where) {
      return out << "feeds[" << where.feed << "]: ";
    }
  };

  // A linear search: there are few sequences, and a call costs much more.
  const Seat* find(Index sequence) const {
    for (const Seat& seat : seats_)
      if (seat.taken && seat.sequence == sequence) return &seat;
    return nullptr;
  }
  Seat* find(Index sequence) { return const_cast<Seat*>(std::as_const(*this).find(sequence)); }

  // An empty context if the sequence is new.
  const Context& context_of(Index sequence) const {
    const Seat* const seat = find(sequence);
    return seat ? seat->context : none_;
  }

  void check(Feeds feeds, std::size_t number) const {
    const specdec::BatchFeed& feed = feeds[number];
    const Where where{number};
    const Context& context = context_of(feed.sequence);
    for (std::size_t i = 0; i < number; ++i)
      if (feeds[i].sequence == feed.sequence)
        fail<std::invalid_argument>("transformer: ", where, "sequence ", feed.sequence, " is in feeds[", i,
                                    "], too");
    if (feed.from != context.length())
      fail<std::invalid_argument>("transformer: ", where, "from = ", feed.from, ", but sequence ",
                                  feed.sequence, " has ", context.length(), " tokens in its context");
    layers_.check(context, feed.tokens, feed.rows, 0, where);
    if (feed.parents.empty()) context.check_closed(where);
    else layers_.check_parents(context, feed.tokens, feed.parents, where);
  }

  // Makes room for a call, before anything changes.
  void reserve(Feeds feeds) {
    Index tokens = 0, rows = 0, unmet = 0;
    for (const specdec::BatchFeed& feed : feeds) {
      tokens += std::ssize(feed.tokens);
      rows += feed.rows;
      if (!find(feed.sequence)) ++unmet;
    }
    Index free = std::ranges::count(seats_, false, &Seat::taken);
    for (; free < unmet; ++free) {
      seats_.push_back({Context(shape())});
      if (!shown_.empty())
        seats_.back().context.remember_states(std::ssize(shown_) * shape().dim, context_size());
    }
    for (Seat& seat : seats_) seat.context.reserve(tokens);
    layers_.reserve(tokens, rows);
    stretches_.resize(feeds.size());
    rows_ = rows;
  }

  // Adds the feed's tokens to the tree of its sequence.
  Context& begin(const specdec::BatchFeed& feed) {
    Seat* seat = find(feed.sequence);
    if (!seat) {
      seat = &*std::ranges::find(seats_, false, &Seat::taken);
      seat->sequence = feed.sequence;
      seat->taken = true;
    }
    if (feed.parents.empty()) seat->context.add_line(std::ssize(feed.tokens));
    else seat->context.add(feed.parents);
    return seat->context;
  }

  // Runs the tokens through all layers; only the last feed.rows tokens of each feed leave the last layer, unless its states
  // are shown. Then their states move together. Returns the number of tokens.
  Index run(Feeds feeds) {
    Index column = 0;
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      stretches_[i].tokens = stretches_[i].rows = std::ssize(feeds[i].tokens);
      layers_.embed(feeds[i].tokens, column);
      column += stretches_[i].tokens;
    }
    const Index last = shape().n_layers - 1;
    for (Index l = 0; l < last; ++l) layer(l);
    if (!shown_.empty()) layer(last);
    for (std::size_t i = 0; i < feeds.size(); ++i) stretches_[i].rows = feeds[i].rows;
    if (!shown_.empty()) layers_.move_rows(stretches_, column);
    else layers_.run(last, stretches_, 0);
    return column;
  }
  void layer(Index l) {
    layers_.run(l, stretches_, 0);
    Index column = 0;
    for (const Stretch& stretch : stretches_) {
      layers_.remember_hidden(l, shown_, column, stretch.tokens, *stretch.context);
      column += stretch.tokens;
    }
  }

  Layers<Scalar> layers_;
  Context none_;
  std::vector<Seat> seats_;
  std::vector<Stretch> stretches_;  // one for each feed of a call
  std::vector<Index> shown_;        // the layers of hidden(), numbered from 1
  Index rows_ = 0;
};

}  // namespace transformer

// A Llama model with many contexts: one product a layer for the tokens of all of them.
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

/// A Transformer for many sequences: a batch model of logits as specdec::ProcessedModel takes it, for lines of tokens and
/// for trees.
///
///   transformer::TransformerBatch<float> model("stories15M.bin");
///   specdec::ProcessedModel target{model, specdec::Chain{specdec::Temperature{0.8}}};
///
/// All tokens of a call, whosever they are, go through a layer together, so that its weights are read once for all
/// sequences; each attends to its own context only. The context of a sequence is made when it is first met. One that is
/// released serves the next: there are as many as there have been sequences at a time.
/// Copies share the weights, and have contexts of their own.
/// Cost: no allocation once as many tokens, rows and sequences have been there.
/// Numeric: rows are those of a Transformer that the sequence has for itself, to the bit.
template <class Scalar>
class TransformerBatch {
  using Feeds = std::span<const specdec::BatchFeed>;

 public:
  using Logits = typename Layers<Scalar>::Logits;

  /// Reads a checkpoint. Throws: std::runtime_error on a bad file.
  explicit TransformerBatch(const std::string& checkpoint)
      : TransformerBatch(std::make_shared<const Weights<Scalar>>(Weights<Scalar>::read(checkpoint))) {}

  explicit TransformerBatch(std::shared_ptr<const Weights<Scalar>> weights) : layers_(std::move(weights)) {}

  const Shape& shape() const { return layers_.shape(); }
  Index vocab_size() const { return shape().vocab_size; }
  /// Of each sequence.
  Index context_size() const { return shape().context_size; }
  /// Tokens in a sequence's context; those of an open tree are not.
  Index length(Index sequence) const { return context_of(sequence).length(); }
  /// How many contexts there are, those that nobody has included.
  Index contexts() const { return std::ssize(seats_); }

  /// Appends each feed's tokens to the context of its sequence, or, where they have parents, to the tree behind it, and
  /// returns the logits after each of the last feed.rows of them, feed after feed.
  /// Throws: what Transformer::forward does of any feed, but that 0 rows may be wanted; std::invalid_argument where a
  /// context does not hold feed.from tokens, and on two feeds of one sequence. After a throw nothing has changed.
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
  /// Makes a way of the tree part of the context, and forgets the rest of the tree.
  /// Throws: std::invalid_argument where the numbers are no such way. After a throw nothing has changed.
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

  // Where in a call something is wrong.
  struct Where {
    std::size_t feed;
    friend std::ostream& operator<<(std::ostream& out, const Where& where) {
      return out << "feeds[" << where.feed << "]: ";
    }
  };

  // Sequences are few, and a call costs much more than to look through them.
  const Seat* find(Index sequence) const {
    for (const Seat& seat : seats_)
      if (seat.taken && seat.sequence == sequence) return &seat;
    return nullptr;
  }
  Seat* find(Index sequence) { return const_cast<Seat*>(std::as_const(*this).find(sequence)); }

  // An empty one where the sequence has not been met.
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

  // Room for a call, before anything changes.
  void reserve(Feeds feeds) {
    Index tokens = 0, rows = 0, unmet = 0;
    for (const specdec::BatchFeed& feed : feeds) {
      tokens += std::ssize(feed.tokens);
      rows += feed.rows;
      if (!find(feed.sequence)) ++unmet;
    }
    Index free = std::ranges::count(seats_, false, &Seat::taken);
    for (; free < unmet; ++free) seats_.push_back({Context(shape())});
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

  // Takes the tokens through all layers, the last rows of each feed to the end, and returns how many they are.
  Index run(Feeds feeds) {
    Index column = 0;
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      stretches_[i].tokens = stretches_[i].rows = std::ssize(feeds[i].tokens);
      layers_.embed(feeds[i].tokens, column);
      column += stretches_[i].tokens;
    }
    const Index last = shape().n_layers - 1;
    for (Index l = 0; l < last; ++l) layers_.run(l, stretches_, 0);
    for (std::size_t i = 0; i < feeds.size(); ++i) stretches_[i].rows = feeds[i].rows;
    layers_.run(last, stretches_, 0);
    return column;
  }

  Layers<Scalar> layers_;
  Context none_;
  std::vector<Seat> seats_;
  std::vector<Stretch> stretches_;  // of a call
  Index rows_ = 0;
};

}  // namespace transformer

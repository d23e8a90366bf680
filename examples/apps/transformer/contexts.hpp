// The contexts of many sequences.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <ostream>
#include <span>
#include <specdec/model/feed.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "transformer/context.hpp"
#include "transformer/error.hpp"
#include "transformer/layers.hpp"
#include "transformer/shape.hpp"

namespace transformer {

using Feeds = std::span<const specdec::BatchFeed>;

/// The tokens and the rows of all feeds together.
struct FeedSizes {
  Index tokens = 0, rows = 0;

  explicit FeedSizes(Feeds feeds) {
    for (const specdec::BatchFeed& feed : feeds) {
      tokens += std::ssize(feed.tokens);
      rows += feed.rows;
    }
  }
};

/// The contexts of many sequences, for a model that serves all of them in one call. The first feed of a sequence makes its
/// context; a released context is used again for another sequence. So there are as many contexts as there were sequences
/// at a time. A call goes through check(), reserve(), begin() and take_lines(), in this order.
/// Cost: no allocation once as many sequences were there, with trees and feeds as large.
class Contexts {
 public:
  explicit Contexts(const Shape& shape) : shape_(shape) {}

  /// The number of contexts, including the unused ones.
  Index size() const { return std::ssize(seats_); }
  /// Whether there are sequences.
  bool in_use() const { return std::ranges::count(seats_, true, &Seat::taken) > 0; }
  /// The context of a sequence: an empty one if the sequence is new.
  const Context& of(Index sequence) const {
    const Seat* const seat = find(sequence);
    return seat ? seat->context : none_;
  }
  /// From now on each context has room for a hidden state of `size` numbers for each token, or for none if size = 0.
  /// Pre: there are no sequences.
  void remember_states(Index size) {
    state_size_ = size;
    seats_.clear();  // their contexts have other room for the states
  }

  /// Checks the feeds of a call. The messages begin with `words`.
  /// Throws: as Layers::check, Layers::check_parents and Context::check_closed for any feed; std::invalid_argument if a
  /// context does not hold feed.from tokens, and on two feeds of one sequence.
  template <class Scalar, class... Words>
  void check(Feeds feeds, const Layers<Scalar>& layers, const Words&... words) const {
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      const Where where{i};
      check_place(feeds, i, words..., where);
      const specdec::BatchFeed& feed = feeds[i];
      const Context& context = of(feed.sequence);
      layers.check(context, feed.tokens, feed.rows, 0, words..., where);
      if (feed.parents.empty()) context.check_closed(words..., where);
      else layers.check_parents(context, feed.tokens, feed.parents, words..., where);
    }
  }

  /// Makes room for a call, before anything changes.
  void reserve(Feeds feeds) {
    Index unmet = 0, longest = 0;  // of feeds that begin a sequence
    for (const specdec::BatchFeed& feed : feeds)
      if (Seat* const seat = find(feed.sequence)) {
        seat->context.reserve(std::ssize(feed.tokens));
      } else {
        longest = std::max(longest, static_cast<Index>(std::ssize(feed.tokens)));
        ++unmet;
      }
    for (Index free = std::ranges::count(seats_, false, &Seat::taken); free < unmet; ++free) {
      seats_.push_back({Context(shape_)});
      if (state_size_ > 0) seats_.back().context.remember_states(state_size_, shape_.context_size);
    }
    for (Seat& seat : seats_)
      if (!seat.taken) seat.context.reserve(longest);
    stretches_.resize(feeds.size());
  }

  /// Adds each feed's tokens to the tree of its sequence. Returns a stretch for each feed, of which all tokens are rows. The
  /// view lives until the next reserve().
  std::span<Stretch> begin(Feeds feeds) {
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      const Index count = std::ssize(feeds[i].tokens);
      stretches_[i] = {&begin(feeds[i]), count, count};
    }
    return stretches_;
  }
  /// Makes the lines of the call part of their contexts.
  void take_lines(Feeds feeds) {
    for (std::size_t i = 0; i < feeds.size(); ++i)
      if (feeds[i].parents.empty()) stretches_[i].context->take_line();
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

  // Checks that a feed continues its context, and is the only one that does.
  template <class... Words>
  void check_place(Feeds feeds, std::size_t number, const Words&... words) const {
    const specdec::BatchFeed& feed = feeds[number];
    for (std::size_t i = 0; i < number; ++i)
      if (feeds[i].sequence == feed.sequence)
        fail<std::invalid_argument>("transformer: ", words..., "sequence ", feed.sequence, " is in feeds[", i,
                                    "], too");
    const Index length = of(feed.sequence).length();
    if (feed.from != length)
      fail<std::invalid_argument>("transformer: ", words..., "from = ", feed.from, ", but sequence ",
                                  feed.sequence, " has ", length, " tokens in its context");
  }

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

  Shape shape_;
  Index state_size_ = 0;
  Context none_;
  std::vector<Seat> seats_;
  std::vector<Stretch> stretches_;  // one for each feed of a call
};

}  // namespace transformer

// A llama.cpp backend for many texts at a time: a GGUF model as a specdec::BatchModel of logits. It serves as target and as
// draft model.
//
//   LlamaBatch target{LlamaWeights{"target.gguf"}, {.sequences = 8}}, draft{LlamaWeights{"draft.gguf"}, {.sequences = 8}};
//   check_same_vocabulary(target.weights(), draft.weights());
//   specdec::Chain chain{specdec::Temperature{0.8}};
//   specdec::Batch batch{specdec::ProcessedModel{target, chain},
//                        specdec::ModelDrafter{specdec::ProcessedModel{draft, chain}}};
// SPDX-License-Identifier: MIT
#pragma once

#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <ostream>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../transformer/error.hpp"
#include "llama_context.hpp"
#include "llama_weights.hpp"

/// A context over weights, with one KV cache for many sequences. A specdec::BatchModel of logits, for lines of tokens.
///
/// It shares the weights, and can be moved but not copied. A call is one llama_decode. The rows that forward() returns
/// point to llama.cpp's own logits until the next call. Each sequence has a sequence id of llama.cpp; release() frees it
/// for another sequence. All sequences share the cells of the cache.
///
/// Numeric: a row is the row of a LlamaModel with this sequence alone, up to rounding. llama.cpp adds the same numbers in an
/// order that depends on the number of tokens in the call and on their cells.
/// Cost: no allocation once a call with as many tokens and rows was made.
class LlamaBatch {
  using Index = specdec::Index;
  using Feeds = std::span<const specdec::BatchFeed>;

 public:
  struct Options {
    Index sequences = 8;  ///< the most sequences at a time
    Index context = 0;    ///< the most tokens of a sequence; 0: the context that the model was trained for
    Index cells = 0;      ///< the most tokens of all sequences together; 0: sequences times context
    Index batch = 512;    ///< the most tokens that llama.cpp computes at once
    int threads = 1;
  };

  explicit LlamaBatch(LlamaWeights weights) : LlamaBatch(std::move(weights), Options{}) {}

  /// Throws: std::runtime_error if llama.cpp cannot make the context, and for a recurrent model; std::invalid_argument if
  /// options.sequences < 1.
  LlamaBatch(LlamaWeights weights, const Options& options)
      : context_size_(options.context > 0 ? options.context : weights.trained_context()),
        cells_(options.cells > 0 ? options.cells : context_size_ * checked(options.sequences)),
        context_(not_recurrent(std::move(weights)), {.cells = cells_,
                                                     .batch = std::max(cells_, checked(options.sequences)),
                                                     .at_once = options.batch,
                                                     .sequences = options.sequences,
                                                     .threads = options.threads}),
        seats_(static_cast<std::size_t>(options.sequences)) {
    for (std::size_t i = 0; i < seats_.size(); ++i) seats_[i].id = static_cast<llama_seq_id>(i);
    fed_.reserve(seats_.size());
  }

  const LlamaWeights& weights() const { return context_.weights(); }
  Index vocab_size() const { return weights().vocab_size(); }
  /// The most tokens of a sequence.
  Index context_size() const { return context_size_; }
  /// The most tokens of all sequences together, and the number that they hold now.
  Index cells() const { return cells_; }
  Index held() const { return held_; }
  /// The number of tokens that a sequence holds now.
  Index length(Index sequence) const {
    const Seat* const seat = find(sequence);
    return seat ? seat->length : 0;
  }

  /// Appends the tokens of each feed to its sequence. Returns the logits after the last feed.rows tokens of each feed, feed
  /// after feed. After a throw every sequence is as before.
  /// Throws:
  ///   - std::length_error if there are too many sequences, if one would hold more than context_size() tokens, or if all
  ///     together would hold more than cells();
  ///   - std::invalid_argument on tokens outside the vocabulary, more rows than tokens, two feeds of one sequence, a
  ///     sequence that does not hold feed.from tokens, and drafts that branch;
  ///   - std::runtime_error if llama.cpp fails, or has failed to take back a sequence's tokens.
  specdec::RowPointers<float> forward(Feeds feeds) {
    for (std::size_t i = 0; i < feeds.size(); ++i) check(feeds, i);
    find_seats(feeds);
    begin_call(feeds);
    if (call_.size() > 0) decode(feeds);
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      fed_[i]->sequence = feeds[i].sequence;
      fed_[i]->taken = true;
      fed_[i]->length += std::ssize(feeds[i].tokens);
    }
    held_ += call_.size();
    return {pointers_, vocab_size()};
  }

  void keep(Index sequence, Index length) noexcept {
    Seat* const seat = find(sequence);
    if (!seat || (length >= seat->length && !seat->broken)) return;
    cut(*seat, std::clamp<Index>(length, 0, seat->length));
  }

  void release(Index sequence) noexcept {
    Seat* const seat = find(sequence);
    if (!seat) return;
    cut(*seat, 0);
    seat->taken = false;
  }

 private:
  // A sequence id of llama.cpp, and the sequence that uses it.
  struct Seat {
    llama_seq_id id = 0;
    Index sequence = 0, length = 0;
    bool taken = false;
    bool broken = false;  // llama.cpp could not remove tokens, and holds more than these
  };

  // The place of an error in a call.
  struct Where {
    std::size_t feed;
    friend std::ostream& operator<<(std::ostream& out, const Where& where) {
      return out << "feeds[" << where.feed << "]: ";
    }
  };

  static Index checked(Index sequences) {
    if (sequences < 1)
      transformer::fail<std::invalid_argument>("sequences = ", sequences,
                                               ": a context has one sequence at least");
    return sequences;
  }

  // A linear search: there are few sequences, and a call costs much more.
  const Seat* find(Index sequence) const {
    for (const Seat& seat : seats_)
      if (seat.taken && seat.sequence == sequence) return &seat;
    return nullptr;
  }
  Seat* find(Index sequence) { return const_cast<Seat*>(std::as_const(*this).find(sequence)); }

  void check(Feeds feeds, std::size_t number) const {
    using transformer::fail;
    const specdec::BatchFeed& feed = feeds[number];
    const Where where{number};
    for (std::size_t i = 0; i < number; ++i)
      if (feeds[i].sequence == feed.sequence)
        fail<std::invalid_argument>(where, "sequence ", feed.sequence, " is in feeds[", i, "], too");
    if (!feed.parents.empty())
      fail<std::invalid_argument>(where, "the draft branches, which LlamaBatch does not take");
    const Index count = std::ssize(feed.tokens);
    if (feed.rows < 0 || feed.rows > count)
      fail<std::invalid_argument>(where, "rows = ", feed.rows, " is outside 0..", count,
                                  ", the number of tokens");
    for (Index k = 0; k < count; ++k)
      if (const specdec::Token x = feed.tokens[static_cast<std::size_t>(k)]; x < 0 || x >= vocab_size())
        fail<std::invalid_argument>(where, "tokens[", k, "] = ", x, " is outside the vocabulary 0..",
                                    vocab_size() - 1);
    check_place(feed, where);
  }

  void check_place(const specdec::BatchFeed& feed, const Where& where) const {
    using transformer::fail;
    const Index held = length(feed.sequence), count = std::ssize(feed.tokens);
    if (const Seat* const seat = find(feed.sequence); seat && seat->broken)
      fail<std::runtime_error>(where, "sequence ", feed.sequence, " of '", weights().path(),
                               "' could not be rolled back");
    if (feed.from != held)
      fail<std::invalid_argument>(where, "from = ", feed.from, ", but sequence ", feed.sequence, " holds ",
                                  held, " tokens");
    if (count > context_size() - held)
      fail<std::length_error>(where, count, " tokens after ", held, " do not fit in the context of ",
                              context_size());
  }

  // Finds a seat for each feed, without taking it yet.
  void find_seats(Feeds feeds) {
    fed_.clear();
    auto next = seats_.begin();
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      Seat* seat = find(feeds[i].sequence);
      if (!seat) {
        next = std::find_if(next, seats_.end(), [this](Seat& other) { return is_free(other); });
        if (next == seats_.end())
          transformer::fail<std::length_error>(
              Where{i}, "sequence ", feeds[i].sequence, " is one more than '", weights().path(),
              "' has room for: ", seats_.size(), " (LlamaBatch::Options::sequences)");
        seat = &*next++;
      }
      fed_.push_back(seat);
    }
  }

  bool is_free(Seat& seat) {
    if (!seat.taken && seat.broken) cut(seat, 0);
    return !seat.taken && !seat.broken;
  }

  void begin_call(Feeds feeds) {
    Index tokens = 0, rows = 0;
    for (const specdec::BatchFeed& feed : feeds) {
      tokens += std::ssize(feed.tokens);
      rows += feed.rows;
    }
    if (tokens > cells() - held())
      transformer::fail<std::length_error>("the cache of '", weights().path(), "' is full: it holds ", held(),
                                           " of ", cells(), " tokens (LlamaBatch::Options::cells), and ",
                                           tokens, " more are to follow");
    pointers_.clear();
    pointers_.reserve(static_cast<std::size_t>(rows));
    call_.begin(static_cast<std::size_t>(tokens));
    for (std::size_t i = 0; i < feeds.size(); ++i) add(feeds[i], *fed_[i]);
  }

  void add(const specdec::BatchFeed& feed, Seat& seat) {
    const Index count = std::ssize(feed.tokens);
    for (Index k = 0; k < count; ++k)
      call_.add(feed.tokens[static_cast<std::size_t>(k)], feed.from + k, std::span(&seat.id, 1),
                k >= count - feed.rows);
  }

  void decode(Feeds feeds) {
    const auto undo = [&] {  // llama.cpp may hold a part of the call
      for (std::size_t i = 0; i < feeds.size(); ++i)
        fed_[i]->broken = !context_.remove(fed_[i]->id, feeds[i].from);
    };
    try {
      context_.decode(call_, 0, call_.size(), undo);
      take_rows(feeds);
    } catch (...) {
      undo();
      throw;
    }
  }

  void take_rows(Feeds feeds) {
    Index end = 0;
    for (const specdec::BatchFeed& feed : feeds) {
      end += std::ssize(feed.tokens);
      for (Index token = end - feed.rows; token < end; ++token) pointers_.push_back(context_.logits(token));
    }
  }

  void cut(Seat& seat, Index length) {
    held_ -= seat.length - length;
    seat.length = length;
    seat.broken = !context_.remove(seat.id, length);
  }

  Index context_size_, cells_;
  LlamaContext context_;
  std::vector<Seat> seats_;
  Index held_ = 0;
  // Of a call: the seats of its feeds, its tokens, and pointers to its logits.
  std::vector<Seat*> fed_;
  LlamaCall call_;
  std::vector<const float*> pointers_;
};

static_assert(specdec::BatchModel<LlamaBatch>);

// What wrappers of models have in common: the functions of a model, over feeds.
//
// A wrapper of a model is written once, over feeds. Around a model for one text the only sequence has number 0. All wrappers
// promise this, in addition to their own comments:
//
//   a model    a wrapper has the functions of BatchModel. Around a model for one text it is a Model, too: it has one context,
//              whatever number a feed has, and a feed that wants no row gets one
//   holds      a model passed as an lvalue is referred to and must outlive the wrapper; an rvalue is moved in. The model's
//              contexts must be empty then. Wrappers and drafters that refer to one model take turns: the one that takes
//              over calls truncate(0) first
//   throws     InvalidArgument if rows is outside 0..tokens.size() (forward(tokens, rows): 1..tokens.size()), if a context
//              does not hold feed.from tokens, if parents make no tree, or if the model returns rows of the wrong shape;
//              InvalidCall on a line (a feed without parents) while a tree is open; what the model throws. After a
//              throw of forward() all contexts are as before
//   forks      fork(from, to), if the model has it (see BatchModel). A Replayed for many texts has it if Snapshot can be copied
//   costs      no allocation in steady state
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Throws if a model returned the wrong number of rows, or rows of the wrong vocabulary size `size`. Such rows would be read
/// or copied out of bounds. The message calls the model `model`.
inline void check_shape(const char* model, Index rows, Index size, Index asked, Index vocab_size) {
  if (rows != asked || (asked > 0 && size != vocab_size))
    invalid_argument("the ", model, " returned ", rows, " rows over ", size, " tokens, expected ", asked,
                     asked == 1 ? " row" : " rows", " over its vocabulary of ", vocab_size);
}

/// The vocabulary size of a matrix's rows; 0 if it has no rows.
template <class Matrix>
Index row_size(const Matrix& rows) {
  return rows.rows() > 0 ? Index{rows.row(0).vocab_size()} : Index{0};
}

/// The rows that a model returned, as they lie (see rows_as_stored). The output must outlive them.
/// Throws: see check_shape.
template <Probabilities Output>
auto checked_rows(const Output& output, Index asked, Index vocab_size) {
  const auto rows = rows_as_stored(output);
  Index size = 0;
  if constexpr (NumberMatrix<Output>) size = rows.rows() > 0 ? rows.cols() : 0;
  else size = row_size(rows);
  check_shape("model", rows.rows(), size, asked, vocab_size);
  return rows;
}

/// How many rows all feeds want together.
inline Index rows_of(std::span<const BatchFeed> feeds) {
  Index rows = 0;
  for (const BatchFeed& feed : feeds) rows += feed.rows;
  return rows;
}

/// Throws if feed number k of a call does not fit after a context of `length` tokens and an open tree of `nodes` tokens. A line
/// continues the context, which is not known while a tree is open. A feed may want 0 rows, as a part of a prompt does.
inline void check_feed(const BatchFeed& feed, std::size_t k, Index length, Index nodes) {
  if (feed.from != length)
    invalid_argument("feeds[", k, "].from = ", feed.from, ", but the context of sequence ", feed.sequence,
                     " holds ", length, " tokens");
  if (feed.parents.empty() && nodes > 0)
    invalid_call("feeds[", k, "] has no parents while the tree of sequence ", feed.sequence,
                 " is open: keep() closes it");
  const Index tokens = std::ssize(feed.tokens);
  if (feed.rows < 0 || feed.rows > tokens)
    invalid_argument("feeds[", k, "].rows = ", feed.rows, " is outside 0..", tokens,
                     ", the number of its tokens");
  if (!feed.parents.empty()) check_parents(feed.tokens, feed.parents, nodes);
}

/// A State for each sequence.
template <class State>
class PerSequence {
 public:
  State* find(Index sequence) {
    const auto found = states_.find(sequence);
    return found == states_.end() ? nullptr : &found->second;
  }
  State& at(Index sequence) { return states_.find(sequence)->second; }
  const State& at(Index sequence) const { return states_.find(sequence)->second; }
  /// The sequence's State. If there is none, State(arguments...) makes one.
  template <class... Arguments>
  State& make(Index sequence, Arguments&&... arguments) {
    return states_.try_emplace(sequence, std::forward<Arguments>(arguments)...).first->second;
  }
  /// The sequence's State. If there is none, one that begin() makes.
  State& at(Index sequence, const auto& begin) {
    State* const known = find(sequence);
    return known ? *known : make(sequence, begin());
  }
  void erase(Index sequence) { states_.erase(sequence); }
  Index size() const { return std::ssize(states_); }

 private:
  std::unordered_map<Index, State> states_;
};

/// Gives W the public functions of a model: forward(feeds), keep(sequence, length), release(sequence) and, with trees,
/// keep(sequence, path). With `one`, W is a Model, too: forward(tokens, rows), truncate(length) and, with trees, forward(tokens,
/// parents, rows) and keep(path) feed and cut back its only sequence. It has number 0 in W, whatever number a feed has.
///
/// W itself is written over feeds, and has these members, which may be private if ModelOverFeeds is a friend of W:
///
///   texts_, inner()                    the texts of its contexts (FedTexts), and the model that is told of them
///   begin_text(sequence)               a new one
///   rows_after(feeds, of_model)        the rows of feeds that texts_ has taken in; of_model is what texts_.enter() returned. After a
///                                      throw the texts forget them again
///   forward_feeds(feeds)               in place of the last two, where that order does not fit; after a throw all contexts are as
///                                      before
///   drafts_after(sequence, length)     whether it can_draft (see Model) after a context of so many tokens
///   fork_text(from, to)                if W::forks and there is more to do than to copy the text
///   adopt_text(sequence, tokens)       if W::adopts
template <class W, bool one, bool trees>
class ModelOverFeeds {
 public:
  static constexpr bool one_text = one;

  decltype(auto) forward(std::span<const BatchFeed> feeds) & {
    if constexpr (one) return feed_only_text(feeds);
    else return model().forward_feeds(feeds);
  }
  void keep(Index sequence, Index length) {
    if constexpr (one) cached_ = std::clamp<Index>(length, 0, cached_);
    model().texts_.truncate(one ? 0 : sequence, length, model().inner());
  }
  void keep(Index sequence, std::span<const Index> path)
    requires trees
  {
    const bool known = model().texts_.keep(one ? 0 : sequence, path, model().inner());
    if (one && known) cached_ += std::ssize(path);
  }
  void release(Index sequence) {
    if constexpr (one) keep(0, Index{0});
    else model().texts_.forget(sequence, model().inner());
  }

  /// Gives the new number `to` a copy of the context of `from`: see BatchModel.
  void fork(Index from, Index to)
    requires(!one && W::forks)
  {
    model().fork_text(from, to);
  }
  /// Begins with a context that somebody else has filled: see can_adopt.
  void adopt(Index sequence, std::span<const Token> tokens)
    requires(W::adopts)
  {
    model().adopt_text(one ? 0 : sequence, tokens);
    cached_ = std::ssize(tokens);
  }
  bool can_draft(Index sequence, Index length) const {
    return model().drafts_after(one ? 0 : sequence, length);
  }

  // The functions of a Model.

  decltype(auto) forward(std::span<const Token> tokens, Index rows) &
        requires one
  {
    return feed({.tokens = tokens, .from = cached_, .rows = rows});
  }
  decltype(auto) forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows)
    requires(one && trees)
  {
    check_parent_count(std::ssize(parents), std::ssize(tokens));
    return feed({.tokens = tokens, .from = cached_, .rows = rows, .parents = parents});
  }
  void truncate(Index length)
    requires one
  {
    keep(0, length);
  }
  void keep(std::span<const Index> path)
    requires(one && trees)
  {
    keep(0, path);
  }
  bool can_draft(Index length) const
    requires one
  {
    return can_draft(0, length);
  }

 protected:
  decltype(auto) forward_feeds(std::span<const BatchFeed> feeds) {
    const auto begin = [this](Index sequence) { return model().begin_text(sequence); };
    const std::span<const BatchFeed> of_model = model().texts_.enter(feeds, begin, model().inner());
    const auto ask = [&]() -> decltype(auto) { return model().rows_after(feeds, of_model); };
    return undo_on_error(ask, [&] { model().texts_.leave(feeds, model().inner()); });
  }
  void fork_text(Index from, Index to) { model().texts_.fork(from, to, model().inner()); }

 private:
  W& model() { return static_cast<W&>(*this); }
  const W& model() const { return static_cast<const W&>(*this); }

  decltype(auto) feed(const Feed& feed) {
    if (const Index tokens = std::ssize(feed.tokens); feed.rows < 1 || feed.rows > tokens)
      invalid_argument("rows = ", feed.rows, " is outside 1..", tokens, ", the number of tokens");
    const BatchFeed only{feed, 0};
    return feed_only_text(std::span<const BatchFeed>(&only, 1));
  }
  decltype(auto) feed_only_text(std::span<const BatchFeed> feeds) {
    if (feeds.size() != 1)
      invalid_argument("a model for one text is given ", feeds.size(), " feeds in a call, expected 1");
    BatchFeed only = feeds.front();
    only.sequence = 0;
    only.rows = std::max<Index>(only.rows, 1);
    decltype(auto) output = model().forward_feeds(std::span<const BatchFeed>(&only, 1));
    cached_ = only.from + (only.parents.empty() ? std::ssize(only.tokens) : 0);
    return output;
  }

  Index cached_ = 0;  // with one_text: how many tokens the context holds
};

/// Holds the model of a wrapper W, and gives W the public functions of a model (ModelOverFeeds).
template <class W, class M, bool trees = takes_trees<std::remove_reference_t<M>>>
class WrapsModel : public ModelOverFeeds<W, has_one_context<std::remove_reference_t<M>>, trees> {
 protected:
  using Functions = ModelOverFeeds<W, has_one_context<std::remove_reference_t<M>>, trees>;

 public:
  static constexpr bool steady_rows = has_steady_rows<std::remove_reference_t<M>>;
  static constexpr bool reads_again = true;  // a wrapped model's context can be cut back to any length
  static constexpr bool forks = can_fork<std::remove_reference_t<M>>;

  Index vocab_size() const { return inner_.model().vocab_size(); }
  Index context_size() const { return specdec::context_size(inner_.model()); }
  Index reach() const { return specdec::reach(inner_.model()); }
  void check_number(Index sequence) { detail::check_number(inner_.model(), sequence); }

  /// The model's addresses, if others may refer to it, too. Two wrappers around one model share its context.
  std::vector<const void*> identities() const { return shared_identities<M>(inner_.model()); }

 protected:
  explicit WrapsModel(M&& model) : inner_(std::forward<M>(model)) {}

  OverFeeds<M>& inner() { return inner_; }
  bool drafts_after(Index sequence, Index length) const {
    return can_draft_after(inner_.model(), sequence, length);
  }

 private:
  OverFeeds<M> inner_;
};

}  // namespace specdec::detail

// Calls any model with feeds: one text is a batch of one.
//
// A wrapper of a model is written once, over feeds. Around a model for many texts it passes the feeds on. Around a model for
// one text the only sequence has number 0. All wrappers promise this, in addition to their own comments:
//
//   a model    a wrapper around a model for one text is a model for one text; around a model for many texts, for many
//   holds      a model passed as an lvalue is referred to and must outlive the wrapper; an rvalue is moved in. The model's
//              contexts must be empty then. Wrappers and drafters that refer to one model take turns: the one that takes
//              over calls truncate(0) first
//   throws     InvalidArgument if rows is outside 1..tokens.size() (for many texts 0..tokens.size()), if a context
//              does not hold feed.from tokens, if parents make no tree, or if the model returns rows of the wrong shape;
//              InvalidCall on a line (a feed without parents) while a tree is open; what the model throws. After a
//              throw of forward() all contexts are as before
//   forks      fork(from, to), if the model has it (see BatchModel). A Replayed for many texts has it if Snapshot can be copied
//   costs      no allocation in steady state
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/model/batch_model.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Compiles only if a model has the functions that wrappers call; the error names the missing one. The result of forward()
/// is checked elsewhere. `any_length`: whether contexts are cut back to any length.
template <class M, bool any_length = true>
consteval bool can_be_wrapped() {
  if constexpr (any_length) fits_any_length<M>();
  if constexpr (ConstModel<M>) {
    fits_constness<M>();
  } else if constexpr (TakesFeeds<M>) {
    keeps_and_releases<M>();
  } else {
    sized_and_truncatable<M>();
    static_assert(
        TakesTokens<M>,
        "the model has no forward(std::span<const specdec::Token> tokens, specdec::Index rows) for one text, "
        "and no forward(std::span<const specdec::BatchFeed> feeds) for many: see specdec::Model and "
        "specdec::BatchModel");
  }
  return true;
}

/// Calls a model with feeds. The model is held by value (M) or referred to (M&).
///
///   forward(feeds)            returns what the model returns. A model for one text is given the only feed. It cannot be
///                             called for 0 rows: if the feed wants none, it is asked for one
///   keep(sequence, length)    calls truncate(length) of a model for one text
///   keep(sequence, path)      only if the model takes trees
///   release(sequence)         only for a model for many texts
///   fork(from, to)            only for a model that can_fork
template <class M>
class OverFeeds {
 public:
  using Value = std::remove_reference_t<M>;
  static constexpr bool for_many = TakesFeeds<Value>;

  explicit OverFeeds(M&& model) : model_(std::forward<M>(model)) {}

  Value& model() { return model_; }
  const Value& model() const { return model_; }

  decltype(auto) forward(std::span<const BatchFeed> feeds) {
    if constexpr (for_many) return model_.forward(feeds);
    else return forward_one(feeds.front());
  }
  void keep(Index sequence, Index length) {
    if constexpr (for_many) model_.keep(sequence, length);
    else model_.truncate(length);
  }
  void keep(Index sequence, std::span<const Index> path)
    requires takes_trees<Value>
  {
    if constexpr (for_many) model_.keep(sequence, path);
    else model_.keep(path);
  }
  void release(Index sequence) { model_.release(sequence); }
  void fork(Index from, Index to) { model_.fork(from, to); }

 private:
  decltype(auto) forward_one(const BatchFeed& feed) {
    const Index rows = std::max<Index>(feed.rows, 1);
    if constexpr (takes_trees<Value>) {
      static_assert(std::same_as<decltype(model_.forward(feed.tokens, rows)),
                                 decltype(model_.forward(feed.tokens, feed.parents, rows))>,
                    "the model's rows after a tree are of another type than its rows after a line");
      if (!feed.parents.empty()) return model_.forward(feed.tokens, feed.parents, rows);
    }
    return model_.forward(feed.tokens, rows);
  }

  M model_;
};

/// The type that a call of a model returns, for one text or for many.
template <class M>
using OutputOf = decltype(std::declval<OverFeeds<M&>&>().forward(std::span<const BatchFeed>{}));

/// The rows that a model returned, as they lie (see rows_as_stored). The output must outlive them.
///
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

/// Throws if feed number k of a call is not valid. Messages use the names of the caller's arguments.
template <bool for_many>
struct FeedCheck {
  const BatchFeed& feed;
  std::size_t k;

  /// A feed must begin where its sequence's context ends.
  void from(Index length) const {
    if (feed.from != length)
      invalid_argument("feeds[", k, "].from = ", feed.from, ", but the context of sequence ", feed.sequence,
                       " holds ", length, " tokens");
  }
  /// With many texts a feed may want 0 rows: it is a part of a prompt.
  void rows() const {
    const Index least = for_many ? 0 : 1, tokens = std::ssize(feed.tokens);
    if (feed.rows >= least && feed.rows <= tokens) return;
    if constexpr (for_many)
      invalid_argument("feeds[", k, "].rows = ", feed.rows, " is outside 0..", tokens,
                       ", the number of its tokens");
    else invalid_argument("rows = ", feed.rows, " is outside 1..", tokens, ", the number of tokens");
  }
  /// A line continues the context. While a tree is open, it is not known what the context will be.
  void branches(bool tree_is_open) const {
    if (!feed.parents.empty() || !tree_is_open) return;
    if constexpr (for_many)
      invalid_call("feeds[", k, "] has no parents while the tree of sequence ", feed.sequence,
                   " is open: keep() closes it");
    else invalid_call("forward(tokens, rows) while a tree is open: keep(path) or truncate(length) closes it");
  }
  /// All of these, and a feed's parents, after a context of `length` tokens and an open tree of `nodes` tokens.
  void after(Index length, Index nodes) const {
    from(length);
    branches(nodes > 0);
    rows();
    if (!feed.parents.empty()) check_parents(feed.tokens, feed.parents, nodes);
  }
};

/// A State for each sequence. A model for one text has at most one State, for sequence 0.
template <class State, bool for_many>
class PerSequence {
 public:
  State* find(Index) { return state_ ? &*state_ : nullptr; }
  State& at(Index) { return *state_; }
  const State& at(Index) const { return *state_; }
  /// The sequence's State. If there is none, State(arguments...) makes one.
  template <class... Arguments>
  State& make(Index, Arguments&&... arguments) {
    return state_ ? *state_ : state_.emplace(std::forward<Arguments>(arguments)...);
  }
  void erase(Index) { state_.reset(); }

 private:
  std::optional<State> state_;
};
template <class State>
class PerSequence<State, true> {
 public:
  State* find(Index sequence) {
    const auto found = states_.find(sequence);
    return found == states_.end() ? nullptr : &found->second;
  }
  State& at(Index sequence) { return states_.find(sequence)->second; }
  const State& at(Index sequence) const { return states_.find(sequence)->second; }
  template <class... Arguments>
  State& make(Index sequence, Arguments&&... arguments) {
    return states_.try_emplace(sequence, std::forward<Arguments>(arguments)...).first->second;
  }
  void erase(Index sequence) { states_.erase(sequence); }

 private:
  std::unordered_map<Index, State> states_;
};

/// Gives W the public functions of a model for one text (many = false) or for many:
///
///   for one text      forward(tokens, rows) and truncate(length); with trees also forward(tokens, parents, rows) and
///                     keep(path)
///   for many texts    forward(feeds), keep(sequence, length), release(sequence); with trees also keep(sequence, path)
///
/// W itself is written over feeds. It has these functions, which may be private if ModelOverFeeds is a friend of W:
///
///   forward_feeds(feeds)               the rows of the feeds; after a throw all contexts are as before
///   keep_length(sequence, length)      must not throw
///   keep_path(sequence, path)          if it takes trees
///   forget(sequence)                   if it is for many texts; must not throw
///   drafts_after(sequence, length)     whether it can_draft (see Model) after a context of so many tokens
///   fork_text(from, to)                if W::forks
///   adopt_text(sequence, tokens)       if W::adopts
template <class W, bool many, bool trees>
class ModelOverFeeds {
 protected:
  static constexpr bool for_many = many;

 public:
  decltype(auto) forward(std::span<const Token> tokens, Index rows) &
        requires(!many)
  {
    const BatchFeed feed{{.tokens = tokens, .from = cached_, .rows = rows}, 0};
    decltype(auto) output = model().forward_feeds(std::span<const BatchFeed>(&feed, 1));
    cached_ += std::ssize(tokens);
    return output;
  }
  decltype(auto) forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows)
    requires(!many && trees)
  {
    check_parent_count(std::ssize(parents), std::ssize(tokens));
    const BatchFeed feed{{.tokens = tokens, .from = cached_, .rows = rows, .parents = parents}, 0};
    return model().forward_feeds(std::span<const BatchFeed>(&feed, 1));
  }
  void keep(std::span<const Index> path)
    requires(!many && trees)
  {
    model().keep_path(0, path);
    cached_ += std::ssize(path);
  }
  void truncate(Index length)
    requires(!many)
  {
    model().keep_length(0, length);
    cached_ = std::clamp<Index>(length, 0, cached_);
  }

  decltype(auto) forward(std::span<const BatchFeed> feeds) &
        requires many
  {
    return model().forward_feeds(feeds);
  }
  void keep(Index sequence, Index length)
    requires many
  {
    model().keep_length(sequence, length);
  }
  void keep(Index sequence, std::span<const Index> path)
    requires(many && trees)
  {
    model().keep_path(sequence, path);
  }
  void release(Index sequence)
    requires many
  {
    model().forget(sequence);
  }

  /// Gives the new number `to` a copy of the context of `from`: see BatchModel.
  void fork(Index from, Index to)
    requires(many && W::forks)
  {
    model().fork_text(from, to);
  }
  /// Begins with a context that somebody else has filled: see can_adopt.
  void adopt(std::span<const Token> tokens)
    requires(!many && W::adopts)
  {
    model().adopt_text(0, tokens);
    cached_ = std::ssize(tokens);
  }
  void adopt(Index sequence, std::span<const Token> tokens)
    requires(many && W::adopts)
  {
    model().adopt_text(sequence, tokens);
  }

  bool can_draft(Index length) const
    requires(!many)
  {
    return model().drafts_after(0, length);
  }
  bool can_draft(Index sequence, Index length) const
    requires many
  {
    return model().drafts_after(sequence, length);
  }

 private:
  W& model() { return static_cast<W&>(*this); }
  const W& model() const { return static_cast<const W&>(*this); }

  Index cached_ = 0;  // for one text: how many tokens the context holds
};

/// Holds the model of a wrapper W, and gives W the public functions of a model for as many texts (ModelOverFeeds).
template <class W, class M, bool trees = takes_trees<std::remove_reference_t<M>>>
class WrapsModel : public ModelOverFeeds<W, OverFeeds<M>::for_many, trees> {
 protected:
  using Functions = ModelOverFeeds<W, OverFeeds<M>::for_many, trees>;

 public:
  static constexpr bool steady_rows = has_steady_rows<std::remove_reference_t<M>>;
  static constexpr bool reads_again = true;  // a wrapped model's context can be cut back to any length
  static constexpr bool forks = can_fork<std::remove_reference_t<M>>;

  Index vocab_size() const { return inner_.model().vocab_size(); }
  Index context_size() const { return specdec::context_size(inner_.model()); }
  Index reach() const { return specdec::reach(inner_.model()); }
  void check_number(Index sequence)
    requires(OverFeeds<M>::for_many)
  {
    detail::check_number(inner_.model(), sequence);
  }

  /// The model's addresses, if others may refer to it, too. Two wrappers around one model share its context.
  std::vector<const void*> identities() const { return shared_identities<M>(inner_.model()); }

 protected:
  explicit WrapsModel(M&& model) : inner_(std::forward<M>(model)) {}

  OverFeeds<M>& inner() { return inner_; }
  // The context holds these tokens. Somebody else has fed them to the model inside.
  void adopt_inside([[maybe_unused]] Index sequence, [[maybe_unused]] std::span<const Token> tokens) {
    if constexpr (knows_its_context<std::remove_reference_t<M>>) {
      if constexpr (OverFeeds<M>::for_many) inner_.model().adopt(sequence, tokens);
      else inner_.model().adopt(tokens);
    }
  }
  bool drafts_after(Index sequence, Index length) const {
    return can_draft_after(inner_.model(), sequence, length);
  }

 private:
  OverFeeds<M> inner_;
};

}  // namespace specdec::detail

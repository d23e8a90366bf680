// The door of a model: says what it lacks, and lifts it. One text is a batch of one.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Lifts a model: calls it with feeds, whatever it is. The model is held by value (M) or referred to (M&).
///
///   forward(feeds)            returns what the model returns. A model for one text is given the only feed. It cannot be called for
///                             0 rows: if the feed wants none, it returns one
///   keep(sequence, length)    calls truncate(length) of a Model
///   keep(sequence, path)      only if the model takes trees
///   release(sequence)         empties the context of a Model
///   fork(from, to)            only for a model that can_fork
///   adopt(sequence, tokens)   tells a model that remembers its contexts (see can_adopt) what somebody else has fed
template <class M>
class OverFeeds {
 public:
  using Value = std::remove_reference_t<M>;
  static constexpr bool one_text = has_one_context<Value>;

  explicit OverFeeds(M&& model) : model_(std::forward<M>(model)) {}

  Value& model() { return model_; }
  const Value& model() const { return model_; }

  decltype(auto) forward(std::span<const BatchFeed> feeds) {
    if constexpr (TakesFeeds<Value>) return model_.forward(feeds);
    else return forward_one(feeds.front());
  }
  void keep(Index sequence, Index length) {
    if constexpr (TakesFeeds<Value>) model_.keep(sequence, length);
    else model_.truncate(length);
  }
  void keep(Index sequence, std::span<const Index> path)
    requires takes_trees<Value>
  {
    if constexpr (TakesFeeds<Value>) model_.keep(sequence, path);
    else model_.keep(path);
  }
  void release(Index sequence) {
    if constexpr (TakesFeeds<Value>) model_.release(sequence);
    else model_.truncate(0);
  }
  void fork(Index from, Index to) { model_.fork(from, to); }
  void adopt([[maybe_unused]] Index sequence, [[maybe_unused]] std::span<const Token> tokens) {
    if constexpr (!knows_its_context<Value> || !can_adopt<Value>) return;
    else if constexpr (TakesFeeds<Value>) model_.adopt(sequence, tokens);
    else model_.adopt(tokens);
  }

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

/// The type that a call of a model returns.
template <class M>
using OutputOf = decltype(std::declval<OverFeeds<M&>&>().forward(std::span<const BatchFeed>{}));

/// Compiles only if a model has the functions that are called; the error names the missing one. What forward() returns is checked
/// elsewhere: some models return probabilities, others logits. `any_length`: whether contexts are cut back to any length.
template <class M, bool any_length = true>
consteval bool can_be_wrapped() {
  static_assert(
      goes_back_anywhere<M> || !any_length,
      "the model's context can be cut back only by reach() tokens, and is asked for more now and then: "
      "specdec::Reread, of specdec/more/models/reread.hpp, reads again what lies further back");
  static_assert(!ConstModel<M>,
                "the model is const, and its calls change its context: pass a model that is not const, or a "
                "copy of it");
  static_assert(HasVocabSize<M> || ConstModel<M>,
                "the model has no vocab_size() const that returns the number of tokens: see specdec::Model");
  if constexpr (TakesFeeds<M>) {
    static_assert(KeepsLength<M>,
                  "the model has no keep(specdec::Index sequence, specdec::Index length), which keeps the "
                  "first tokens of a context: see specdec::BatchModel");
    static_assert(HasRelease<M>,
                  "the model has no release(specdec::Index sequence), which forgets a sequence: see "
                  "specdec::BatchModel");
  } else if constexpr (!ConstModel<M>) {
    static_assert(HasTruncate<M>,
                  "the model has no truncate(specdec::Index length), which keeps the first tokens of its "
                  "context: see specdec::Model");
    static_assert(TakesTokens<M>,
                  "the model has no forward(std::span<const specdec::Token> tokens, specdec::Index rows) for "
                  "one text, and no forward(std::span<const specdec::BatchFeed> feeds) for many: see "
                  "specdec::Model and specdec::BatchModel");
  }
  return true;
}

/// Compiles only if M is a Model or a BatchModel; the error names the missing function. If it is not called, it may be anything.
template <class M, bool is_called = true>
consteval bool fits_model() {
  if constexpr (is_called) {
    can_be_wrapped<M>();
    if constexpr (TakesFeeds<M> || TakesTokens<M>) {
      using Rows = std::remove_cvref_t<OutputOf<M>>;
      fits_rows<Rows>();
      static_assert(Probabilities<Rows>,
                    "the model's forward() returns no rows of probabilities (a model of logits goes into a "
                    "specdec::ProcessedModel): see specdec::Model");
    }
  }
  return true;
}

}  // namespace specdec::detail

// What a language model needs to serve as the target, or, inside ModelDrafter, as the draft model: for one text, or for many.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "specdec/model/feed.hpp"
#include "specdec/model/traits.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A language model with a context of tokens, such as a transformer with its KV cache:
///
///   vocab_size()            number of tokens in the vocabulary
///   forward(tokens, rows)   appends `tokens` to the context. Returns a matrix of probabilities: the next-token
///                           distributions after each of the last `rows` tokens (1 <= rows <= tokens.size()).
///                           The rows live until the next call of the model.
///   truncate(length)        keeps the first `length` >= 0 tokens of the context: the rollback of a KV cache.
///                           Does nothing if the context is not longer than `length`. Must not throw.
///
/// Tokens are sampled from exactly these probabilities: temperature, top-k and the like are applied. A model may have more
/// members, as a BatchModel may: see model/traits.hpp for context_size(), reach(), stable_rows, steady_rows and copies_context,
/// model/trees.hpp for trees (takes_trees), more/heads/hidden_states.hpp for one that shows hidden states, and
///
///   bool can_draft(Index length) const          whether a draft after a context of `length` tokens is worth its calls. Where
///                                               it is not, a ModelDrafter proposes nothing. With a BatchModel:
///                                               can_draft(sequence, length)
///   std::vector<const void*> identities() const for a wrapper that refers to a model: returns specdec::identities(model).
///                                               Wrappers around one model then know that they share its context. For a
///                                               class that is a handle of an engine's context: the context's address
template <class M>
concept Model = detail::HasVocabSize<M> && detail::HasTruncate<M> &&
                requires(M& model, std::span<const Token> tokens, Index rows) {
                  { model.forward(tokens, rows) } -> Probabilities;
                };

/// A language model for many sequences. Each sequence has a number and a context of its own:
///
///   vocab_size()              number of tokens in the vocabulary
///   forward(feeds)            appends each feed's tokens to the context of its sequence, which holds feed.from tokens.
///                             Returns one matrix of probabilities: feed after feed, the next-token distributions after
///                             each of the last feed.rows tokens. A feed with 0 rows, such as a part of a long prompt,
///                             gets no row. A new number begins an empty context. The rows live until the next call of
///                             the model. After a throw all contexts are as before.
///   keep(sequence, length)    keeps the first `length` tokens of the sequence's context. Does nothing if the context is
///                             not longer. Must not throw.
///   release(sequence)         forgets the sequence and its context. Must not throw.
///
/// keep() and release() do nothing for an unknown number. No sequence is in two feeds of one call. A row must not depend on
/// the other feeds of the call; otherwise a seed gives different texts in different batches. A model serves one Batch at a
/// time, and the Batch chooses the numbers, unless a Request says them; others, such as a BeamBatch, or a SpecDec with number 0,
/// may use other numbers. Each context has this context_size() and reach(). A wrapper around a Model takes feeds, too, but is
/// no BatchModel: it has one context (`static constexpr bool one_text = true`). A model may have
///
///   fork(from, to)            gives the new number `to` a copy of the context of sequence `from`, without an open tree, so
///                             that two samples of a prompt read it once. After a throw all contexts are as before
template <class M>
concept BatchModel = detail::HasVocabSize<M> && detail::KeepsLength<M> && detail::HasRelease<M> &&
                     !detail::has_one_context<M> && requires(M& model, std::span<const BatchFeed> feeds) {
                       { model.forward(feeds) } -> Probabilities;
                     };

/// Stands for a target that the caller runs himself, between Sequence::propose() and accept(). If the caller's rows are logits, wrap
/// it: ProcessedModel{ExternalTarget{.vocabulary = v}, chain, processors}.
///
/// Not all rows that a feed wants are read. After a drafted token that a grammar refuses none is: it need not be fed, nor what was drafted
/// after it, and these rows may be garbage: any logits, or probabilities that are 0 or NaN (check_every). FeedMasks, of
/// specdec/more/samplers.hpp, tells which they are. Only a drafter that learns from the target's rows may read them, too.
struct ExternalTarget {
  static constexpr bool external = true;

  Index vocabulary;            ///< number of tokens in the vocabulary
  Index context = unlimited;   ///< how many tokens the context can hold
  Index rollback = unlimited;  ///< how many tokens the context can be cut back by: see reach

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return context; }
  Index reach() const { return rollback; }
};

namespace detail {

/// The sizes of a model, to use where the model itself must not be called.
template <class M>
ExternalTarget described(const M& model) {
  return {model.vocab_size(), context_size(model), reach(model)};
}

}  // namespace detail
}  // namespace specdec

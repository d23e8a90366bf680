// What a model needs to take tokens of many sequences in one call.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

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
/// may use other numbers. If contexts are bounded, a member `Index context_size() const` says how many tokens each one holds; if they can be
/// cut back only so far, a member `Index reach() const` says how far. A model that takes trees (takes_trees) also has
/// keep(sequence, path): see model/trees.hpp. A wrapper around a Model takes feeds, too, but is no BatchModel: it has one context
/// (`static constexpr bool one_text = true`). A model may have
///
///   static constexpr bool stable_rows = true
///                             rows stay valid until their positions in their sequence are cut off: see Model
///   fork(from, to)            gives the new number `to` a copy of the context of sequence `from`, without an open tree, so
///                             that two samples of a prompt read it once. After a throw all contexts are as before
template <class M>
concept BatchModel = detail::HasVocabSize<M> && detail::KeepsLength<M> && detail::HasRelease<M> &&
                     !detail::has_one_context<M> && requires(M& model, std::span<const BatchFeed> feeds) {
                       { model.forward(feeds) } -> Probabilities;
                     };

/// Whether a model for many texts can copy a context.
template <class M>
inline constexpr bool can_fork = requires(M& model, Index sequence) { model.fork(sequence, sequence); };

namespace detail {

/// Asks the functions of a sequence's number, in whatever wrapper of the model they are.
/// Throws: what they throw, for a number that they do not know.
template <class M>
void check_number([[maybe_unused]] M& model, [[maybe_unused]] Index sequence) {
  if constexpr (requires { model.check_number(sequence); }) model.check_number(sequence);
}

}  // namespace detail
}  // namespace specdec

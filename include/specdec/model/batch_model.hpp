// What a model needs to take tokens of many sequences in one call.
#pragma once

#include <concepts>
#include <span>

#include "specdec/model/feed.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec {

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
/// time, and the Batch chooses the numbers. If contexts are bounded, a member `Index context_size() const` says how many
/// tokens each one holds. A model that takes trees (takes_trees) also has keep(sequence, path): see model/trees.hpp.
template <class M>
concept BatchModel =
    requires(M& model, const M& constant, std::span<const BatchFeed> feeds, Index sequence, Index length) {
      { constant.vocab_size() } -> detail::Count;
      { model.forward(feeds) } -> Probabilities;
      model.keep(sequence, length);
      model.release(sequence);
    };

}  // namespace specdec

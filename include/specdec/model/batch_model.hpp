// What a model has to offer that takes in tokens of many sequences in one call.
#pragma once

#include <concepts>
#include <span>

#include "specdec/model/feed.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A language model with a context for each of many sequences, which it knows by numbers:
///
///   vocab_size()              number of tokens
///   forward(feeds)            appends each feed's tokens to its sequence's context, which holds feed.from tokens, and
///                             returns, as one matrix of probabilities, the next-token distributions after each of the
///                             last feed.rows of them, feed after feed. Of a feed without rows it returns none: a part
///                             of a long prompt. A number that it has not met begins an empty context. The rows live
///                             until the next call of the model. Where it throws, all contexts are as before.
///   keep(sequence, length)    keeps the first `length` tokens of the sequence's context; does nothing where there are
///                             no more. Must not throw.
///   release(sequence)         forgets the sequence and its context. Must not throw.
///
/// keep() and release() do nothing for a number that it has not met. No sequence is in two feeds of a call. Rows must not
/// depend on what else is in the call, if one seed is to give one text in any company. A model serves one Batch at a time,
/// whose numbers it is given. One whose contexts are bounded can say so with a member `Index context_size() const`, for
/// each of them. One whose feeds may branch (takes_trees) has a keep(sequence, path), too: see model/trees.hpp.
template <class M>
concept BatchModel =
    requires(M& model, const M& constant, std::span<const BatchFeed> feeds, Index sequence, Index length) {
      { constant.vocab_size() } -> detail::Count;
      { model.forward(feeds) } -> Probabilities;
      model.keep(sequence, length);
      model.release(sequence);
    };

}  // namespace specdec

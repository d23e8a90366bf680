// What a model needs to take tokens of many sequences in one call.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// More requirements of BatchModel.
template <class M>
concept ReturnsProbabilitiesOfFeeds = requires(M& model, std::span<const BatchFeed> feeds) {
  { model.forward(feeds) } -> Probabilities;
};
template <class M>
concept HasRelease = requires(M& model, Index sequence) { model.release(sequence); };

}  // namespace detail

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
/// time, and the Batch chooses the numbers, unless a Request says them; others, such as a BeamBatch, may use other
/// numbers. If contexts are bounded, a member `Index context_size() const` says how many tokens each one holds; if they can be
/// cut back only so far, a member `Index reach() const` says how far. A model that takes trees (takes_trees) also has
/// keep(sequence, path): see model/trees.hpp. A model may have
///
///   fork(from, to)            gives the new number `to` a copy of the context of sequence `from`, without an open tree, so
///                             that two samples of a prompt read it once. After a throw all contexts are as before
template <class M>
concept BatchModel = detail::HasVocabSize<M> && detail::KeepsLength<M> && detail::HasRelease<M> &&
                     detail::ReturnsProbabilitiesOfFeeds<M>;

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

/// Compiles only if a model for many texts has vocab_size(), keep() and release(); the error names the missing one.
template <class M>
consteval bool keeps_and_releases() {
  static_assert(
      HasVocabSize<M>,
      "the model has no vocab_size() const that returns the number of tokens: see specdec::BatchModel");
  static_assert(
      KeepsLength<M>,
      "the model has no keep(specdec::Index sequence, specdec::Index length), which keeps the first tokens "
      "of a context: see specdec::BatchModel");
  static_assert(HasRelease<M>,
                "the model has no release(specdec::Index sequence), which forgets a sequence: see "
                "specdec::BatchModel");
  return true;
}

/// Compiles only if M is a BatchModel; the error names the missing function. A model that is not called may be anything.
template <class M, bool is_called = true>
consteval bool fits_batch_model() {
  if constexpr (is_called) fits_constness<M>();
  static_assert(TakesFeeds<M> || !is_called || ConstModel<M>,
                "the model has no forward(std::span<const specdec::BatchFeed> feeds) for many texts: see "
                "specdec::BatchModel, and specdec::ModelPerSequence, which makes one of a model that can be "
                "copied");
  if constexpr (TakesFeeds<M> && is_called) {
    keeps_and_releases<M>();
    using Rows = decltype(std::declval<M&>().forward(std::span<const BatchFeed>{}));
    fits_rows<std::remove_cvref_t<Rows>>();
    static_assert(
        ReturnsProbabilitiesOfFeeds<M>,
        "the model's forward(feeds) returns no rows of probabilities (a model of logits goes into a "
        "specdec::ProcessedModel): see specdec::BatchModel");
  }
  if constexpr (is_called) fits_any_length<M>();
  return true;
}

}  // namespace detail
}  // namespace specdec

// What a language model needs to serve as the target, or, inside ModelDrafter, as the draft model.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "specdec/error.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The requirements of Model, besides vocab_size().
template <class M>
concept HasTruncate = requires(M& model, Index length) { model.truncate(length); };
template <class M>
concept TakesTokens =
    requires(M& model, std::span<const Token> tokens, Index rows) { model.forward(tokens, rows); };

}  // namespace detail

/// A language model with a context of tokens, such as a transformer with its KV cache:
///
///   vocab_size()            number of tokens in the vocabulary
///   forward(tokens, rows)   appends `tokens` to the context. Returns a matrix of probabilities: the next-token
///                           distributions after each of the last `rows` tokens (1 <= rows <= tokens.size()).
///                           The rows live until the next call of the model.
///   truncate(length)        keeps the first `length` >= 0 tokens of the context: the rollback of a KV cache.
///                           Does nothing if the context is not longer than `length`. Must not throw.
///
/// Tokens are sampled from exactly these probabilities: temperature, top-k and the like are already applied.
/// A model may have more members:
///
///   static constexpr bool stable_rows = true    rows stay valid until their positions are truncated away. ModelDrafter
///                                               then keeps the rows themselves instead of copies.
///   static constexpr bool steady_rows = false   the row after a token may change between calls, though the tokens before it
///                                               stay: see steady in draft/drafter.hpp
///   Index context_size() const                  the context is bounded: see context_size
///   Index reach() const                         the context can be cut back only so far: see reach
///   length(), hidden(), hidden_at(i)            shows its hidden states, for heads: see more/heads/hidden_states.hpp
///   bool can_draft(Index length) const          whether a draft after a context of `length` tokens is worth its calls. Where
///                                               it is not, a ModelDrafter proposes nothing. With a BatchModel:
///                                               can_draft(sequence, length)
///   std::vector<const void*> identities() const for a wrapper that refers to a model: returns specdec::identities(model).
///                                               Wrappers around one model then know that they share its context. For a
///                                               class that is a handle of an engine's context: the context's address
///
/// A model that takes trees (takes_trees) has two more functions: see model/trees.hpp.
template <class M>
concept Model = detail::HasVocabSize<M> && detail::HasTruncate<M> &&
                requires(M& model, std::span<const Token> tokens, Index rows) {
                  { model.forward(tokens, rows) } -> Probabilities;
                };

namespace detail {

/// What a model for many texts has to offer, besides vocab_size(): see BatchModel. A wrapper takes feeds, too, of a model whose
/// rows are logits.
template <class M>
concept TakesFeeds = requires(M& model, std::span<const BatchFeed> feeds) { model.forward(feeds); };
template <class M>
concept KeepsLength = requires(M& model, Index sequence, Index length) { model.keep(sequence, length); };
template <class M>
concept HasRelease = requires(M& model, Index sequence) { model.release(sequence); };

/// Whether a model has one context: a Model, or a wrapper around one, which takes feeds, too.
template <class M>
inline constexpr bool has_one_context = [] {
  if constexpr (requires { M::one_text; }) return static_cast<bool>(M::one_text);
  else return !TakesFeeds<M>;
}();

template <class M>
concept TakesCalls = (TakesTokens<M> && HasTruncate<M>) || (TakesFeeds<M> && KeepsLength<M>);

/// Whether M is no model only because it is const.
template <class M>
concept ConstModel = std::is_const_v<M> && !TakesCalls<M> && TakesCalls<std::remove_const_t<M>>;

/// Whether a model says how far its context can be cut back.
template <class M>
inline constexpr bool has_reach = requires(const M& model) { model.reach(); };

/// Whether a context can be cut back to any length. Beyond its reach, specdec::Reread reads it again.
template <class M>
inline constexpr bool goes_back_anywhere = [] {
  if constexpr (requires { M::reads_again; }) return static_cast<bool>(M::reads_again);
  else return !has_reach<M>;
}();

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

}  // namespace detail

/// The largest number of tokens that the model's context can hold. A generation ends when the target's context is full. A
/// drafter proposes no more tokens than its own model has room for. `unlimited` if the model has no context_size(), or if
/// context_size() is an unsigned number larger than any Index.
template <class M>
Index context_size(const M& model) {
  if constexpr (requires { model.context_size(); }) {
    using Size = std::remove_cvref_t<decltype(model.context_size())>;
    static_assert(detail::Count<Size>, "the model's context_size() is no integer");
    if constexpr (std::unsigned_integral<Size>)
      return static_cast<Index>(std::min<std::uintmax_t>(model.context_size(), unlimited));
    else return model.context_size();
  } else {
    return unlimited;
  }
}

/// How far the model's context can be cut back, in tokens. A sliding-window cache that is a ring, and a recurrent model that
/// keeps its last states, have lost what lies further back. If the context has held at most n tokens since it was last empty,
/// an open tree's tokens included, it can be cut back to n − reach tokens or more, or be emptied. A draft has at most `reach`
/// tokens then. `unlimited` if the model has no reach().
/// A model with a reach() goes into a Reread, for which no cut is too far.
template <class M>
Index reach(const M& model) {
  if constexpr (detail::has_reach<M>) {
    static_assert(detail::Count<decltype(model.reach())>, "the model's reach() is no integer");
    return std::max<Index>(model.reach(), 0);
  } else {
    return unlimited;
  }
}

/// Stands for a target that the caller runs himself, between Sequence::propose() and accept().
struct ExternalTarget {
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

/// Whether the model has a member `static constexpr bool keeps_context = true`. Many wrappers have it: they remember the
/// tokens that they were fed. They do not know tokens that others fed directly to the model inside.
template <class M>
inline constexpr bool knows_its_context = requires { requires static_cast<bool>(M::keeps_context); };

/// Whether a model can begin with a context that somebody else has filled: a wrapper that remembers its tokens needs to be told
/// them, by adopt(tokens), or with many texts adopt(sequence, tokens). The context may hold more than the tokens say, such as an
/// image, so no wrapper that reads tokens again has this member.
template <class M>
inline constexpr bool can_adopt = !knows_its_context<M> || requires(M& model, std::span<const Token> tokens) {
  model.adopt(tokens);
} || requires(M& model, Index sequence, std::span<const Token> tokens) { model.adopt(sequence, tokens); };

/// Whether a copy of the model has a copy of its context, too: whether the model has a member
/// `static constexpr bool copies_context = true`. A copy that only shares the weights begins with an empty context.
template <class M>
inline constexpr bool copies_context = requires { requires static_cast<bool>(M::copies_context); };

/// Whether a model, for one text or for many, takes trees of tokens: see model/trees.hpp.
template <class M>
inline constexpr bool takes_trees =
    requires(M& model, std::span<const Token> tokens, std::span<const Index> numbers, Index n) {
      model.forward(tokens, numbers, n);
      model.keep(numbers);
    } || requires(M& model, Index sequence, std::span<const Index> path) { model.keep(sequence, path); };

/// Whether the model promises that its rows outlive the next call.
template <class M>
inline constexpr bool has_stable_rows = requires { requires static_cast<bool>(M::stable_rows); };

namespace detail {

/// Whether the model can draft after a context of `length` tokens. True where the model has no can_draft().
template <class M>
bool can_draft_after(const M& model, [[maybe_unused]] Index sequence, Index length) {
  if constexpr (requires { model.can_draft(length); }) return model.can_draft(length);
  else if constexpr (requires { model.can_draft(sequence, length); })
    return model.can_draft(sequence, length);
  else {
    static_assert(
        !requires { &M::can_draft; },
        "the model's can_draft is neither bool can_draft(specdec::Index length) const nor, for many texts, "
        "bool can_draft(specdec::Index sequence, specdec::Index length) const: see specdec::Model");
    return true;
  }
}

}  // namespace detail

/// Whether each row of the model depends only on the tokens before it. True where the model has no `steady_rows`.
template <class M>
inline constexpr bool has_steady_rows = !requires { requires !static_cast<bool>(M::steady_rows); };

}  // namespace specdec

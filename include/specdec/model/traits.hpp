// What a model offers, by name: the functions that Model and BatchModel ask for, and what it may say of itself besides.
// Wrappers, drafters and loops ask by these names. What a wrapper does not offer, nobody sees of the model inside.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "specdec/model/feed.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The requirements of Model and of BatchModel, besides vocab_size(). Wrappers take models, too, whose rows are logits.
template <class M>
concept HasTruncate = requires(M& model, Index length) { model.truncate(length); };
template <class M>
concept TakesTokens =
    requires(M& model, std::span<const Token> tokens, Index rows) { model.forward(tokens, rows); };
template <class M>
concept TakesFeeds = requires(M& model, std::span<const BatchFeed> feeds) { model.forward(feeds); };
template <class M>
concept KeepsLength = requires(M& model, Index sequence, Index length) { model.keep(sequence, length); };
template <class M>
concept HasRelease = requires(M& model, Index sequence) { model.release(sequence); };

template <class M>
concept TakesCalls = (TakesTokens<M> && HasTruncate<M>) || (TakesFeeds<M> && KeepsLength<M>);

/// Whether M is no model only because it is const.
template <class M>
concept ConstModel = std::is_const_v<M> && !TakesCalls<M> && TakesCalls<std::remove_const_t<M>>;

/// Whether a model has one context: a Model, or a wrapper around one, which takes feeds, too.
template <class M>
inline constexpr bool has_one_context =
    !TakesFeeds<M> || requires { requires static_cast<bool>(M::one_text); };

/// Whether a model says how far its context can be cut back.
template <class M>
inline constexpr bool has_reach = requires(const M& model) { model.reach(); };

/// Whether a context can be cut back to any length. Beyond its reach, specdec::Reread reads it again.
template <class M>
inline constexpr bool goes_back_anywhere =
    !has_reach<M> || requires { requires static_cast<bool>(M::reads_again); };

}  // namespace detail

/// Whether a model, for one text or for many, takes trees of tokens: see model/trees.hpp.
template <class M>
inline constexpr bool takes_trees =
    requires(M& model, std::span<const Token> tokens, std::span<const Index> numbers, Index n) {
      model.forward(tokens, numbers, n);
      model.keep(numbers);
    } || requires(M& model, Index sequence, std::span<const Index> path) { model.keep(sequence, path); };

/// Whether a model for many texts can copy a context.
template <class M>
inline constexpr bool can_fork = requires(M& model, Index sequence) { model.fork(sequence, sequence); };

/// Whether the caller runs the model himself, between propose() and accept(): an ExternalTarget, or a ProcessedModel of one.
template <class M>
inline constexpr bool is_external = requires { requires static_cast<bool>(M::external); };

/// Whether an external target makes something else of the rows that it is handed.
template <class M>
concept ProcessesRows = is_external<M> && detail::HasRelease<M>;

/// Whether the model promises that its rows outlive the next call, by a member `static constexpr bool stable_rows = true`. Rows
/// then stay valid until their positions are cut off, and a ModelDrafter keeps the rows themselves instead of copies.
template <class M>
inline constexpr bool has_stable_rows = requires { requires static_cast<bool>(M::stable_rows); };

/// Whether each row of the model depends only on the tokens before it. With `static constexpr bool steady_rows = false` the row
/// after a token may change between calls, though the tokens before it stay. See steady in draft/drafter.hpp.
template <class M>
inline constexpr bool has_steady_rows = !requires { requires !static_cast<bool>(M::steady_rows); };

/// Whether a copy of the model has a copy of its context, too: whether the model has a member
/// `static constexpr bool copies_context = true`. A copy that only shares the weights begins with an empty context.
template <class M>
inline constexpr bool copies_context = requires { requires static_cast<bool>(M::copies_context); };

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
  }
  return unlimited;
}

/// How far the model's context can be cut back, in tokens. A sliding-window cache that is a ring, and a recurrent model that
/// keeps its last states, have lost what lies further back. If the context has held at most n tokens since it was last empty,
/// an open tree's tokens included, it can be cut back to n − reach tokens or more, or be emptied. A draft has at most `reach`
/// tokens then. `unlimited` if the model has no reach(). One with a reach() goes into a Reread, for which no cut is too far.
template <class M>
Index reach(const M& model) {
  if constexpr (detail::has_reach<M>) {
    static_assert(detail::Count<decltype(model.reach())>, "the model's reach() is no integer");
    return std::max<Index>(model.reach(), 0);
  }
  return unlimited;
}

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

/// Asks the functions of a sequence's number, in whatever wrapper of the model they are.
/// Throws: what they throw, for a number that they do not know.
template <class M>
void check_number([[maybe_unused]] M& model, [[maybe_unused]] Index sequence) {
  if constexpr (requires { model.check_number(sequence); }) model.check_number(sequence);
}

}  // namespace detail
}  // namespace specdec

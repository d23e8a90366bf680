// What a drafting strategy has to offer: how a draft grows from the rows of a draft model.
//
// A strategy calls no model: it says what one takes in, and gets the rows. ModelDrafter calls the model, for one text or many.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The tokens that the draft model is to take in next.
struct DraftWish {
  /// Drafted tokens; the row after each token is wanted. Empty: the context; its last row is wanted.
  std::span<const Token> tokens = {};
  /// For a strategy that branches: the tokens' parents, as numbers among all cached drafted tokens; −1: the context. For
  /// other strategies, each token follows the one before it.
  std::span<const Index> parents = {};
  /// For a strategy that does not branch: how many of the cached drafted tokens stay before these tokens.
  Index kept = unlimited;
};

namespace detail {

/// A strategy's Growth over rows in memory.
template <class S>
using GrowthOf = typename S::template Growth<RowOf<DenseRows<RowPointers<double>>>, false>;

}  // namespace detail

/// How a draft grows, the second argument of ModelDrafter:
///
///   drafts_trees         a static constant: whether its drafts may branch
///   branches             a static constant: whether the draft model must take trees (takes_trees)
///   steady               optional, a static constant with the meaning of Drafter's `steady`
///   Growth<Row, stable>  a draft in the making, from rows of type Row. Stable rows (has_stable_rows) live as long as their
///                        positions, other rows until the model's next call. Default-constructible; in a batch each
///                        sequence has its own
///
/// and the functions of Growth are called in this order:
///
///   begin(strategy, limits, room)      begins a draft within the limits (DraftLimits). The model has room for `room`
///                                      drafted tokens after the context; negative: not even for the context
///   next()                             whether the model is to be called again; called once before each model call
///   wish()                             the DraftWish for that call; the first is the context
///   take(rows, chance, keep_drafting)  takes the wanted rows, rows.row(i), and draws from `chance`. A line ends after
///                                      token i if keep_drafting.more(row, i) is false (see OneTextDrafter)
///   end()                              makes next() false from here on
///   draft(vocab_size)                  the Draft, with rows over vocab_size tokens: views that live until begin()
///
/// OneTextDrafter's rule for tokens in a draft holds here. After a throw the next call is begin(). No allocation in steady state.
template <class S>
concept DraftStrategy = std::move_constructible<S> &&
                        requires {
                          { S::drafts_trees } -> std::convertible_to<bool>;
                          { S::branches } -> std::convertible_to<bool>;
                        } &&
                        requires(detail::GrowthOf<S>& growth, S& strategy, const DraftLimits& limits, Index n,
                                 const DenseRows<RowPointers<double>>& rows, RandomChance<SplitMix64>& chance,
                                 const detail::AlwaysKeepDrafting& keep_drafting) {
                          growth.begin(strategy, limits, n);
                          { growth.next() } -> std::same_as<bool>;
                          { growth.wish() } -> std::same_as<DraftWish>;
                          growth.take(rows, chance, keep_drafting);
                          growth.end();
                          { growth.draft(n).tokens } -> std::convertible_to<std::span<const Token>>;
                        };

}  // namespace specdec

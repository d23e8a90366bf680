// What a drafting strategy has to offer: how a draft grows from what a draft model says.
//
// A strategy calls nobody. It is asked what the draft model is to take in, and told which rows that gave; ModelDrafter calls
// the model, for one text or for many.
#pragma once

#include <algorithm>
#include <concepts>
#include <iterator>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// What a strategy wants the draft model to take in next.
struct DraftWish {
  /// Drafted tokens, of each of which the row after it is wanted. None: the context, of which the last row is wanted.
  std::span<const Token> tokens = {};
  /// Of a strategy that branches, whom they follow: numbers among all drafted tokens that are cached, −1 the
  /// context. Of another, each follows the one before it.
  std::span<const Index> parents = {};
  /// Of a strategy that does not branch: how many of the cached drafted tokens are to stay before them.
  Index kept = unlimited;

  Index rows() const { return std::max<Index>(1, std::ssize(tokens)); }
};

/// How a draft grows, the second argument of ModelDrafter:
///
///   drafts_trees         a static constant: whether its drafts may branch
///   branches             a static constant: whether the draft model has to take trees (takes_trees)
///   steady               optional, a static constant: false where Drafter says that a drafter is not steady
///   Growth<Row, stable>  a draft in the making, from rows of type Row, which live as long as their positions if they are
///                        stable (has_stable_rows), else until the model's next call. Default-constructible; of a
///                        batch each sequence has one
///
/// and of a Growth, in this order,
///
///   begin(strategy, limits, room)      a new draft within the limits (DraftLimits). The model has room for `room` drafted
///                                      tokens after the context; negative: not even for the context
///   next()                             whether the model is to take in more; asked once before each call of it
///   wish()                             what, as a DraftWish; the context comes first
///   take(rows, chance, keep_drafting)  rows.row(i) are the rows that were wished for; all that is random comes from
///                                      `chance`. keep_drafting(row, i) false ends a line before token i (see Drafter)
///   end()                              next() is false from here on
///   draft(vocab_size)                  the Draft, of rows over so many tokens: views that live until begin()
///
/// What Drafter says of which tokens may be in a draft holds here. Nothing is called between a begin() and the next one
/// after something has thrown. No allocation in steady state.
template <class S>
concept DraftStrategy =
    std::move_constructible<S> &&
    requires {
      { S::drafts_trees } -> std::convertible_to<bool>;
      { S::branches } -> std::convertible_to<bool>;
    } &&
    requires(typename S::template Growth<RowOf<DenseRows<RowPointers<double>>>, false>& growth, S& strategy,
             const DraftLimits& limits, Index n, const DenseRows<RowPointers<double>>& rows,
             RandomChance<SplitMix64>& chance, const detail::AlwaysKeepDrafting& keep_drafting) {
      growth.begin(strategy, limits, n);
      { growth.next() } -> std::same_as<bool>;
      { growth.wish() } -> std::same_as<DraftWish>;
      growth.take(rows, chance, keep_drafting);
      growth.end();
      { growth.draft(n).tokens } -> std::convertible_to<std::span<const Token>>;
    };

}  // namespace specdec

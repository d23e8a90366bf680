// What a drafter has to offer that drafts trees for many sequences at once.
#pragma once

#include <concepts>
#include <exception>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// One sequence's wish for a tree.
template <RandomSource S>
struct TreeDraftRequest {
  Index sequence = 0;                   ///< its number
  std::span<const Token> context = {};  ///< what the tree is to follow
  TreeLimits limits = {};               ///< how large it may be
  S* source = nullptr;                  ///< of all that is random in this tree
  std::exception_ptr error = nullptr;   ///< to be set where this tree alone fails
};

/// A source of guesses that branch, for many sequences:
///
///   draft(requests)           drafts a tree for each request, and sets the error of those that fail by themselves. What it
///                             throws is everybody's failure: the step can be tried again.
///   drafted(sequence)         the TreeDraft that the last draft() made for a sequence that was in it without an error, a
///                             view that lives until the next draft(); nobody else's call may change it
///   keep(sequence, length)    only the first `length` tokens of what was seen survive, and of what was drafted those that
///                             the next context goes on with. Must not throw.
///   release(sequence)         forgets the sequence. Must not throw.
///
/// A request's random numbers come from its own source, so that its tree does not depend on the others. What TreeDraft
/// says of rows, and TreeDrafter of what may decide which tokens are in a tree, holds here.
template <class D>
concept BatchTreeDrafter = requires(D& drafter, std::span<TreeDraftRequest<SplitMix64>> requests, Index n) {
  drafter.draft(requests);
  { drafter.drafted(n).tokens } -> std::convertible_to<std::span<const Token>>;
  { drafter.drafted(n).rows } -> Probabilities;
  { drafter.drafted(n).parents } -> std::convertible_to<std::span<const Index>>;
  drafter.keep(n, n);
  drafter.release(n);
};

}  // namespace specdec

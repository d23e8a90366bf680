// What a drafter of trees has to offer.
#pragma once

#include <concepts>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A proposal that branches: tokens[k] follows tokens[parents[k]], or the context where parents[k] = −1;
/// parents[k] < k. Siblings are judged in the order of their numbers, and row k is what tokens[k] was drawn from given
/// its elder siblings:
///
///   drawn independently of them       the row behind the parent; equal tokens may occur among siblings, but where that
///                                     row gives one token all its probability there is one child
///   drawn without replacement         that row without the elders' tokens, renormalised
///   chosen, not drawn                 one-hot; chosen siblings differ from one another, and from drawn elders
///
/// All are views that live until the drafter's next call.
template <Probabilities Rows>
struct TreeDraft {
  std::span<const Token> tokens;
  Rows rows;
  std::span<const Index> parents;
};

/// How large a drafted tree may be. Limits below 1 leave room for nothing.
struct TreeLimits {
  Index nodes = unlimited;  ///< how many tokens it may have
  Index depth = unlimited;  ///< how many tokens a path may have, from the context outward
  /// How many tokens the path of eldest children has to have at least, for a rule that remembers its sequence: nodes are
  /// given to it first.
  Index trunk = 0;
};

/// A source of guesses that branch:
///
///   draft(context, limits, chance)   proposes a tree to follow `context`, within the limits, as a TreeDraft.
///                                    Everything random must come from `chance`. Which tokens are in the tree may
///                                    depend on rows and on tokens that were chosen; to drop a token that was drawn
///                                    because of what was drawn makes drafts lossy.
///   truncate(length)                 only the first `length` tokens of what was seen survive, and of what was drafted
///                                    those that the next context goes on with. Must not throw.
///
/// A drafter may also offer
///
///   observe(target_rows, tokens, parents, stop)    called after every target call, before anything is rolled back, with
///                                                  the rows of all nodes, the tree, and where the rule stopped (Stop)
///   steady                                         a static constant, false where the length of a path of eldest children
///                                                  may depend on a row after a token drawn on it, or a position may
///                                                  get another row in the next draft: see Drafter
///   each_identity(visit)                           for a drafter, held by value, that refers to others: see Drafter
///
/// The context a drafter is shown extends what survived, so a cache needs only the new tokens. Of a tree one path
/// survives at most, and the context that is shown next tells which.
template <class D, class Source = RandomChance<SplitMix64>>
concept TreeDrafter =
    requires(D& drafter, std::span<const Token> context, const TreeLimits& limits, Source& chance, Index n) {
      { drafter.draft(context, limits, chance).tokens } -> std::convertible_to<std::span<const Token>>;
      { drafter.draft(context, limits, chance).rows } -> Probabilities;
      { drafter.draft(context, limits, chance).parents } -> std::convertible_to<std::span<const Index>>;
      drafter.truncate(n);
    };

}  // namespace specdec

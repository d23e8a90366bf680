// What a drafter has to offer, and the drafter that never proposes anything.
#pragma once

#include <concepts>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A proposal: the drafted tokens and, row for row, the distributions they were really drawn from.
/// Both are views that live until the drafter's next call.
template <Probabilities Rows>
struct Draft {
  std::span<const Token> tokens;
  Rows rows;
};

/// A source of guesses:
///
///   draft(context, gamma, chance)   proposes up to gamma tokens to follow `context`, as a Draft. Everything
///                                   random must come from `chance`, and row i must be the very distribution
///                                   that token i was drawn from: reporting another is how drafts become
///                                   lossy.
///   truncate(length)                only the first `length` tokens of what was seen or drafted survive.
///                                   Must not throw.
///
/// A drafter may also offer
///
///   draft(context, gamma, chance, goes_on)     ends the proposal where goes_on(row, i), asked before token i is
///                                              drawn from the row, says no: for draft lengths that depend on the
///                                              draft model's own confidence (DraftLength)
///   observe(target_rows, tokens, verdict)      called after every target call, before anything is rolled back, with
///                                              the γ+1 rows, the γ drafted tokens and what became of them: for
///                                              drafters that learn from the target's calls
///   steady                                     a static constant, false where one of these holds: the draft may end
///                                              because of a row after a drawn token; or a position may get another
///                                              row in the next draft. Rules that remember their sequence
///                                              (GreedyBlockVerifier) change what follows a rejection by the rows and
///                                              the length of the rejected draft. They do not compile with such a
///                                              drafter, unless all its rows are one-hot
///   each_identity(visit)                       for a drafter, held by value, that refers to others (by a pointer, say):
///                                              specdec::each_identity(other, visit) for each of them. Without it
///                                              nobody notices that another decoder drafts with them in between
///
/// The context a drafter is shown extends what survived, so a cache needs only the new tokens.
///
/// A head on the target's hidden states (EAGLE, Medusa) is a drafter that refers to the target's model: in observe()
/// that model still holds the states of the call, of which the one at verdict.accepted is where the next draft begins.
/// One that shares the target's layers and cache is examples/transformer/early_exit.hpp.
template <class D, class Source = RandomChance<SplitMix64>>
concept Drafter = requires(D& drafter, std::span<const Token> context, Index n, Source& chance) {
  { drafter.draft(context, n, chance).tokens } -> std::convertible_to<std::span<const Token>>;
  { drafter.draft(context, n, chance).rows } -> Probabilities;
  drafter.truncate(n);
};

/// Whether the length of a draft is settled before its first token is drawn, and each row depends on the tokens before it
/// alone; true where the drafter does not say.
template <class D>
inline constexpr bool is_steady = [] {
  if constexpr (requires { D::steady; }) return static_cast<bool>(D::steady);
  else return true;
}();

/// Proposes nothing: the loop becomes ordinary decoding.
struct NoDrafter {
  Draft<OneHotRows> draft(std::span<const Token>, Index, auto&) const { return {{}, OneHotRows({})}; }
  void truncate(Index) const {}
};

}  // namespace specdec

// What a drafter has to offer, and the drafter that never proposes anything.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// A proposal: the drafted tokens and, row for row, the distributions that they were really drawn from.
///
/// Without parents it is a line: each token follows the one before it. With parents it may branch: tokens[k] follows
/// tokens[parents[k]], or the context where parents[k] = −1; parents[k] < k. Siblings are judged in the order of their
/// numbers, and row k is what tokens[k] was drawn from given its elder siblings:
///
///   drawn independently of them       the row after the parent; equal tokens may occur among siblings, but where that
///                                     row gives one token all its probability there is one child
///   drawn without replacement         that row without the elders' tokens, renormalised
///   chosen, not drawn                 one-hot; chosen siblings differ from one another, and from drawn elders
///
/// All are views that live until the drafter's next call.
template <Probabilities Rows>
struct Draft {
  std::span<const Token> tokens;
  Rows rows;
  std::span<const Index> parents = {};
};

/// How large a draft may be. Limits below 1 leave room for nothing.
struct DraftLimits {
  Index nodes = unlimited;  ///< how many tokens it may have
  Index depth = unlimited;  ///< how many tokens a path may have, from the context outward
  /// How many tokens the path of eldest children has to have at least, for a rule that remembers its sequence: nodes are
  /// given to it first.
  Index trunk = 0;

  /// How many tokens a line within the limits may have.
  Index length() const { return std::min(nodes, depth); }
};

namespace detail {

/// How many tokens a line may have where the model has room for so many drafted tokens: the last one need not enter it.
inline Index longest_line(Index room) { return room < 0 ? 0 : room == unlimited ? room : room + 1; }

struct AlwaysKeepDrafting {
  bool operator()(const auto&, Index) const { return true; }
};

template <class D, class Limit, class Source, class... More>
concept DraftsBy =
    requires(D& drafter, std::span<const Token> context, const Limit& limit, Source& chance, More&... more) {
      {
        drafter.draft(context, limit, chance, more...).tokens
      } -> std::convertible_to<std::span<const Token>>;
      { drafter.draft(context, limit, chance, more...).rows } -> Probabilities;
    };

template <class D, class Source, class... More>
concept Drafts = DraftsBy<D, DraftLimits, Source, More...> || DraftsBy<D, Index, Source, More...>;

}  // namespace detail

/// A source of guesses:
///
///   draft(context, limits, chance)  proposes tokens to follow `context`, within the limits (DraftLimits), as a Draft.
///                                   Everything random must come from `chance`, and row i must be the very
///                                   distribution that token i was drawn from: reporting another is how drafts
///                                   become lossy. Which tokens are in the draft may depend on rows and on tokens
///                                   that were chosen; to drop a token that was drawn because of what was drawn makes
///                                   drafts lossy, too.
///   draft(context, gamma, chance)   in its place, of a drafter of lines: up to gamma tokens
///   truncate(length)                only the first `length` tokens of the text stay cached, and of what was drafted
///                                   those that the next context goes on with. Must not throw.
///
/// A drafter may also offer
///
///   drafts_trees                    a static constant: whether its drafts may branch. Without it true of a drafter that
///                                   takes limits, false of one that takes a length
///   draft(context, limits or gamma, chance, keep_drafting)
///                                   ends the proposal where keep_drafting(row, i), asked before token i is drawn from
///                                   the row, says no: for draft lengths that depend on the draft model's own
///                                   confidence (DraftLength). Of drafters of lines
///   observe(target_rows, tokens, parents, verdict)
///                                   called after every target call, before anything is rolled back, with the γ+1 rows,
///                                   the γ drafted tokens, who follows whom (none of a line) and where the rule stopped
///                                   (NodeVerdict; of a line verdict.node tokens were accepted): for drafters that learn
///                                   from the target's calls
///   steady                          a static constant, false where one of these holds: the length of a draft, or of the
///                                   path of eldest children, may depend on a row after a token drawn on it; or a
///                                   position may get another row in the next draft. Rules that remember their sequence
///                                   (GreedyBlockVerifier) change what follows a rejection by the rows and the length
///                                   of the rejected draft. They do not compile with such a drafter, unless all its
///                                   rows are one-hot
///   identities()                    for a drafter, held by value, that refers to a drafter or a model that it drafts with
///                                   (by a pointer, say): specdec::identities(other), a std::vector<const void*>; of
///                                   several, all together. Without it nobody notices that another decoder uses them
///                                   in between
///
/// The context that a drafter is shown extends what survived, so a cache needs only the new tokens. Of a tree one path
/// survives at most, and the context that is shown next tells which.
///
/// A head on the target's hidden states (EAGLE, Medusa) is a drafter that refers to the target's model: in observe()
/// that model still holds the states of the call, of which the one at verdict.node is where the next draft begins.
/// One that shares the target's layers and cache is examples/transformer/early_exit.hpp.
template <class D, class Source = RandomChance<SplitMix64>>
concept Drafter = detail::Drafts<D, Source> && requires(D& drafter, Index n) { drafter.truncate(n); };

/// Whether the drafter's drafts may branch.
template <class D, class Source = RandomChance<SplitMix64>>
inline constexpr bool drafts_trees = [] {
  if constexpr (requires { D::drafts_trees; }) return static_cast<bool>(D::drafts_trees);
  else return detail::DraftsBy<D, DraftLimits, Source>;
}();

/// Whether the length of a draft is settled before its first token is drawn, and each row depends on the tokens before it
/// alone; true where the drafter does not say.
template <class D>
inline constexpr bool is_steady = [] {
  if constexpr (requires { D::steady; }) return static_cast<bool>(D::steady);
  else return true;
}();

// What is returned is declared, not deduced: to ask whether a drafter of drafters is a Drafter compiles no draft by a source
// of chance that one of them may refuse.

/// Asks a drafter for a draft, by limits or by a length, as it takes them: for what wraps drafters. One that does not end
/// its drafts by a row is not told keep_drafting.
template <class D, class Source, class... More>
  requires detail::DraftsBy<D, DraftLimits, Source, More...>
auto ask_drafter(D& drafter, std::span<const Token> context, const DraftLimits& limits, Source& chance,
                 More&... more) -> decltype(drafter.draft(context, limits, chance, more...)) {
  return drafter.draft(context, limits, chance, more...);
}
template <class D, class Source, class... More>
  requires(!detail::DraftsBy<D, DraftLimits, Source, More...> && detail::DraftsBy<D, Index, Source, More...>)
auto ask_drafter(D& drafter, std::span<const Token> context, const DraftLimits& limits, Source& chance,
                 More&... more) -> decltype(drafter.draft(context, Index{}, chance, more...)) {
  return drafter.draft(context, limits.length(), chance, more...);
}
template <class D, class Source, class KeepDrafting>
  requires(!detail::Drafts<D, Source, KeepDrafting>)
auto ask_drafter(D& drafter, std::span<const Token> context, const DraftLimits& limits, Source& chance,
                 KeepDrafting&) -> decltype(ask_drafter(drafter, context, limits, chance)) {
  return ask_drafter(drafter, context, limits, chance);
}

namespace detail {

template <class D, class Rows>
concept Observes =
    requires(D& drafter, const Rows& rows, std::span<const Token> tokens, std::span<const Index> parents,
             const NodeVerdict& verdict) { drafter.observe(rows, tokens, parents, verdict); };

/// Tells a drafter that learns from the target's calls.
template <class D, class Rows>
void tell_drafter([[maybe_unused]] D& drafter, [[maybe_unused]] const Rows& rows,
                  [[maybe_unused]] std::span<const Token> tokens,
                  [[maybe_unused]] std::span<const Index> parents,
                  [[maybe_unused]] const NodeVerdict& verdict) {
  if constexpr (Observes<D, Rows>) {
    drafter.observe(rows, tokens, parents, verdict);
  } else {
    static_assert(
        !requires { &D::observe; } && !requires { drafter.observe(rows, tokens, Verdict{}); },
        "the drafter has an observe() that is never called: it is observe(target_rows, tokens, parents, "
        "verdict), see specdec::Drafter");
  }
}

/// Who follows whom in a draft; of one that is a line, nobody is told.
std::span<const Index> parents_of(const auto& draft) {
  if constexpr (requires { draft.parents; }) return draft.parents;
  else return {};
}

}  // namespace detail

/// Proposes nothing: the loop becomes ordinary decoding.
struct NoDrafter {
  Draft<OneHotRows> draft(std::span<const Token>, Index, auto&) const { return {{}, OneHotRows({}), {}}; }
  void truncate(Index) const {}
};

}  // namespace specdec

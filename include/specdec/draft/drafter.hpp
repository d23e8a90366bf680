// What a drafter has to offer, and the drafter that proposes nothing.
#pragma once

#include <algorithm>
#include <concepts>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// A proposal: the drafted tokens, and for each token the distribution that it was really drawn from (its row).
///
/// Without parents the draft is a line: each token follows the one before it. With parents the draft may be a tree:
/// tokens[k] follows tokens[parents[k]], or the context where parents[k] = −1; parents[k] < k. Siblings have one parent, and
/// an elder sibling has a smaller number. A verifier judges siblings in the order of their numbers. Row k is the
/// distribution of tokens[k] given its elder siblings:
///
///   drawn independently of them       the row after the parent. Siblings may be equal tokens. Where one token has all the
///                                     probability of the row, there is one child
///   drawn without replacement         the row after the parent without the elder siblings, renormalised
///   chosen, not drawn                 one-hot; chosen siblings differ from one another and from drawn elders
///
/// All members are views that live until the drafter's next call.
template <Probabilities Rows>
struct Draft {
  std::span<const Token> tokens;
  Rows rows;
  std::span<const Index> parents = {};
};

/// What the target made of a draft, for drafters that learn. Tokens that were drafted but not fed (Feed) are left out; if one of
/// them ended the text, it is verdict.token. The views live as long as the call that passes them on.
template <class Rows>
struct Judged {
  const Rows& rows;                ///< the target's γ + 1 rows
  std::span<const Token> tokens;   ///< the γ drafted tokens
  std::span<const Index> parents;  ///< of these tokens; empty for a line
  NodeVerdict verdict;  ///< where the rule stopped: in a line, verdict.node is the number of accepted tokens
};

/// How large a draft may be. A limit below 1 leaves room for no token.
struct DraftLimits {
  Index nodes = unlimited;  ///< how many tokens it may have
  Index depth = unlimited;  ///< how many tokens a path may have, counted from the context
  /// The least length of the trunk, the path of eldest children. The trunk gets its nodes before the rest of the tree. For
  /// verifiers that remember their sequence (GreedyBlockVerifier).
  Index trunk = 0;
  /// Whether the lengths of paths must not depend on rows after drawn tokens, for these verifiers. A drafter whose row is a
  /// dead end (rows/read/dead_end.hpp) then goes on with a row of its own choice, which depends on the context only and which
  /// it reports. Else it ends the path there.
  bool fixed = false;

  /// How many tokens a line within the limits may have.
  Index length() const { return std::min(nodes, depth); }
};

namespace detail {

/// How many tokens a line may have where the model has room for `room` drafted tokens. The last token need not enter the
/// model.
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

/// What a drafter asks after it has drawn token i from the row: whether to draft another token (DraftLength's draft_another).
/// Yes if keep_drafting has no function for the question.
template <class KeepDrafting, class Row>
bool drafts_another(const KeepDrafting& keep_drafting, const Row& row, Index i) {
  if constexpr (requires { keep_drafting.another(row, i); }) return keep_drafting.another(row, i);
  else return true;
}

/// A source of guesses:
///
///   draft(context, limits, chance)  returns a Draft of tokens to follow `context`, within the limits (DraftLimits).
///                                   All randomness must come from `chance`. Row i must be the very distribution that
///                                   token i was drawn from: with another row the output is no longer the target's.
///                                   Rows and chosen tokens may decide which tokens are in the draft. Drawn tokens must
///                                   not: a draft that drops a token because of a draw makes the output lossy, too.
///   draft(context, gamma, chance)   for a drafter of lines, instead of the above: up to gamma tokens
///   truncate(length)                rollback: the first `length` tokens of the text stay cached. A drafted token stays
///                                   cached if the next context has it at its place. Must not throw.
///
/// A drafter may also offer
///
///   drafts_trees                    a static constant: whether its drafts may branch. Default: true if draft() takes
///                                   limits, false if draft() takes gamma
///   draft(context, limits or gamma, chance, keep_drafting)
///                                   shows its rows to a draft length, which stops where the draft model is not confident
///                                   (DraftLength). A drafter of lines asks keep_drafting(row, i) before it draws token i
///                                   from the row, and ends the draft if the answer is no. After it has drawn token i,
///                                   it asks drafts_another(keep_drafting, row, i), and ends the draft after this token
///                                   if the answer is no. Either question may be left out. A drafter of trees asks
///                                   keep_drafting.tree() if its tokens are chosen, keep_drafting.drawn_tree() if they are
///                                   drawn, where there is such a function: see RatedTree and RatedDraws
///   observe(target_rows, tokens, parents, verdict)
///                                   for drafters that learn from the target: called after every target call and before
///                                   the rollback, with the γ+1 rows, the γ drafted tokens, their parents (empty for a
///                                   line) and where the verifier stopped (NodeVerdict; in a line verdict.node is the
///                                   number of accepted tokens). Tokens that were drafted but not fed (Feed) are left out;
///                                   if one of them ended the text, it is verdict.token
///   steady                          a static constant. It must be false in two cases: the length of a draft (in a tree, of
///                                   its trunk) may depend on a row after one of its drawn tokens; or the next draft may
///                                   give a position another row. Verifiers that remember their sequence
///                                   (GreedyBlockVerifier) use the rows and length of a rejected draft. So they do not
///                                   compile with an unsteady drafter, unless all rows are one-hot
///   identities()                    for a drafter that is held by value and refers to another drafter or model, say by a
///                                   pointer. Returns specdec::identities(other), a std::vector<const void*>; with several
///                                   others, the identities of all. Without this function the library cannot notice when
///                                   another decoder uses them in between
///
/// Each context begins with the tokens that survived the last step, so a cache takes in only the new tokens. Of a tree at
/// most one path survives; the next context shows which.
///
/// A head on the target's hidden states (Medusa, an MLP speculator, EAGLE) is a draft model: see model/head_model.hpp and
/// model/eagle_model.hpp. A drafter of yours that refers to the target's model may read its states in observe(), where the
/// model still holds those of the call; the next draft begins from the state at verdict.node.
/// Example: examples/transformer/self_draft.hpp, draft models that share the target's layers and KV cache.
template <class D, class Source = RandomChance<SplitMix64>>
concept Drafter = detail::Drafts<D, Source> && requires(D& drafter, Index n) { drafter.truncate(n); };

/// Whether the drafter's drafts may branch.
template <class D, class Source = RandomChance<SplitMix64>>
inline constexpr bool drafts_trees = [] {
  if constexpr (requires { D::drafts_trees; }) return static_cast<bool>(D::drafts_trees);
  else return detail::DraftsBy<D, DraftLimits, Source>;
}();

/// Whether the length of a draft is fixed before its first token is drawn, and each row depends only on the tokens before
/// it. True where the drafter has no `steady`.
template <class D>
inline constexpr bool is_steady = [] {
  if constexpr (requires { D::steady; }) return static_cast<bool>(D::steady);
  else return true;
}();

// The return types are declared, not deduced: the concept Drafter asks for them. To deduce a type would compile a member's
// draft(), and a member may refuse the concept's source of chance.

/// Calls draft() with limits or with gamma, whichever the drafter takes: for drafters that wrap others. A drafter without
/// keep_drafting is called without it.
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

/// Compiles only if D is a Drafter; the error names the missing function.
template <class D>
consteval bool fits_drafter() {
  using Source = RandomChance<SplitMix64>;
  if constexpr (!Drafter<D>) {
    constexpr bool drafts =
        requires(D& drafter, std::span<const Token> context, const DraftLimits& limits, Source& chance) {
          drafter.draft(context, limits, chance);
        } || requires(D& drafter, std::span<const Token> context, Index gamma, Source& chance) {
          drafter.draft(context, gamma, chance);
        };
    static_assert(drafts,
                  "the drafter has no draft(std::span<const specdec::Token> context, const "
                  "specdec::DraftLimits& limits, auto& chance), or with specdec::Index gamma for limits (one "
                  "for many texts drafts in a specdec::Batch): see specdec::Drafter");
    static_assert(!drafts || Drafts<D, Source>,
                  "the drafter's draft() returns no specdec::Draft, which has .tokens, and in .rows the "
                  "probabilities that they were drawn from: see specdec::Drafter");
    static_assert(
        requires(D& drafter, Index length) { drafter.truncate(length); },
        "the drafter has no truncate(specdec::Index length), its rollback: see specdec::Drafter");
  }
  return true;
}

template <class D, class Rows>
concept Observes =
    requires(D& drafter, const Rows& rows, std::span<const Token> tokens, std::span<const Index> parents,
             const NodeVerdict& verdict) { drafter.observe(rows, tokens, parents, verdict); };

/// Calls observe() if the drafter has it.
template <class D, class Rows>
void tell_drafter([[maybe_unused]] D& drafter, [[maybe_unused]] const Judged<Rows>& judged) {
  if constexpr (Observes<D, Rows>) {
    drafter.observe(judged.rows, judged.tokens, judged.parents, judged.verdict);
  } else {
    static_assert(
        !requires { &D::observe; } && !requires { drafter.observe(judged.rows, judged.tokens, Verdict{}); },
        "the drafter has an observe() that is never called: it is observe(target_rows, tokens, parents, "
        "verdict), see specdec::Drafter");
  }
}

/// A draft of tokens that were chosen, not drawn. The lists must outlive it.
inline Draft<OneHotRows> chosen(const std::vector<Token>& tokens, const std::vector<Index>& parents = {}) {
  return {view_of(tokens), OneHotRows(view_of(tokens)), view_of(parents)};
}

/// The parents of a draft's tokens; empty for a draft type without parents.
std::span<const Index> parents_of(const auto& draft) {
  if constexpr (requires { draft.parents; }) return draft.parents;
  else return {};
}

}  // namespace detail

/// Proposes nothing, so that the loop is ordinary decoding.
struct NoDrafter {
  Draft<OneHotRows> draft(std::span<const Token>, Index, auto&) const { return {{}, OneHotRows({}), {}}; }
  void truncate(Index) const {}
};

}  // namespace specdec

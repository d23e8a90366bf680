// What a drafter of one text has to offer, and the drafter that proposes nothing.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

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

/// A source of guesses for one text. It is the smallest thing that drafts; LiftedDrafter makes a Drafter of it.
///
///   draft(context, limits, chance)  returns a Draft of tokens to follow `context`, within the limits (DraftLimits).
///                                   All randomness must come from `chance`. Row i must be the very distribution that
///                                   token i was drawn from: with another row the output is no longer the target's.
///                                   Rows and chosen tokens may decide which tokens are in the draft. Drawn tokens must
///                                   not: a draft that drops a token because of a draw makes the output lossy, too. A
///                                   draft may end with a token for which limits.ends_at() is true.
///   draft(context, gamma, chance)   for a drafter of lines, instead of the above: up to gamma tokens
///   truncate(length)                rollback: of the first `length` tokens those stay cached, drafted ones, too, that the
///                                   next context has at their places; later ones do not (Drafter::keep). Must not throw.
///
/// A drafter may also offer
///
///   drafts_trees                    a static constant: whether its drafts may branch. Default: true if draft() takes
///                                   limits, false if draft() takes gamma
///   draft(context, limits or gamma, chance, keep_drafting)
///                                   shows its rows to a draft length, which stops where the draft model is not confident
///                                   (DraftLength). A drafter of lines asks keep_drafting.more(row, i) after it has drawn
///                                   token i from the row, and ends the draft after this token if the answer is no. For
///                                   what a drafter of trees may ask: see detail::KeepDrafting
///   observe(judged)                 for drafters that learn from the target: called after every target call and before
///                                   the rollback, with what the target made of the draft (Judged). A template, since the
///                                   target decides the type of the rows: void observe(const auto& judged)
///   steady, identities()            see Drafter
///
/// Each context begins with the tokens that survived the last step, so a cache takes in only the new tokens. Of a tree at
/// most one path survives; the next context shows which.
///
/// A head on the target's hidden states (Medusa, an MLP speculator, EAGLE) is a draft model: see more/heads/head_model.hpp and
/// more/heads/eagle_model.hpp. A drafter of yours that refers to the target's model may read its states in observe(), where the
/// model still holds the states of the call; the next draft begins from the state at judged.verdict.node.
/// Example: examples/apps/transformer/self_draft.hpp, draft models that share the target's layers and KV cache.
template <class D, class Source = RandomChance<SplitMix64>>
concept OneTextDrafter = detail::Drafts<D, Source> && requires(D& drafter, Index n) { drafter.truncate(n); };

namespace detail {

/// Calls draft() with limits or with gamma, whichever the drafter takes, and without keep_drafting if it does not take that.
template <class D, class Source, class... KeepDrafting>
decltype(auto) ask_drafter(D& drafter, std::span<const Token> context, const DraftLimits& limits,
                           Source& chance, KeepDrafting&... keep_drafting) {
  if constexpr (DraftsBy<D, DraftLimits, Source, KeepDrafting...>)
    return drafter.draft(context, limits, chance, keep_drafting...);
  else if constexpr (DraftsBy<D, Index, Source, KeepDrafting...>)
    return drafter.draft(context, limits.length(), chance, keep_drafting...);
  else return ask_drafter(drafter, context, limits, chance);
}

/// Compiles only if D is a OneTextDrafter; the error names the missing function.
template <class D>
consteval bool fits_one_text_drafter() {
  using Source = RandomChance<SplitMix64>;
  if constexpr (!OneTextDrafter<D>) {
    constexpr bool drafts =
        requires(D& drafter, std::span<const Token> context, const DraftLimits& limits, Source& chance) {
          drafter.draft(context, limits, chance);
        } || requires(D& drafter, std::span<const Token> context, Index gamma, Source& chance) {
          drafter.draft(context, gamma, chance);
        };
    static_assert(
        drafts,
        "the drafter has no draft(std::span<const specdec::Token> context, const "
        "specdec::DraftLimits& limits, auto& chance), or with specdec::Index gamma for limits: see "
        "specdec::OneTextDrafter, and specdec::Drafter for one that drafts for many texts together");
    static_assert(!drafts || Drafts<D, Source>,
                  "the drafter's draft() returns no specdec::Draft, which has .tokens, and in .rows the "
                  "probabilities that they were drawn from: see specdec::OneTextDrafter");
    static_assert(
        requires(D& drafter, Index length) { drafter.truncate(length); },
        "the drafter has no truncate(specdec::Index length), its rollback: see specdec::OneTextDrafter");
  }
  return true;
}

template <class D, class Rows>
concept ObservesOneText = requires(D& drafter, const Judged<Rows>& judged) { drafter.observe(judged); };

/// Calls observe() if the drafter has it.
template <class D, class Rows>
void tell_one_text([[maybe_unused]] D& drafter, [[maybe_unused]] const Judged<Rows>& judged) {
  if constexpr (ObservesOneText<D, Rows>) {
    drafter.observe(judged);
  } else {
    static_assert(
        !requires { &D::observe; } &&
            !requires { drafter.observe(judged.rows, judged.tokens, judged.parents, judged.verdict); },
        "the drafter has an observe() that is never called: it is observe(const auto& judged), see "
        "specdec::OneTextDrafter and specdec::Judged");
  }
}

}  // namespace detail

/// Proposes nothing, so that the loop is ordinary decoding.
struct NoDrafter {
  Draft<OneHotRows> draft(std::span<const Token>, Index, auto&) const { return {{}, OneHotRows({}), {}}; }
  void truncate(Index) const {}
};

}  // namespace specdec

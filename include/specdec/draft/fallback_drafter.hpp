// Several drafters in one: the first drafter that has a guess makes the proposal.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/parents.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// Asks its drafters in the order given and returns the first proposal that is not empty.
///
///   FallbackDrafter drafter{PromptLookupDrafter{}, ModelDrafter{small}};    // a match, else the small model
///
/// Drafters passed as lvalues are referred to and must outlive this; rvalues are moved in. If all members have rows of one
/// type, the rows are of that type. Else they are VariantRows of the members' types. All members are truncated, and all
/// observe() every target call. Members that take keep_drafting get it.
///
///   FallbackDrafter drafter{SuffixDrafter{{.min_match = 4}, Branching{}}, ModelDrafter{small, Spares{4, {2, 1}}}};
///
/// If one member drafts trees, this is a drafter of trees. A member for lines is then asked for as many tokens as a path may
/// have, and observes only the target calls of drafts that did not branch.
///
/// Pre: a member that proposes nothing has drawn nothing. Whether a member proposes may depend on the context, on earlier
/// steps and on rows that it has not drawn from. It must not depend on tokens that were drawn and dropped: the next member's
/// proposal would then depend on those draws, its rows would not say so, and the text would be biased. All drafters of the
/// library obey this rule.
/// Greedy block verification does not compile with this drafter, unless all members propose one-hot rows. After a rejection
/// that verifier changes the target's next rows by the rejected draft's rows. The next draft may come from another member
/// with other rows: the text would be biased.
/// Random: the draws of the member that proposes.
/// Cost: the drafts of all members up to the one that proposes, and a copy of the tokens. No allocation of its own in steady
/// state.
template <class... D>
class FallbackDrafter {
  static_assert(sizeof...(D) > 0, "a fallback drafter has a member at least");
  // Not a constraint of the class: see SpecDec.
  static_assert((detail::fits_drafter<std::remove_reference_t<D>>() && ...));

  template <class M, class Source, class... KeepDrafting>
  using RowsOf =
      std::remove_cvref_t<decltype(ask_drafter(std::declval<M&>(), std::span<const Token>{}, DraftLimits{},
                                               std::declval<Source&>(), std::declval<KeepDrafting&>()...)
                                       .rows)>;

  template <class First, class... Rest>
  struct Common {
    using Type = std::conditional_t<(std::same_as<First, Rest> && ...), First, VariantRows<First, Rest...>>;
  };

  template <class Source, class... KeepDrafting>
  using Rows = typename Common<RowsOf<std::remove_reference_t<D>, Source, KeepDrafting...>...>::Type;

  template <class M, class Rows>
  static constexpr bool observes = detail::Observes<M, Rows>;

 public:
  static constexpr bool drafts_trees = (specdec::drafts_trees<std::remove_reference_t<D>> || ...);
  /// False for several members: the next draft may give a position the row of another member.
  static constexpr bool steady = sizeof...(D) == 1 && (is_steady<std::remove_reference_t<D>> && ...);

  explicit FallbackDrafter(D&&... drafters) : drafters_(std::forward<D>(drafters)...) {}

  template <RandomSource Source>
  Draft<Rows<Source>> draft(std::span<const Token> context, const DraftLimits& limits, Source& source) & {
    return propose<0>(context, limits, source);
  }

  /// Drafts, and hands keep_drafting(row, i) to the members that take it (see Drafter).
  template <RandomSource Source, class KeepDrafting>
    requires(detail::Drafts<std::remove_reference_t<D>, Source, KeepDrafting> || ...)
  Draft<Rows<Source, std::remove_reference_t<KeepDrafting>>> draft(std::span<const Token> context,
                                                                   const DraftLimits& limits, Source& source,
                                                                   KeepDrafting&& keep_drafting) & {
    return propose<0>(context, limits, source, keep_drafting);
  }

  /// The addresses of members, or of their models, that other decoders may use, too.
  std::vector<const void*> identities() const {
    std::vector<const void*> found;
    std::apply(
        [&](const auto&... member) { (detail::append(found, detail::shared_identities<D>(member)), ...); },
        drafters_);
    return found;
  }

  void truncate(Index length) {
    std::apply([length](auto&... member) { (member.truncate(length), ...); }, drafters_);
  }

  /// Calls observe() of the members that learn from the target's calls.
  template <class Rows>
    requires(observes<std::remove_reference_t<D>, Rows> || ...)
  void observe(const Rows& target_rows, std::span<const Token> drafted, std::span<const Index> parents,
               const NodeVerdict& verdict) {
    const bool is_line = !detail::branches(parents);
    const auto tell = [&](auto& member) {
      using M = std::remove_cvref_t<decltype(member)>;
      if constexpr (observes<M, Rows>) {
        if constexpr (specdec::drafts_trees<M>) member.observe(target_rows, drafted, parents, verdict);
        else if (is_line) member.observe(target_rows, drafted, std::span<const Index>{}, verdict);
      }
    };
    std::apply([&](auto&... member) { (tell(member), ...); }, drafters_);
  }

 private:
  template <std::size_t k, class Source, class... KeepDrafting>
  Draft<Rows<Source, KeepDrafting...>> propose(std::span<const Token> context, const DraftLimits& limits,
                                               Source& source, KeepDrafting&... keep_drafting) {
    auto&& draft = ask_drafter(std::get<k>(drafters_), context, limits, source, keep_drafting...);
    const std::span<const Token> tokens = draft.tokens;
    if constexpr (k + 1 < sizeof...(D))
      if (tokens.empty()) return propose<k + 1>(context, limits, source, keep_drafting...);
    const std::span<const Index> parents = detail::parents_of(draft);
    tokens_.clear();
    detail::append(tokens_, tokens);
    parents_.clear();
    detail::append(parents_, parents);
    return {tokens_, rows<k, Rows<Source, KeepDrafting...>>(draft.rows), parents_};
  }

  template <std::size_t k, class To, class From>
  static To rows(const From& from) {
    if constexpr (std::same_as<From, To>) return from;
    else return To(std::in_place_index<k>, from);
  }

  std::tuple<D...> drafters_;
  std::vector<Token> tokens_;
  std::vector<Index> parents_;
};

template <class... D>
FallbackDrafter(D&&...) -> FallbackDrafter<D...>;

}  // namespace specdec

// Drafters in turn: the first that has a guess makes the proposal.
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
#include "specdec/model/turn.hpp"
#include "specdec/parents.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// Asks its drafters in the order given and passes on the proposal of the first that proposes anything.
///
///   FallbackDrafter drafter{PromptLookupDrafter{}, ModelDrafter{small}};    // a match, else the small model
///
/// Drafters passed as lvalues are referred to and must outlive this; rvalues are moved in. The rows are
/// of the type that all members have, else VariantRows of theirs. All members are truncated, and shown every
/// target call (observe); those that can end a draft by a row (keep_drafting) are told to.
///
///   FallbackDrafter drafter{SuffixDrafter{{.min_match = 4}, Branching{}}, ModelDrafter{small, Spares{4, {2, 1}}}};
///
/// With a drafter of trees among its members it is one. A member for lines is then asked for as many tokens as a path may
/// have, and shown those target calls alone whose draft did not branch.
///
/// Needs: a member that proposes nothing has drawn nothing. Whether it proposes may depend on the context, on
/// the rounds before and on rows it has not drawn from, never on tokens that it drew and dropped: the next
/// member's proposal would follow the outcome of a draw, of which its q knows nothing, and the text be
/// biased. The drafters of the library keep to that.
/// Greedy block verification does not compile with it, unless all members propose one-hot rows. After a rejection that
/// rule changes the target of the next positions by the rows they were drafted from; the next draft may give
/// the same positions to another member, with other rows, and the text would be biased.
/// Random: that of the member that proposes. Cost: that of all members up to it; the tokens are copied. No
/// allocation of its own in steady state.
template <class... D>
class FallbackDrafter {
  static_assert(sizeof...(D) > 0, "a fallback drafter has a member at least");
  // Not a constraint of the class: see SpecDec.
  static_assert((Drafter<std::remove_reference_t<D>> && ...),
                "a member of the fallback drafter is no specdec::Drafter");

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
  /// Members that take turns give one position different rows.
  static constexpr bool steady = sizeof...(D) == 1 && (is_steady<std::remove_reference_t<D>> && ...);

  explicit FallbackDrafter(D&&... drafters) : drafters_(std::forward<D>(drafters)...) {}

  template <RandomSource Source>
  Draft<Rows<Source>> draft(std::span<const Token> context, const DraftLimits& limits, Source& source) & {
    return propose<0>(context, limits, source);
  }

  /// Drafts, with keep_drafting(row, i) handed to the members that ask it (see Drafter).
  template <RandomSource Source, class KeepDrafting>
    requires(detail::Drafts<std::remove_reference_t<D>, Source, KeepDrafting> || ...)
  Draft<Rows<Source, std::remove_reference_t<KeepDrafting>>> draft(std::span<const Token> context,
                                                                   const DraftLimits& limits, Source& source,
                                                                   KeepDrafting&& keep_drafting) & {
    return propose<0>(context, limits, source, keep_drafting);
  }

  /// What others may use, too, of the members.
  std::vector<const void*> identities() const {
    std::vector<const void*> found;
    const auto add = [&found](const std::vector<const void*>& more) {
      found.insert(found.end(), more.begin(), more.end());
    };
    std::apply([&](const auto&... member) { (add(detail::shared_identities<D>(member)), ...); }, drafters_);
    return found;
  }

  void truncate(Index length) {
    std::apply([length](auto&... member) { (member.truncate(length), ...); }, drafters_);
  }

  /// For the members that learn from the target's calls.
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
  template <std::size_t I, class Source, class... KeepDrafting>
  Draft<Rows<Source, KeepDrafting...>> propose(std::span<const Token> context, const DraftLimits& limits,
                                               Source& source, KeepDrafting&... keep_drafting) {
    auto&& draft = ask_drafter(std::get<I>(drafters_), context, limits, source, keep_drafting...);
    const std::span<const Token> tokens = draft.tokens;
    if constexpr (I + 1 < sizeof...(D))
      if (tokens.empty()) return propose<I + 1>(context, limits, source, keep_drafting...);
    const std::span<const Index> parents = detail::parents_of(draft);
    tokens_.assign(tokens.begin(), tokens.end());
    parents_.assign(parents.begin(), parents.end());
    return {tokens_, rows<I, Rows<Source, KeepDrafting...>>(draft.rows), parents_};
  }

  template <std::size_t I, class To, class From>
  static To rows(const From& from) {
    if constexpr (std::same_as<From, To>) return from;
    else return To(std::in_place_index<I>, from);
  }

  std::tuple<D...> drafters_;
  std::vector<Token> tokens_;
  std::vector<Index> parents_;
};

template <class... D>
FallbackDrafter(D&&...) -> FallbackDrafter<D...>;

}  // namespace specdec

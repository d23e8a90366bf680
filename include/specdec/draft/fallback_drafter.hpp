// Several drafters in one: the first drafter that has a guess makes the proposal.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/member_drafters.hpp"
#include "specdec/executor.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Asks its drafters in the order given. For each request, the first proposal that is not empty is the draft.
///
///   FallbackDrafter drafter{PromptLookupDrafter{}, ModelDrafter{small}};    // a match, else the small model
///
/// Members are drafters for requests, or of one text, which are lifted (LiftedDrafter); so this works for one text and for
/// many. Drafters passed as lvalues are referred to and must outlive this; rvalues are moved in. If all members have rows of
/// one type, the rows are of that type. Else they are VariantRows of the members' types. All members are rolled back, and all
/// observe() every target call. Members that take keep_drafting get it.
///
///   FallbackDrafter drafter{SuffixDrafter{{.min_match = 4}, Branching{}}, ModelDrafter{small, Spares{4, {2, 1}}}};
///
/// If one member drafts trees, this is a drafter of trees. A member for lines is then asked for as many tokens as a path may
/// have, and observes only the target calls of drafts that did not branch.
/// Pre: a member that proposes nothing has drawn nothing. Whether a member proposes may depend on the context, on earlier steps
/// and on rows that it has not drawn from. It must not depend on tokens that were drawn and dropped: the next member's proposal
/// would then depend on those draws, its rows would not say so, and the text would be biased. All drafters of the library obey
/// this rule. Greedy block verification does not compile with this drafter, unless all members propose one-hot rows. After a
/// rejection that verifier changes the target's next rows by the rejected draft's rows. The next draft may come from another
/// member with other rows: the text would be biased.
/// Random: the draws of the member that proposes.
/// Cost: the drafts of all members up to the one that proposes. No allocation of its own in steady state.
template <class... D>
class FallbackDrafter : public detail::MemberDrafters<D...> {
  using Base = detail::MemberDrafters<D...>;

  template <class Given>
  using Member = std::remove_reference_t<detail::Lift<Given>>;
  template <class Given>
  using RowsOf = std::remove_cvref_t<decltype(std::declval<const Member<Given>&>().drafted(Index{}).rows)>;
  template <class First, class... Rest>
  struct Common {
    using Type = std::conditional_t<(std::same_as<First, Rest> && ...), First, VariantRows<First, Rest...>>;
  };
  using Rows = typename Common<RowsOf<D>...>::Type;

 public:
  static constexpr bool drafts_trees = (specdec::drafts_trees<Member<D>> || ...);
  /// False for several members: the next draft may give a position the row of another member.
  static constexpr bool steady = sizeof...(D) == 1 && (is_steady<Member<D>> && ...);

  explicit FallbackDrafter(D&&... drafters) : Base(std::forward<D>(drafters)...) {}

  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    propose<0>(requests, for_each);
  }

  Draft<Rows> drafted(Index sequence) const { return read<0>(sequence); }

 private:
  using Base::members;

  // Member k drafts. The requests that it has no guess for come first afterwards, and are the next member's.
  template <std::size_t k, class Request, class E>
  void propose(std::span<Request> requests, E& for_each) {
    if (requests.empty()) return;
    auto& member = std::get<k>(members);
    detail::draft_with(member, requests, for_each);
    if constexpr (k + 1 < sizeof...(D)) {
      std::size_t left = 0;
      for (Request& request : requests)
        if (!request.error && std::as_const(member).drafted(request.sequence).tokens.empty())
          std::swap(requests[left++], request);
      propose<k + 1>(requests.first(left), for_each);
    }
  }

  // The draft of the first member, from member k on, that has a guess.
  template <std::size_t k>
  Draft<Rows> read(Index sequence) const {
    const auto& draft = std::get<k>(members).drafted(sequence);
    if constexpr (k + 1 < sizeof...(D))
      if (draft.tokens.empty()) return read<k + 1>(sequence);
    return {draft.tokens, rows<k>(draft.rows), detail::parents_of(draft)};
  }

  template <std::size_t k, class From>
  static Rows rows(const From& from) {
    if constexpr (std::same_as<From, Rows>) return from;
    else return Rows(std::in_place_index<k>, from);
  }
};

template <class... D>
FallbackDrafter(D&&...) -> FallbackDrafter<D...>;

}  // namespace specdec

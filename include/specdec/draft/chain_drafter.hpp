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
#include "specdec/rows/variant_rows.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec {

/// Asks its drafters in the order given and passes on the proposal of the first that proposes anything.
///
///   ChainDrafter drafter{PromptLookupDrafter{}, ModelDrafter{small}};    // a match, else the small model
///
/// Drafters passed as lvalues are referred to and must outlive the chain; rvalues are moved in. The rows are
/// of the type that all members have, else VariantRows of theirs. All members are truncated, and shown every
/// target call (observe); those that can end a draft by a row (goes_on) are told to.
///
/// Needs: a member that proposes nothing has drawn nothing. Whether it proposes may depend on the context, on
/// the rounds before and on rows it has not drawn from, never on tokens that it drew and dropped: the next
/// member's proposal would follow the outcome of a draw, of which its q knows nothing, and the text be
/// biased. The drafters of the library keep to that.
/// Not for greedy block verification, unless all members propose without probabilities (one-hot rows). A
/// draft cut short by that rule leaves a position's target modified by the q it was drafted with; a chain may
/// give the same position to another member in the next round, whose q is another (the text is then biased)
/// or whose proposal is too short for min_draft_length() (the rule then throws std::invalid_argument). Which
/// member steps in is not made to depend on min_draft_length(): a proposal is never refused for its length.
/// Random: that of the member that proposes. Cost: that of all members up to it; the tokens are copied. No
/// allocation of its own in steady state.
template <class... D>
class ChainDrafter {
  static_assert(sizeof...(D) > 0, "a chain has a member at least");
  // Not a constraint of the class: see SpecDec.
  static_assert((Drafter<std::remove_reference_t<D>> && ...), "a member of the chain is no specdec::Drafter");

  template <class M, class Source, class... GoesOn>
  static constexpr bool can_draft =
      requires(M& member, std::span<const Token> context, Source& source, GoesOn&... goes_on) {
        member.draft(context, Index{}, source, goes_on...);
      };

  template <class M, class Rows>
  static constexpr bool observes =
      requires(M& member, const Rows& rows, std::span<const Token> drafted, const Verdict& verdict) {
        member.observe(rows, drafted, verdict);
      };

 public:
  explicit ChainDrafter(D&&... drafters) : drafters_(std::forward<D>(drafters)...) {}

  template <RandomSource Source>
  auto draft(std::span<const Token> context, Index gamma, Source& source) & {
    return propose<0>(context, gamma, source);
  }

  /// Drafts, with goes_on(row, i) handed to the members that ask it (see Drafter).
  template <RandomSource Source, class GoesOn>
    requires(can_draft<std::remove_reference_t<D>, Source, GoesOn> || ...)  //
  auto draft(std::span<const Token> context, Index gamma, Source& source, GoesOn&& goes_on) & {
    return propose<0>(context, gamma, source, goes_on);
  }

  /// Those members that others may use, too.
  template <class Visit>
    requires(detail::MayBeShared<D> || ...)
  void each_identity(const Visit& visit) const {
    const auto tell = [&](const auto& member, bool shared) {
      if (shared) specdec::each_identity(member, visit);
    };
    std::apply([&](const auto&... member) { (tell(member, detail::MayBeShared<D>), ...); }, drafters_);
  }

  void truncate(Index length) {
    std::apply([length](auto&... member) { (member.truncate(length), ...); }, drafters_);
  }

  /// For the members that learn from the target's calls.
  template <class Rows>
    requires(observes<std::remove_reference_t<D>, Rows> || ...)  //
  void observe(const Rows& target_rows, std::span<const Token> drafted, const Verdict& verdict) {
    const auto tell = [&](auto& member) {
      if constexpr (observes<std::remove_cvref_t<decltype(member)>, Rows>)
        member.observe(target_rows, drafted, verdict);
    };
    std::apply([&](auto&... member) { (tell(member), ...); }, drafters_);
  }

 private:
  template <class M, class Source, class... GoesOn>
  static decltype(auto) ask(M& member, std::span<const Token> context, Index gamma, Source& source,
                            GoesOn&... goes_on) {
    if constexpr (can_draft<M, Source, GoesOn...>) return member.draft(context, gamma, source, goes_on...);
    else return member.draft(context, gamma, source);
  }

  template <class M, class Source, class... GoesOn>
  using RowsOf = std::remove_cvref_t<decltype(ask(std::declval<M&>(), {}, Index{}, std::declval<Source&>(),
                                                  std::declval<GoesOn&>()...)
                                                  .rows)>;

  template <class First, class... Rest>
  struct Common {
    using Type = std::conditional_t<(std::same_as<First, Rest> && ...), First, VariantRows<First, Rest...>>;
  };

  template <class Source, class... GoesOn>
  using Rows = typename Common<RowsOf<std::remove_reference_t<D>, Source, GoesOn...>...>::Type;

  template <std::size_t I, class Source, class... GoesOn>
  Draft<Rows<Source, GoesOn...>> propose(std::span<const Token> context, Index gamma, Source& source,
                                         GoesOn&... goes_on) {
    auto&& draft = ask(std::get<I>(drafters_), context, gamma, source, goes_on...);
    const std::span<const Token> tokens = draft.tokens;
    if constexpr (I + 1 < sizeof...(D))
      if (tokens.empty()) return propose<I + 1>(context, gamma, source, goes_on...);
    tokens_.assign(tokens.begin(), tokens.end());
    return {tokens_, rows<I, Rows<Source, GoesOn...>>(draft.rows)};
  }

  template <std::size_t I, class To, class From>
  static To rows(const From& from) {
    if constexpr (std::same_as<From, To>) return from;
    else return To(std::in_place_index<I>, from);
  }

  std::tuple<D...> drafters_;
  std::vector<Token> tokens_;
};

template <class... D>
ChainDrafter(D&&...) -> ChainDrafter<D...>;

}  // namespace specdec

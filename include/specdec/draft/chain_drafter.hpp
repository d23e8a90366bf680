// Drafters in turn: the first that has a guess makes the proposal.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/types.hpp"
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
///   ChainDrafter drafter{SuffixDrafter{{.min_match = 4}, Branching{}}, SparesDrafter{small, 4, {2, 1}}};
///
/// With a drafter of trees among its members it is one, and the proposal of a linear member is a tree without branches,
/// of as many tokens as a tree may have: one that should not draft so far goes into a drafter of trees of its own, as
/// SparesDrafter{small, 4, {}}. Linear members are then shown those target calls alone whose draft did not branch.
///
/// Needs: a member that proposes nothing has drawn nothing. Whether it proposes may depend on the context, on
/// the rounds before and on rows it has not drawn from, never on tokens that it drew and dropped: the next
/// member's proposal would follow the outcome of a draw, of which its q knows nothing, and the text be
/// biased. The drafters of the library keep to that.
/// Greedy block verification does not compile with a chain, unless all members propose one-hot rows. After a rejection that
/// rule changes the target of the next positions by the rows they were drafted from; the next draft of a chain may give
/// the same positions to another member, with other rows, and the text would be biased.
/// Random: that of the member that proposes. Cost: that of all members up to it; the tokens are copied. No
/// allocation of its own in steady state.
template <class... D>
class ChainDrafter {
  static_assert(sizeof...(D) > 0, "a chain has a member at least");
  // Not a constraint of the class: see SpecDec.
  static_assert(((Drafter<std::remove_reference_t<D>> || TreeDrafter<std::remove_reference_t<D>>)&&...),
                "a member of the chain is no specdec::Drafter, nor a specdec::TreeDrafter");
  static constexpr bool drafts_trees = (TreeDrafter<std::remove_reference_t<D>> || ...);

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
  template <class M, class Rows>
  static constexpr bool observes_trees =
      requires(M& member, const Rows& rows, std::span<const Token> drafted, std::span<const Index> parents,
               const Stop& stop) { member.observe(rows, drafted, parents, stop); };

  // Asks a member; `limit` is a draft length, or TreeLimits. What is returned is declared, not deduced: to ask whether a
  // chain is a Drafter compiles no draft by a source of chance that a member may refuse.
  template <class M, class Source>
    requires(drafts_trees && !TreeDrafter<M>)
  static auto ask(M& member, std::span<const Token> context, const TreeLimits& limit, Source& source)
      -> decltype(member.draft(context, Index{}, source)) {
    return member.draft(context, std::min(limit.nodes, limit.depth), source);
  }
  template <class M, class Limit, class Source, class... GoesOn>
    requires(drafts_trees ? TreeDrafter<M> : !can_draft<M, Source, GoesOn...>)
  static auto ask(M& member, std::span<const Token> context, const Limit& limit, Source& source, GoesOn&...)
      -> decltype(member.draft(context, limit, source)) {
    return member.draft(context, limit, source);
  }
  template <class M, class Source, class... GoesOn>
    requires(!drafts_trees && can_draft<M, Source, GoesOn...>)
  static auto ask(M& member, std::span<const Token> context, Index limit, Source& source, GoesOn&... goes_on)
      -> decltype(member.draft(context, limit, source, goes_on...)) {
    return member.draft(context, limit, source, goes_on...);
  }

  template <class M, class Limit, class Source, class... GoesOn>
  using RowsOf = std::remove_cvref_t<decltype(ask(std::declval<M&>(), {}, std::declval<const Limit&>(),
                                                  std::declval<Source&>(), std::declval<GoesOn&>()...)
                                                  .rows)>;

  template <class First, class... Rest>
  struct Common {
    using Type = std::conditional_t<(std::same_as<First, Rest> && ...), First, VariantRows<First, Rest...>>;
  };

  template <class Limit, class Source, class... GoesOn>
  using Rows = typename Common<RowsOf<std::remove_reference_t<D>, Limit, Source, GoesOn...>...>::Type;

  template <class R>
  using Proposal = std::conditional_t<drafts_trees, TreeDraft<R>, Draft<R>>;

 public:
  /// Members that take turns give one position different rows.
  static constexpr bool steady = sizeof...(D) == 1 && (is_steady<std::remove_reference_t<D>> && ...);

  explicit ChainDrafter(D&&... drafters) : drafters_(std::forward<D>(drafters)...) {}

  template <RandomSource Source>
    requires(!drafts_trees)
  Proposal<Rows<Index, Source>> draft(std::span<const Token> context, Index gamma, Source& source) & {
    return propose<0>(context, gamma, source);
  }

  template <RandomSource Source>
    requires drafts_trees
  Proposal<Rows<TreeLimits, Source>> draft(std::span<const Token> context, const TreeLimits& limits,
                                           Source& source) & {
    return propose<0>(context, limits, source);
  }

  /// Drafts, with goes_on(row, i) handed to the members that ask it (see Drafter).
  template <RandomSource Source, class GoesOn>
    requires(!drafts_trees && (can_draft<std::remove_reference_t<D>, Source, GoesOn> || ...))
  Proposal<Rows<Index, Source, std::remove_reference_t<GoesOn>>> draft(std::span<const Token> context,
                                                                       Index gamma, Source& source,
                                                                       GoesOn&& goes_on) & {
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
    requires(!drafts_trees && (observes<std::remove_reference_t<D>, Rows> || ...))
  void observe(const Rows& target_rows, std::span<const Token> drafted, const Verdict& verdict) {
    const auto tell = [&](auto& member) {
      if constexpr (observes<std::remove_cvref_t<decltype(member)>, Rows>)
        member.observe(target_rows, drafted, verdict);
    };
    std::apply([&](auto&... member) { (tell(member), ...); }, drafters_);
  }

  template <class Rows>
    requires(drafts_trees && ((observes<std::remove_reference_t<D>, Rows> ||
                               observes_trees<std::remove_reference_t<D>, Rows>) ||
                              ...))
  void observe(const Rows& target_rows, std::span<const Token> drafted, std::span<const Index> parents,
               const Stop& stop) {
    Index line = 0;
    while (line < std::ssize(parents) && parents[static_cast<std::size_t>(line)] == line - 1) ++line;
    const auto tell = [&](auto& member) {
      using M = std::remove_cvref_t<decltype(member)>;
      if constexpr (observes_trees<M, Rows>) member.observe(target_rows, drafted, parents, stop);
      else if constexpr (observes<M, Rows>)
        if (line == std::ssize(parents)) member.observe(target_rows, drafted, Verdict{stop.node, stop.token});
    };
    std::apply([&](auto&... member) { (tell(member), ...); }, drafters_);
  }

 private:
  template <std::size_t I, class Limit, class Source, class... GoesOn>
  Proposal<Rows<Limit, Source, GoesOn...>> propose(std::span<const Token> context, const Limit& limit,
                                                   Source& source, GoesOn&... goes_on) {
    auto&& draft = ask(std::get<I>(drafters_), context, limit, source, goes_on...);
    const std::span<const Token> tokens = draft.tokens;
    if constexpr (I + 1 < sizeof...(D))
      if (tokens.empty()) return propose<I + 1>(context, limit, source, goes_on...);
    tokens_.assign(tokens.begin(), tokens.end());
    const auto& as_said = rows<I, Rows<Limit, Source, GoesOn...>>(draft.rows);
    if constexpr (drafts_trees) {
      set_parents(draft);
      return {tokens_, as_said, parents_};
    } else {
      return {tokens_, as_said};
    }
  }

  void set_parents(const auto& draft) {
    if constexpr (requires { draft.parents; }) {
      const std::span<const Index> parents = draft.parents;
      parents_.assign(parents.begin(), parents.end());
    } else {
      parents_.resize(tokens_.size());
      std::iota(parents_.begin(), parents_.end(), Index{-1});
    }
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
ChainDrafter(D&&...) -> ChainDrafter<D...>;

}  // namespace specdec

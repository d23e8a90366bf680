// What drafters that hold several drafters share: how they pass calls on.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Several drafters for the same texts. Lvalues are referred to, rvalues are moved in; drafters of one text are lifted.
template <class... D>
class MemberDrafters {
  static_assert(sizeof...(D) > 0, "a drafter of drafters has a member at least");
  // Not a constraint of the class: see SpecDec.
  static_assert((fits_drafter<D>() && ...));

 public:
  explicit MemberDrafters(D&&... drafters) : members(Lift<D>(std::forward<D>(drafters))...) {}

  void serve_one() {
    each([](auto& member) { detail::serve_one(member); });
  }
  void check_copies() const {
    std::apply([](const auto&... member) { (detail::check_copies(member), ...); }, members);
  }

  void keep(Index sequence, Index length) {
    each([=](auto& member) { member.keep(sequence, length); });
  }
  void release(Index sequence) {
    each([=](auto& member) { member.release(sequence); });
  }

  /// Tells the members that learn from the target's calls. Those for lines learn from drafts that did not branch.
  template <class TargetRows>
  void observe(Index sequence, const Judged<TargetRows>& judged) {
    const bool is_line = !branches(judged.parents);
    const Judged<TargetRows> line{judged.rows, judged.tokens, {}, judged.verdict};
    each([&](auto& member) {
      if constexpr (specdec::drafts_trees<std::remove_cvref_t<decltype(member)>>)
        tell_drafter(member, sequence, judged);
      else if (is_line) tell_drafter(member, sequence, line);
    });
  }

  /// What the members keep for a text.
  using State = std::tuple<StateOf<std::remove_reference_t<Lift<D>>>...>;

  State take(Index sequence) {
    return std::apply([&](auto&... member) { return State(take_state(member, sequence)...); }, members);
  }
  void put(Index sequence, State&& state) { put_from<0>(sequence, state); }
  void fork(Index from, Index to) {
    each([=](auto& member) { fork_state(member, from, to); });
  }
  void fork_context(Index from, Index to, Index length) {
    each([=](auto& member) { fork_draft_context(member, from, to, length); });
  }

  /// The addresses of members, or of their models, that other decoders may use, too.
  std::vector<const void*> identities() const {
    std::vector<const void*> found;
    std::apply([&](const auto&... member) { (append(found, shared_identities<Lift<D>>(member)), ...); },
               members);
    return found;
  }

 protected:
  template <class F>
  void each(const F& f) {
    std::apply([&](auto&... member) { (f(member), ...); }, members);
  }

  std::tuple<Lift<D>...> members;

 private:
  // The members from k on take in their parts; all of them, or none.
  template <std::size_t k>
  void put_from(Index sequence, State& state) {
    if constexpr (k < sizeof...(D)) {
      auto& member = std::get<k>(members);
      auto& part = std::get<k>(state);
      put_state(member, sequence, std::move(part));
      undo_on_error([&] { put_from<k + 1>(sequence, state); }, [&] { part = take_state(member, sequence); });
    }
  }
};

}  // namespace specdec::detail

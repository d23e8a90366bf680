// A drafter with something beside it that watches: what the audits in the loop share.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/executor.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing::detail {

/// Wraps a drafter, and passes every call on. A class that watches derives from it, and hides the calls that it looks at.
template <class D>
class WatchedDrafter {
  static_assert(specdec::detail::fits_drafter<D>());
  using Lifted = specdec::detail::Lift<D>;
  using Drafter = std::remove_reference_t<Lifted>;

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<Drafter>;
  static constexpr bool steady = is_steady<Drafter>;

  explicit WatchedDrafter(D&& drafter) : drafter_(std::forward<D>(drafter)) {}

  void serve_one() { specdec::detail::serve_one(drafter_); }
  void check_copies() const { specdec::detail::check_copies(drafter_); }

  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    specdec::detail::draft_with(drafter_, requests, for_each);
  }

  decltype(auto) drafted(Index sequence) const { return std::as_const(drafter_).drafted(sequence); }
  void keep(Index sequence, Index length) { drafter_.keep(sequence, length); }
  void release(Index sequence) { drafter_.release(sequence); }
  template <class Rows>
  void observe(Index sequence, const Judged<Rows>& judged) {
    specdec::detail::tell_drafter(drafter_, sequence, judged);
  }

  using State = specdec::detail::StateOf<Drafter>;
  State take(Index sequence) { return specdec::detail::take_state(drafter_, sequence); }
  void put(Index sequence, State&& state) {
    specdec::detail::put_state(drafter_, sequence, std::move(state));
  }
  void fork(Index from, Index to) { specdec::detail::fork_state(drafter_, from, to); }
  void fork_context(Index from, Index to, Index length) {
    specdec::detail::fork_draft_context(drafter_, from, to, length);
  }

  /// The addresses of the drafter's models that other code may use, too.
  std::vector<const void*> identities() const { return specdec::detail::shared_identities<Lifted>(drafter_); }

 private:
  Lifted drafter_;
};

}  // namespace specdec::testing::detail

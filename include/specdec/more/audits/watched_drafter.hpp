// A drafter with something beside it that watches: what the audits in the loop share.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "specdec/draft/drafter.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/draft/member_drafters.hpp"
#include "specdec/executor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing::detail {

/// Wraps a drafter, and passes every call on. A class that watches derives from it, and hides the calls that it looks at.
template <class D>
class WatchedDrafter : public specdec::detail::MemberDrafters<D> {
  using Drafter = std::remove_reference_t<specdec::detail::Lift<D>>;

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<Drafter>;
  static constexpr bool steady = is_steady<Drafter>;

  explicit WatchedDrafter(D&& drafter) : specdec::detail::MemberDrafters<D>(std::forward<D>(drafter)) {}

  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    specdec::detail::draft_with(std::get<0>(this->members), requests, for_each);
  }
  decltype(auto) drafted(Index sequence) const {
    return std::as_const(std::get<0>(this->members)).drafted(sequence);
  }
};

}  // namespace specdec::testing::detail

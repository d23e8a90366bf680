// Gives drafters that are written once, for requests, the functions of a drafter of one text or of many.
// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <span>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/executor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Gives W the public functions of a OneTextDrafter (many = false) or of a Drafter. With one text, its number is 0.
///
/// W has these functions, which may be private if DraftForRequests is a friend of W:
///
///   write(requests, for_each)    see Drafter::draft
///   draft_of(sequence)           its Draft; the return type is declared, not deduced (see OneTextDrafter)
///   cut(sequence, length)        rollback; must not throw
///   forget(sequence)             if it is for many texts; must not throw
template <class W, bool many>
class DraftForRequests {
 public:
  /// With keep_drafting: asks it whether the draft goes on (see OneTextDrafter).
  template <RandomSource Source, class KeepDrafting = AlwaysKeepDrafting, class Self = W>
    requires(!many)
  auto draft(std::span<const Token> context, const DraftLimits& limits, Source& source,
             const KeepDrafting& keep_drafting = {}) & -> decltype(std::declval<Self&>().draft_of(Index{})) {
    DraftRequest<Source, KeepDrafting> request{0, context, limits, &source, keep_drafting, nullptr};
    InOrder in_order;
    self().write(std::span(&request, 1), in_order);
    if (request.error) std::rethrow_exception(request.error);
    return self().draft_of(0);
  }
  void truncate(Index length)
    requires(!many)
  {
    self().cut(0, length);
  }

  template <class Request, Executor E = InOrder>
    requires many
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    self().write(requests, for_each);
  }
  template <class Self = W>
    requires many
  auto drafted(Index sequence) const& -> decltype(std::declval<const Self&>().draft_of(sequence)) {
    return static_cast<const W&>(*this).draft_of(sequence);
  }
  void keep(Index sequence, Index length)
    requires many
  {
    self().cut(sequence, length);
  }
  void release(Index sequence)
    requires many
  {
    self().forget(sequence);
  }

 private:
  W& self() { return static_cast<W&>(*this); }
};

}  // namespace specdec::detail

// Gives drafters that are written for requests the functions of a drafter of one text.
// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <span>
#include <utility>

#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Gives a drafter W for requests the functions of a OneTextDrafter, if its model has one context (one_text). The text has
/// number 0. W is then no Drafter, though it has the functions of one: they must not be called for several texts. The return type
/// of W's drafted() is declared, not deduced (see OneTextDrafter).
template <class W, bool one>
class ForOneText {
 public:
  static constexpr bool one_text = one;

  /// With keep_drafting: asks it whether the draft goes on (see OneTextDrafter).
  template <RandomSource Source, class KeepDrafting = AlwaysKeepDrafting, class Self = W>
    requires one
  auto draft(std::span<const Token> context, const DraftLimits& limits, Source& source,
             const KeepDrafting& keep_drafting = {}) & -> decltype(std::declval<Self&>().drafted(Index{})) {
    DraftRequest<Source, KeepDrafting> request{0, context, limits, &source, keep_drafting, nullptr};
    self().draft(std::span(&request, 1));
    if (request.error) std::rethrow_exception(request.error);
    return self().drafted(0);
  }
  void truncate(Index length)
    requires one
  {
    self().keep(0, length);
  }

 private:
  W& self() { return static_cast<W&>(*this); }
};

}  // namespace specdec::detail

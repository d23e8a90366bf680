// What a drafter has to offer that drafts for many sequences at once.
#pragma once

#include <concepts>
#include <exception>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec {
/// One sequence's wish for a draft.
template <RandomSource S, class KeepDrafting = detail::AlwaysKeepDrafting>
struct DraftRequest {
  Index sequence = 0;                   ///< its number
  std::span<const Token> context = {};  ///< what the draft is to follow
  DraftLimits limits = {};              ///< how large it may be
  S* source = nullptr;                  ///< of all that is random in this draft
  KeepDrafting keep_drafting = {};      ///< keep_drafting(row, i): whether token i may be drawn from the row
  std::exception_ptr error = nullptr;   ///< to be set where this draft alone fails
};

/// A source of guesses for many sequences:
///
///   draft(requests)           drafts for each request, and sets the error of those that fail by themselves. What it
///                             throws is everybody's failure: the step can be tried again.
///   drafted(sequence)         the Draft that the last draft() made for a sequence that was in it without an error, a
///                             view that lives until the next draft(); no other call may change it. It is const, and may
///                             be called for several sequences at a time, on several threads
///   keep(sequence, length)    only the first `length` tokens of the text stay cached, and of what was drafted those that
///                             the next context goes on with. Must not throw.
///   release(sequence)         forgets the sequence. Must not throw.
///
/// draft() is a template, `template <class Request> void draft(std::span<Request> requests)`: requests have the batch's
/// source of chance, and its keep_drafting. A request's random numbers come from its own source, in the order of its
/// tokens, so that its draft does not depend on the others. A drafter of lines alone says so: `static constexpr bool
/// drafts_trees = false`. What Drafter says of rows, of what may decide which tokens are in a draft, and of `steady` holds
/// here.
template <class D>
concept BatchDrafter =
    requires(D& drafter, const D& constant, std::span<DraftRequest<SplitMix64>> requests, Index n) {
      drafter.draft(requests);
      { constant.drafted(n).tokens } -> std::convertible_to<std::span<const Token>>;
      { constant.drafted(n).rows } -> Probabilities;
      drafter.keep(n, n);
      drafter.release(n);
    };

namespace detail {

template <class D>
inline constexpr bool batch_drafts_trees = [] {
  if constexpr (requires { D::drafts_trees; }) return static_cast<bool>(D::drafts_trees);
  else return true;
}();

}  // namespace detail
}  // namespace specdec

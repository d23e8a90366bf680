// What a drafter for many sequences at once has to offer.
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
/// One sequence's request for a draft.
template <RandomSource S, class KeepDrafting = detail::AlwaysKeepDrafting>
struct DraftRequest {
  Index sequence = 0;                   ///< its number
  std::span<const Token> context = {};  ///< what the draft is to follow
  DraftLimits limits = {};              ///< how large it may be
  S* source = nullptr;                  ///< the random numbers of this draft
  KeepDrafting keep_drafting = {};      ///< whether the draft goes on (see Drafter)
  std::exception_ptr error = nullptr;   ///< the drafter sets this where only this draft fails
};

/// A source of guesses for many sequences:
///
///   draft(requests)           drafts for each request. It sets the error of each request that fails alone. If it throws,
///                             all requests have failed, and the step can be tried again.
///   drafted(sequence)         the Draft that the last draft() made for the sequence, if the sequence was requested and had
///                             no error. A view that lives until the next draft(); no other call may change it. A const
///                             function, which several threads may call at a time for different sequences
///   keep(sequence, length)    rollback: the first `length` tokens of the text stay cached. A drafted token stays cached if
///                             the next context has it at its place. Must not throw.
///   release(sequence)         forgets the sequence. Must not throw.
///
/// draft() is a template, `template <class Request> void draft(std::span<Request> requests)`, because the batch decides the
/// types of the random source and of keep_drafting. A request's random numbers come from its own source, in the order of its
/// tokens. So its draft does not depend on other requests. A drafter that drafts only lines has
/// `static constexpr bool drafts_trees = false`. Drafter's rules for rows, for the tokens in a draft and for `steady` hold
/// here, too.
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

/// Whether a drafter is meant for many sequences: it forgets them by their numbers.
template <class D>
inline constexpr bool releases_sequences =
    requires(D& drafter, Index sequence) { drafter.release(sequence); };

/// Compiles only if D is a BatchDrafter, or a Drafter that can be copied; the error names the missing function.
template <class D>
consteval bool fits_batch() {
  if constexpr (!BatchDrafter<D> && releases_sequences<D>) {
    static_assert(
        requires(D& drafter, std::span<DraftRequest<SplitMix64>> requests) { drafter.draft(requests); },
        "the drafter has no draft(std::span<Request> requests), a template on the class Request: see "
        "specdec::BatchDrafter");
    static_assert(
        requires(const D& drafter, Index sequence) {
          { drafter.drafted(sequence).tokens } -> std::convertible_to<std::span<const Token>>;
          { drafter.drafted(sequence).rows } -> Probabilities;
        },
        "the drafter has no drafted(specdec::Index sequence) const that returns a specdec::Draft: see "
        "specdec::BatchDrafter");
    static_assert(
        requires(D& drafter, Index sequence, Index length) { drafter.keep(sequence, length); },
        "the drafter has no keep(specdec::Index sequence, specdec::Index length), its rollback: see "
        "specdec::BatchDrafter");
  } else if constexpr (!BatchDrafter<D>) {
    fits_drafter<D>();
    static_assert(std::copy_constructible<D>,
                  "the drafter cannot be copied, one for each sequence, and is no specdec::BatchDrafter");
  }
  return true;
}

template <class D>
inline constexpr bool batch_drafts_trees = [] {
  if constexpr (requires { D::drafts_trees; }) return static_cast<bool>(D::drafts_trees);
  else return true;
}();

}  // namespace detail
}  // namespace specdec

// What a drafter has to offer that drafts for many sequences at once.
#pragma once

#include <concepts>
#include <exception>
#include <span>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/goes_on.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// One sequence's wish for a draft.
template <RandomSource S, class GoesOn>
struct DraftRequest {
  Index sequence = 0;                   ///< its number
  std::span<const Token> context = {};  ///< what the draft is to follow
  Index gamma = 0;                      ///< how many tokens at most
  S* source = nullptr;                  ///< of all that is random in this draft
  GoesOn goes_on = {};                  ///< goes_on(row, i): whether token i may be drawn from the row
  std::exception_ptr error = nullptr;   ///< to be set where this draft alone fails
};

namespace detail {

struct AlwaysGoesOn {
  bool operator()(const auto&, Index) const { return true; }
};

/// In a concept it stands for any request.
using AnyRequest = DraftRequest<SplitMix64, AlwaysGoesOn>;

}  // namespace detail

/// A source of guesses for many sequences:
///
///   draft(requests)           drafts for each request, and sets the error of those that fail by themselves. What it
///                             throws is everybody's failure: the step can be tried again.
///   drafted(sequence)         the Draft that the last draft() made for a sequence that was in it without an error, a
///                             view that lives until the next draft(); nobody else's call may change it
///   keep(sequence, length)    only the first `length` tokens of what was seen or drafted survive. Must not throw.
///   release(sequence)         forgets the sequence. Must not throw.
///
/// A request's random numbers come from its own source, in the order of its tokens, so that its draft does not depend on
/// the others. What Drafter says of rows holds here.
template <class D>
concept BatchDrafter = requires(D& drafter, std::span<detail::AnyRequest> requests, Index n) {
  drafter.draft(requests);
  { drafter.drafted(n).tokens } -> std::convertible_to<std::span<const Token>>;
  { drafter.drafted(n).rows } -> Probabilities;
  drafter.keep(n, n);
  drafter.release(n);
};

}  // namespace specdec

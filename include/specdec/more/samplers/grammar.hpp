// Grammars: a processor made of a matcher, which says which tokens may come next.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/more/samplers/snapshots.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Follows a text through a grammar:
///
///   allow(mask)     sets the bits of the tokens that may come next: bit x % 32 of mask[x / 32] for token x. All bits are
///                   unset before the call.
///   advance(token)  takes the token in; returns false if it may not come next.
///   rollback(n)     optional: takes the last n tokens back; must not throw. A matcher without it is copied instead.
///   vocab_size()    optional: how many tokens the matcher knows. The mask then has room for them. Without vocab_size() the
///                   mask has room for the row's tokens; a draft model may have fewer, so allow() must stay within
///                   32 · mask.size() tokens.
///
/// If advance() throws or returns false, a matcher with rollback() must be as before; a matcher without it may be in any
/// state. When the text is complete, allow() may allow nothing. After a stop token the target's matcher is not asked (Feed);
/// a drafter's matcher may be asked, and must not throw then.
///
/// xgrammar (FillNextTokenBitmask) and llguidance (compute_mask) use masks of this form.
template <class M>
concept GrammarMatcher = std::copyable<M> && requires(M& matcher, std::span<std::uint32_t> mask, Token x) {
  matcher.allow(mask);
  { matcher.advance(x) } -> std::convertible_to<bool>;
};

namespace detail {

template <class M>
concept HasRollback = requires(M& matcher, Index n) { matcher.rollback(n); };

/// Gives a matcher the functions push() and pop().
template <class M>
struct Advancing {
  M matcher;

  Advancing& state() { return *this; }
  bool push(Token x) { return matcher.advance(x); }
  void pop(Index n)
    requires HasRollback<M>
  {
    matcher.rollback(n);
  }
};

/// A matcher that can go back: by its own rollback(), or else by Snapshots.
template <class M>
Snapshots<Advancing<M>> taken_back(M matcher);
template <HasRollback M>
Advancing<M> taken_back(M matcher);

}  // namespace detail

/// Forbids the tokens that a matcher's grammar does not allow. Satisfies TextProcessor. FeedMasks gives the masks themselves.
///
///   ProcessedModel target{engine, chain, AfterPrompt{prompt.size(), Grammar{matcher}}};
///
/// Tokens of the row that the matcher does not know are forbidden. Bits for tokens that the row does not have are ignored.
/// The grammar begins with the first token that this is shown: AfterPrompt leaves the prompt out. The target needs the
/// grammar. A drafter with the grammar gets more tokens accepted. Target and drafter have their own copies of the matcher. A
/// drafter without the grammar may propose a token that the matcher refuses: the token is rejected, and the matcher is not
/// shown the tokens after it. A matcher without rollback() is copied before each token (Snapshots).
/// Throws: what the matcher throws. If the matcher allows no token, a draw from the row throws
/// InvalidDistribution; the text fails only if it comes there (rows/read/dead_end.hpp).
/// Cost: the matcher's own; a pass over its mask and the logits that it forbids. No allocation of its own in steady state.
template <class M>
class Grammar {
  static_assert(GrammarMatcher<M>, "the matcher is no specdec::GrammarMatcher");

 public:
  explicit Grammar(M matcher) : matcher_(detail::Advancing<M>{std::move(matcher)}) {}

  template <class Logits>
  void apply(Logits&& logits) {
    if constexpr (requires { logits.allow(detail::view_of(mask_), Index{}); }) {
      const Index known = ask(logits.vocab_size());
      logits.allow(detail::view_of(mask_), known);
    } else {
      forbid(detail::partial(logits));
    }
  }

  bool push(Token x) { return matcher_.push(x); }
  void pop(Index n) { matcher_.pop(n); }

 private:
  // Sets the mask, for a row of so many tokens. Returns how many the matcher knows.
  Index ask(Index of_row) {
    M& matcher = matcher_.state().matcher;
    const Index tokens = vocab_size(matcher, of_row);
    detail::assign(mask_, (tokens + 31) / 32, 0);
    matcher.allow(std::span<std::uint32_t>(mask_));
    return tokens;
  }

  template <class S>
  void forbid(const PartialLogits<S>& row) {
    auto columns = row.columns();
    const Index known = std::clamp<Index>(ask(row.vocab_size()) - row.first(), 0, columns.size());
    // One word of the mask at a time. The first word may begin before the first column.
    for (Index k = 0, count = 0; k < known; k += count) {
      const Index x = row.first() + k;
      count = std::min<Index>(32 - x % 32, known - k);
      if (const std::uint32_t allowed = detail::at(mask_, x / 32) >> (x % 32); ~allowed != 0)
        forbid(columns.segment(k, count), ~allowed);
    }
    columns.tail(columns.size() - known).setConstant(-std::numeric_limits<S>::infinity());
  }

  static Index vocab_size([[maybe_unused]] const M& matcher, [[maybe_unused]] Index of_row) {
    if constexpr (requires {
                    { matcher.vocab_size() } -> detail::Count;
                  })
      return static_cast<Index>(matcher.vocab_size());
    else return of_row;
  }

  template <class Segment>
  static void forbid(Segment&& logits, std::uint32_t forbidden) {
    using Scalar = typename std::remove_cvref_t<Segment>::Scalar;
    for (Index k = 0; k < logits.size(); ++k)
      if (((forbidden >> k) & 1u) != 0) logits[k] = -std::numeric_limits<Scalar>::infinity();
  }

  decltype(detail::taken_back(std::declval<M>())) matcher_;
  std::vector<std::uint32_t> mask_;
};

}  // namespace specdec

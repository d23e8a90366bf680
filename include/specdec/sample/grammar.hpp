// Grammars: a matcher that says which tokens may come next as a processor.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/sample/partial_logits.hpp"
#include "specdec/sample/snapshots.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// What follows a text through a grammar:
///
///   allow(mask)     sets the bits of the tokens that may come next: bit x % 32 of mask[x / 32] for token x. The mask comes
///                   with all bits unset.
///   advance(token)  takes the token in; returns false where it may not come next.
///   rollback(n)     takes the last n tokens back; must not throw. A matcher without it can be copied.
///   vocab_size()    how many tokens it knows, for which the mask has room then. Without it the mask has room for those of
///                   the row, which are fewer where a draft model has a smaller vocabulary: allow() has to stay below
///                   32 · mask.size() tokens.
///
/// Where advance() throws or returns false, a matcher that has rollback() is as before, and one without it may be anything.
/// Where the text is complete, the token that ends it may come next, and again and again: rows behind the end of a text, of
/// which a draft may have some, are distributions, too.
///
/// Masks like this one are those of xgrammar (FillNextTokenBitmask) and llguidance (compute_mask).
template <class M>
concept GrammarMatcher = std::copyable<M> && requires(M& matcher, std::span<std::uint32_t> mask, Token x) {
  matcher.allow(mask);
  { matcher.advance(x) } -> std::convertible_to<bool>;
};

namespace detail {

/// A matcher by the words of processors.
template <class M>
struct Advancing {
  M matcher;

  Advancing& state() { return *this; }
  bool push(Token x) { return matcher.advance(x); }
  void pop(Index n)
    requires requires { matcher.rollback(n); }
  {
    matcher.rollback(n);
  }
};

/// What can be taken back of a matcher's text: by itself, or by snapshots.
template <class M>
struct TakenBack {
  using Type = Snapshots<Advancing<M>>;
};
template <class M>
  requires requires(M& matcher, Index n) { matcher.rollback(n); }
struct TakenBack<M> {
  using Type = Advancing<M>;
};

}  // namespace detail

/// Forbids what the grammar of a matcher does not allow. Satisfies TextProcessor.
///
///   ProcessedModel target{engine, chain, AfterPrompt{prompt.size(), Grammar{matcher}}};
///
/// Tokens of the row that the matcher does not know are forbidden, and bits of those that the row has not are left alone.
/// The text that it is shown is the grammar's from its first token on: AfterPrompt leaves the prompt out. The target goes
/// through the grammar, and so does, for the sake of acceptance, a drafter; each has a copy of the matcher. Tokens that a
/// drafter without a grammar proposes and the matcher refuses are rejected; what is behind them the matcher is not shown.
/// A matcher without rollback() is copied before each token (Snapshots).
/// Throws: what the matcher throws. A row of which it allows no token is an InvalidDistribution once it is read.
/// Cost: that of the matcher; a pass over its mask and the logits that it forbids. No allocation of its own in steady state.
template <GrammarMatcher M>
class Grammar {
 public:
  explicit Grammar(M matcher) : matcher_(detail::Advancing<M>{std::move(matcher)}) {}

  template <class Logits>
  void apply(Logits&& logits) {
    using Scalar = typename std::remove_cvref_t<Logits>::Scalar;
    const auto row = detail::partial(logits);
    auto columns = row.columns();
    M& matcher = matcher_.state().matcher;
    const Index tokens = vocab_size(matcher, row.vocab_size()),
                known = std::clamp<Index>(tokens - row.first(), 0, columns.size());
    mask_.assign(static_cast<std::size_t>((tokens + 31) / 32), 0);
    matcher.allow(std::span<std::uint32_t>(mask_));
    // A word of the mask at a time, of which the first one may begin before the columns.
    for (Index k = 0, count = 0; k < known; k += count) {
      const Index x = row.first() + k;
      count = std::min<Index>(32 - x % 32, known - k);
      if (const std::uint32_t allowed = mask_[static_cast<std::size_t>(x / 32)] >> (x % 32); ~allowed != 0)
        forbid(columns.segment(k, count), ~allowed);
    }
    columns.tail(columns.size() - known).setConstant(-std::numeric_limits<Scalar>::infinity());
  }

  bool push(Token x) { return matcher_.push(x); }
  void pop(Index n) { matcher_.pop(n); }

 private:
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

  typename detail::TakenBack<M>::Type matcher_;
  std::vector<std::uint32_t> mask_;
};

}  // namespace specdec

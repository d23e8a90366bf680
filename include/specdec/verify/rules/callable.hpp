// What the rules of the library have in common: the call operator. It is only declared here what is called, so this header
// needs no rows, and no Eigen.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>

#include "specdec/chance/random.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/verify/rules/traits.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0 {

namespace detail {

/// Compiles only if the argument is a list of token ids; the error names the order of the arguments.
template <class Tokens>
consteval bool fits_tokens() {
  fits_ids<Tokens>();
  static_assert(
      MeantAsIds<Tokens>,
      "what stands in the place of the tokens (or parents) is no list of token ids: the order of the "
      "arguments is "
      "verifier(target, draft, tokens, rng), for a tree verifier(target, draft, tokens, parents, rng)");
  return true;
}

// verify() and verify_undrafted() are found by the namespace of the rule, where a call is compiled: a program that calls a rule
// includes specdec/verify/verifier.hpp. specdec/verify/block.hpp and k_seq.hpp include both.

/// Gives a rule for lines its call operator: rule(target, draft, tokens, source). It calls verify(), which says so if the source is
/// missing. If the rule needs no draft rows (needs_draft), `draft` may be left out. A rule that remembers its sequence must be a variable: a temporary would lose
/// its memory.
template <class R>
class Callable {
 public:
  template <class Target, class Draft, class Source = MissingGenerator>
    requires(!has_commit<R>)
  Verdict operator()(const Target& target, const Draft& draft, TokenIds tokens, Source&& source = {}) const {
    return verify(self(), target, draft, tokens,
                  static_cast<Source&&>(source));  // include <specdec/verify/verifier.hpp>
  }
  template <class Target, class Draft, class Source = MissingGenerator>
    requires has_commit<R>
  Verdict operator()(const Target& target, const Draft& draft, TokenIds tokens, Source&& source = {}) & {
    return verify(self(), target, draft, tokens,
                  static_cast<Source&&>(source));  // include <specdec/verify/verifier.hpp>
  }
  template <class Target, class Source>
    requires(!has_commit<R> && !needs_draft<R>)
  Verdict operator()(const Target& target, TokenIds tokens, Source&& source) const {
    return verify_undrafted(self(), target, tokens,
                            static_cast<Source&&>(source));  // include <specdec/verify/verifier.hpp>
  }

  /// Arguments in another order: a compile error that says so.
  template <class Target, class Draft, class Tokens, class Source>
    requires(!std::convertible_to<const Tokens&, TokenIds>)
  Verdict operator()(const Target&, const Draft&, const Tokens&, Source&&) const {
    static_assert(fits_tokens<Tokens>());
    return {};
  }

  /// Rules without members are equal.
  friend bool operator==(const Callable&, const Callable&) = default;

 private:
  const R& self() const { return static_cast<const R&>(*this); }
  R& self() { return static_cast<R&>(*this); }
};

}  // namespace detail
}  // namespace specdec

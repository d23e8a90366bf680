// What the library's rules have in common: the call operator. What it calls is only declared here: it needs no rows, no Eigen.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <type_traits>

#include "specdec/chance/random.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/verify/rules/traits.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0::detail {

/// Compiles only if the argument is a list of token ids; the error names the order of the arguments.
template <class Tokens>
consteval bool fits_tokens() {
  fits_ids<Tokens>();
  static_assert(MeantAsIds<Tokens>,
                "what stands in the place of the tokens (or parents) is no list of token ids: the order of "
                "the arguments is verifier(target, draft, tokens, rng), for a tree verifier(target, draft, "
                "tokens, parents, rng)");
  return true;
}

// verify() and verify_undrafted() are found by the namespace of the rule, where a call is compiled: a program that calls a rule
// includes specdec/verify/verifier.hpp. specdec/verify/block.hpp and k_seq.hpp include what they need.

/// Gives a rule its call operator: rule(target, draft, tokens, source), and for trees rule(target, draft, tokens, parents, source),
/// with TokenIds as Parents. It calls verify(), which says so if the source is missing. If the rule needs no draft rows
/// (needs_draft), `draft` may be left out. A rule that remembers its sequence must be a variable: a temporary would lose its memory.
template <class R, class... Parents>
class Callable {
  static constexpr bool trees = sizeof...(Parents) > 0;
  using Answer = std::conditional_t<trees, TreeVerdict, Verdict>;

 public:
  template <class Target, class Draft, class Source = MissingGenerator>
    requires(!has_commit<R>)
  Answer operator()(const Target& target, const Draft& draft, TokenIds tokens, Parents... parents,
                    Source&& source = {}) const {
    return verify(self(), target, draft, tokens, parents...,
                  static_cast<Source&&>(source));  // include <specdec/verify/verifier.hpp>
  }
  template <class Target, class Draft, class Source = MissingGenerator>
    requires has_commit<R>
  Answer operator()(const Target& target, const Draft& draft, TokenIds tokens, Parents... parents,
                    Source&& source = {}) & {
    return verify(self(), target, draft, tokens, parents...,
                  static_cast<Source&&>(source));  // include <specdec/verify/verifier.hpp>
  }
  template <class Target, class Source>
    requires(!has_commit<R> && !needs_draft<R>)
  Answer operator()(const Target& target, TokenIds tokens, Parents... parents, Source&& source) const {
    return verify_undrafted(self(), target, tokens, parents...,
                            static_cast<Source&&>(source));  // include <specdec/verify/verifier.hpp>
  }

  /// Arguments in another order: a compile error that says so. `Next` is the source, or for trees the parents.
  template <class Target, class Draft, class Tokens, class Next, class... More>
    requires(sizeof...(More) == sizeof...(Parents) && !(std::convertible_to<const Tokens&, TokenIds> &&
                                                        (!trees || std::convertible_to<Next, TokenIds>)))
  Answer operator()(const Target&, const Draft&, const Tokens&, Next&&, More&&...) const {
    static_assert(fits_tokens<Tokens>());
    if constexpr (trees) static_assert(fits_tokens<std::remove_cvref_t<Next>>());
    return {};
  }

  /// Rules without members are equal.
  friend bool operator==(const Callable&, const Callable&) = default;

 private:
  const R& self() const { return static_cast<const R&>(*this); }
  R& self() { return static_cast<R&>(*this); }
};

}  // namespace specdec::detail

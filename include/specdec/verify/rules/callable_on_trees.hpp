// Lets a rule for trees be called like a function. Without rows and Eigen, as rules/callable.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>

#include "specdec/chance/random.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/verify/rules/callable.hpp"
#include "specdec/verify/rules/traits.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0::detail {

/// Gives a rule for trees its call operator: rule(target, draft, tokens, parents, source).
template <class R>
class CallableOnTrees {
 public:
  template <class Target, class Draft, class Source = MissingGenerator>
  TreeVerdict operator()(const Target& target, const Draft& draft, TokenIds tokens, TokenIds parents,
                         Source&& source = {}) const {
    return verify(self(), target, draft, tokens, parents,
                  static_cast<Source&&>(source));  // include <specdec/verify/verifier.hpp>
  }
  template <class Target, class Source>
    requires(!needs_draft<R>)
  TreeVerdict operator()(const Target& target, TokenIds tokens, TokenIds parents, Source&& source) const {
    return verify_undrafted(self(), target, tokens, parents,
                            static_cast<Source&&>(source));  // include <specdec/verify/verifier.hpp>
  }

  /// Arguments in another order: a compile error that says so.
  template <class Target, class Draft, class Tokens, class Parents, class Source>
    requires(!std::convertible_to<const Tokens&, TokenIds> || !std::convertible_to<const Parents&, TokenIds>)
  TreeVerdict operator()(const Target&, const Draft&, const Tokens&, const Parents&, Source&&) const {
    static_assert(fits_tokens<Tokens>() && fits_tokens<Parents>());
    return {};
  }

  /// Rules without members are equal.
  friend bool operator==(const CallableOnTrees&, const CallableOnTrees&) = default;

 private:
  const R& self() const { return static_cast<const R&>(*this); }
};

}  // namespace specdec::detail

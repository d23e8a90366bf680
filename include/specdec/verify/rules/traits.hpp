// What a rule says of itself: see specdec::Verifier in verify/verify_line.hpp.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Whether the rule remembers its sequence. It has min_draft_length() then.
template <class R>
inline constexpr bool remembers_sequence = requires(const R& rule) { rule.min_draft_length(); };

/// The least length that the verifier's next draft may have; 0 for rules that remember nothing.
template <class R>
constexpr Index min_draft_length(const R& rule) {
  if constexpr (remembers_sequence<R>) {
    static_assert(detail::Count<decltype(rule.min_draft_length())>,
                  "the verifier's min_draft_length() is no integer");
    return rule.min_draft_length();
  }
  return 0;
}

/// Whether the rule remembers nothing of a text. Rules without is_fresh() are taken at their word.
template <class R>
constexpr bool is_fresh([[maybe_unused]] const R& rule) {
  if constexpr (requires { rule.is_fresh(); }) return rule.is_fresh();
  else return true;
}

/// Whether the output follows the target's rows. The default is true.
template <class R>
inline constexpr bool draws_from_target = !requires { requires !static_cast<bool>(R::draws_from_target); };

/// Whether the rule asks for q or the draft's rows. The default is true.
template <class R>
inline constexpr bool needs_draft = !requires { requires !static_cast<bool>(R::needs_draft); };

/// Whether the rule draws with a Keyed, which the drafter may have used, too. The default is false.
template <class R>
inline constexpr bool draws_keyed = requires { requires static_cast<bool>(R::draws_keyed); };

/// Whether Y may be a drafted token that the verdict rejects. The default is false.
template <class R>
inline constexpr bool repeats_rejected = requires { requires static_cast<bool>(R::repeats_rejected); };

namespace detail {

/// Whether the rule has commit().
template <class R>
inline constexpr bool has_commit = requires(R& rule) { rule.commit(); };

}  // namespace detail
}  // namespace specdec

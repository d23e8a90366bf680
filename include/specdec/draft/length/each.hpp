// One draft length for all texts, or one for each.
// SPDX-License-Identifier: MIT
#pragma once

#include <type_traits>
#include <utility>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A draft length of which each text gets a copy: what each() returns.
template <class Policy>
struct Each {
  Policy policy;  ///< what is copied; it is never asked itself
};

/// Gives each text of a Batch or a CascadeDrafter a draft length of its own, a copy of this one:
///
///   specdec::Batch batch{target, drafter, verifier, specdec::each(specdec::ScheduledLength{3})};
///
/// Without each(), one draft length serves all texts. A Batch then calls next() once for each step (for each propose_for(), if texts
/// take part in turn), and batch(n) before it, if the draft length has that function: n texts decode. A text that is fed its prompt
/// in parts, or waits for a copy of a context, does not count, and is not asked for. A CascadeDrafter calls next() for each text
/// and each step of its inner loop, and batch(n) once before. observe() is called for the steps of all texts. A draft length with
/// batch(n) that may also be copied for each text says so with a member `static constexpr bool serves_one_text = true`.
/// If the draft length looks at rows (more(), acceptance()) and drafts are made on several threads, these functions must be
/// safe to call for several drafts at a time.
template <class Policy>
Each<std::remove_cvref_t<Policy>> each(Policy&& policy) {
  return {std::forward<Policy>(policy)};
}

namespace detail {

/// Whether a draft length may be one text's own. One that counts the texts is for all of them, unless it says otherwise.
template <class P>
inline constexpr bool serves_one_text = !requires(P& policy, Index n) { policy.batch(n); };
template <class P>
  requires requires { P::serves_one_text; }
inline constexpr bool serves_one_text<P> = P::serves_one_text;

/// The draft length that each text has, or that all have.
template <class Given>
struct PolicyOf : std::type_identity<Given> {};
template <class P>
struct PolicyOf<Each<P>> : std::type_identity<P> {};
template <class P>
struct PolicyOf<const Each<P>> : std::type_identity<P> {};

/// Holds the draft length that is passed as Length: an Each, or one for all that is held by value or referred to.
template <class Length>
class LengthOfTexts {
  struct Nothing {};

 public:
  using Policy = typename PolicyOf<std::remove_reference_t<Length>>::type;
  static constexpr bool for_each_text = !std::is_same_v<Policy, std::remove_reference_t<Length>>;
  /// What a text holds: its own draft length, if it has one.
  using Own = std::conditional_t<for_each_text, Policy, Nothing>;

  explicit LengthOfTexts(Length&& length) : length_(std::forward<Length>(length)) {}

  /// For a new text.
  Own own() const {
    if constexpr (for_each_text) return length_.policy;
    else return {};
  }
  /// A text's draft length.
  Policy& of([[maybe_unused]] Own& own) {
    if constexpr (for_each_text) return own;
    else return length_;
  }
  /// The draft length of all texts. It learns how many decode, if it counts them.
  Policy& of_all(Index texts)
    requires(!for_each_text)
  {
    Policy& policy = length_;
    if constexpr (requires { policy.batch(texts); }) policy.batch(texts);
    return policy;
  }

 private:
  Length length_;
};

}  // namespace detail
}  // namespace specdec

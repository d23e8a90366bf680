// One draft length for all texts of a batch.
#pragma once

#include "specdec/platform.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Refers to a draft length.
template <class Policy>
struct SharedPolicy {
  Policy* policy;
};

}  // namespace detail

/// Makes all sequences of a Batch use one draft length, which must outlive the batch:
///
///   specdec::Batch batch{target, drafter, verifier, specdec::shared(policy)};
///
/// next() is called once for each step of the batch, observe() for the steps of all sequences. If the draft length has
/// batch(n), it is called before next(), with the number of sequences. If it looks at rows (more(),
/// acceptance()) and drafts are made on several threads, these functions must be safe to call for several drafts at a time.
template <class Policy>
detail::SharedPolicy<Policy> shared(Policy& policy) {
  return {&policy};
}

namespace detail {

template <class Length>
inline constexpr bool is_shared_policy = false;
template <class Policy>
inline constexpr bool is_shared_policy<SharedPolicy<Policy>> = true;

/// The policy itself.
template <class Length>
struct PolicyOf {
  using Type = Length;
};
template <class Policy>
struct PolicyOf<SharedPolicy<Policy>> {
  using Type = Policy;
};

}  // namespace detail
}  // namespace specdec

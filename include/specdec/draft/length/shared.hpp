// One draft length for all texts of a batch.
#pragma once

namespace specdec {
namespace detail {

/// A draft length that somebody else holds.
template <class Policy>
struct SharedPolicy {
  Policy* policy;
};

}  // namespace detail

/// Says that all sequences of a Batch go by this one draft length, which must outlive the batch:
///
///   specdec::Batch batch{target, drafter, verifier, specdec::shared(policy)};
///
/// It is asked once a step, and told of the steps of all sequences. If it has batch(n) it is told before how many sequences
/// there are. Its keep_drafting(), if it has one, must be safe to call for several drafts at a time where these are made on
/// several threads.
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

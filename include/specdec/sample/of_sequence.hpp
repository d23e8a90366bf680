// Chains, processors and generators of single sequences: a function of the sequence's number returns them.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <type_traits>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

template <class F>
struct Tells {
  using Type = void;
};
template <class F>
  requires std::invocable<F&, Index>
struct Tells<F> {
  using Type = std::remove_cvref_t<std::invoke_result_t<F&, Index>>;
};

/// The type that F returns for a sequence's number: a chain, a processor or a generator. void if F is no such function.
template <class F>
using OfSequence = typename Tells<F>::Type;

}  // namespace specdec::detail

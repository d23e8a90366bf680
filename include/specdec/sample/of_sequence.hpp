// What each of many texts has of its own, told by a function of the sequence's number.
#pragma once

#include <concepts>
#include <type_traits>

#include "specdec/types.hpp"

namespace specdec::detail {

template <class F>
struct Tells {
  using Type = void;
};
template <class F>
  requires std::invocable<F&, Index>
struct Tells<F> {
  using Type = std::remove_cvref_t<std::invoke_result_t<F&, Index>>;
};

/// What a function tells of a sequence: its chain, its processor, its generator. void where F is no such function.
template <class F>
using OfSequence = typename Tells<F>::Type;

}  // namespace specdec::detail

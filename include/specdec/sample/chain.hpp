// A chain of sampling steps: from logits to the distribution that tokens are sampled from. And what is one of each sequence.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A step takes a row of logits and returns another row over these logits: Temperature, DynamicTemperature, TopK, TopP, MinP,
/// TopNSigma, MinKeep of a step, or a class of your own. It must keep the largest logits, so that the argmax does not change.
template <class P>
concept RowStep = std::copy_constructible<P> && requires(const P& step, const LogitsRow<float>& row) {
  { step(row) } -> std::same_as<LogitsRow<float>>;
};

/// Applies steps in the order written. Each step sees the result of the step before it.
///
///   Chain{Temperature{0.8}, TopK{40}, TopP{0.95}, MinP{0.05}}    as Hugging Face transformers order them
///   Chain{TopK{40}, TopP{0.95}, MinP{0.05}, Temperature{0.8}}    as llama.cpp does by default
///
/// The order matters: top-p before a temperature can keep other tokens than top-p after it. (For top-k the temperature makes no
/// difference.) Penalties come before the chain: see TextProcessor. Neutral values switch a step off: Temperature{1}, TopK{0},
/// TopP{1}, MinP{0}. So one type of chain serves all requests.
template <RowStep... Steps>
class Chain {
 public:
  explicit Chain(Steps... steps) : steps_(std::move(steps)...) {}

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(LogitsRow<S, Stride> row) const {
    std::apply([&](const auto&... step) { ((row = step(row)), ...); }, steps_);
    return row;
  }

  /// How many steps there are, and the i-th one.
  static constexpr std::size_t size = sizeof...(Steps);
  template <std::size_t i>
  const auto& step() const {
    return std::get<i>(steps_);
  }

 private:
  std::tuple<Steps...> steps_;
};

namespace detail {

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

}  // namespace detail
}  // namespace specdec

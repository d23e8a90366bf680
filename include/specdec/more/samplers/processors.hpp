// Several processors, one after another.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/more/samplers/applied_step.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/text_processor.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Makes one processor of several. They are applied in the order written: each sees the logits that the one before it left.
///
///   Processors{RepetitionPenalty{1.1}, PresencePenalty{0.5}, LogitBias{{7, -2.0}}}
///
/// Steps of a Chain may stand among them. A step then removes tokens (−inf) and divides the others by its temperature. So
/// samplers work in any order, also those that remove the most probable token:
///
///   Processors{Dry{{}}, TopNSigma{1.5}, TopK{40}, TypicalP{0.95}, TopP{0.95}, MinP{0.05}, Xtc{0.5, 0.1, seed}, Temperature{0.8}}
///
/// A step here takes two passes over the row more than in the chain of a ProcessedModel, and needs whole rows: over ranks it
/// compiles only in the chain of a ShardedModel. A token is refused if one of the processors refuses it. Satisfies
/// TextProcessor if all of them do.
/// Throws: what they throw; then all are as before.
template <class... P>
class Processors {
  static_assert((detail::FollowsText<P> && ...), "a processor is no specdec::TextProcessor");

 public:
  explicit Processors(P... processors) : processors_(std::move(processors)...) {}

  template <class Logits>
    requires(TextProcessor<P, Logits> && ...)
  void apply(Logits&& logits) {
    std::apply([&](auto&... processor) { (processor.apply(logits), ...); }, processors_);
  }

  bool push(Token x) { return push_from<0>(x); }

  void pop(Index n) {
    std::apply([n](auto&... processor) { (processor.pop(n), ...); }, processors_);
  }

 private:
  // Pushes the token into all processors from the k-th on, or into none.
  template <std::size_t k>
  bool push_from(Token x) {
    if constexpr (k < sizeof...(P)) {
      auto& processor = std::get<k>(processors_);
      if (!push_token(processor, x)) return false;
      const auto undo = [&processor] { processor.pop(1); };
      const bool pushed = detail::undo_on_error([&] { return push_from<k + 1>(x); }, undo);
      if (!pushed) undo();
      return pushed;
    }
    return true;
  }

  std::tuple<P...> processors_;
};

namespace detail {

/// A processor is taken as it is, a step as an AppliedStep.
template <class P>
P in_processors(P processor);
template <RowStep P>
AppliedStep<P> in_processors(P step);

}  // namespace detail

template <class... P>
Processors(P...) -> Processors<decltype(detail::in_processors(std::declval<P>()))...>;

}  // namespace specdec

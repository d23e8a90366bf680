// A sampling step that leaves at least some number of tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/steps/top_k.hpp"

namespace specdec::inline v0_2_0 {

/// Applies a step, but keeps at least the n largest of the logits that earlier steps have kept, if there are so many. The
/// cut is the lower one of two: the step's and that of TopK{n}. n = 0 and n = 1 leave the step as it is, since every step
/// keeps the largest logit.
///
///   Chain{TopK{40}, MinKeep{3, TopP{0.95}}, MinKeep{3, MinP{0.05}}, Temperature{0.8}}
///
/// The step may be a Chain. At temperature 0 one token stays. TypicalP and Xtc, which are no steps, have a min_keep of their
/// own. Works over ranks if the step does.
/// Source: min_keep of top-p and min-p in llama.cpp; min_tokens_to_keep of Hugging Face transformers.
/// Ties: all tokens equal to the n-th largest stay. llama.cpp keeps exactly n tokens.
/// Throws: InvalidArgument if n is negative; what the step and TopK throw.
/// Cost: that of the step, and for n > 1 that of TopK.
template <RowStep Step>
class MinKeep {
 public:
  MinKeep(Index n, Step step) : n_(n), step_(std::move(step)) {
    if (n < 0) detail::invalid_argument("MinKeep: n = ", n, " is negative");
  }

  Index value() const { return n_; }
  const Step& step() const { return step_; }

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(const LogitsRow<S, Stride>& row) const {
    const LogitsRow<S, Stride> left = step_(row);
    if (n_ < 2 || left.is_argmax()) return left;
    const LogitsRow<S, Stride> most = TopK(n_)(row);
    if (!(most.cut() < left.cut())) return left;
    return most.tempered(left.temperature() / row.temperature());
  }

 private:
  Index n_;
  Step step_;
};

}  // namespace specdec

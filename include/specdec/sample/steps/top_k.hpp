// Top-k: the k most probable tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/sample/threshold/threshold.hpp"
#include "specdec/sample/threshold/token_weight.hpp"

namespace specdec::inline v0_2_0 {

/// Keeps the k largest logits among the tokens that earlier steps have kept. k = 0 or k >= V keeps all.
///
/// Ties: all tokens equal to the k-th largest stay, in Hugging Face transformers and vLLM, too; llama.cpp keeps k tokens.
/// Throws: InvalidArgument if k is negative; InvalidDistribution on a NaN or a logit of +inf.
/// Cost: one pass without exponentials over the tokens that are left, and for k up to a few hundred a few per cent of the row
/// once more, which also normalises it; see ThresholdSearch. Afterwards only stretches with a kept token are read.
class TopK {
 public:
  explicit TopK(Index k) : k_(k) {
    if (k < 0) detail::invalid_argument("TopK{", k, "} is negative");
  }

  Index value() const { return k_; }

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(const LogitsRow<S, Stride>& row) const {
    using Scalar = Arithmetic<S>;
    if (k_ == 0 || k_ >= row.vocab_size() || row.is_argmax()) return row;
    const detail::Peaks<Scalar> peaks = row.peaks();
    detail::ThresholdSearch search(row.logits(), peaks, detail::TokenCount<Scalar>{}, row.cut(),
                                   static_cast<double>(k_));
    search.try_from(peaks.of_rank(k_));  // as many logits are surely from there on
    const Scalar cut = search.cut();
    if (const auto kept = search.mass(row.inverse_temperature()))
      return row.above(cut, peaks, kept->shift, kept->sum);
    return row.above(cut, peaks);
  }

 private:
  Index k_;
};

}  // namespace specdec

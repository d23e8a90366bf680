// Top-k: the k most probable tokens.
#pragma once

#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/sample/threshold.hpp"
#include "specdec/sample/token_weight.hpp"

namespace specdec {

/// Keeps the tokens whose logit is at least the k-th largest, of those that the row still has.
///
/// Ties: all tokens that equal the k-th stay, as in Hugging Face transformers and vLLM; llama.cpp keeps
/// exactly k of them.
/// 0 keeps all, and so does k >= V. Throws std::invalid_argument on a negative k; InvalidDistribution on a
/// NaN or a logit of +inf.
/// Cost: about one pass of comparisons, see ThresholdSearch; the row is normalised along with it for k up to
/// some thousand.
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
    detail::ThresholdSearch search(row.logits(), detail::TokenCount<Scalar>{});
    const Scalar cut = search(row.cut(), std::numeric_limits<Scalar>::max(), static_cast<double>(k_));
    if (const auto kept = search.mass(row.inverse_temperature()))
      return row.above(cut, kept->shift, kept->sum);
    return row.above(cut);
  }

 private:
  Index k_;
};

}  // namespace specdec

// Locally typical sampling: the tokens whose surprise is near the expected one.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/more/samplers/applied_step.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Keeps the tokens whose surprise −log p(x) is nearest to the row's entropy: the smallest set of them with mass at least p.
/// The token that crosses p stays. At least min_keep tokens stay, if the row has as many. p = 1 keeps all.
///
///   ProcessedModel{model, Processors{TopK{40}, TypicalP{0.95}, TopP{0.9}}, ...}
///
/// The set may lack the most probable token, so this is a processor, not a step of a Chain. Processors puts it between steps.
/// Source: Meister et al., arXiv:2202.00666; typical_p of Hugging Face transformers and of llama.cpp.
/// Ties: tokens of equal distance stay or go together. llama.cpp cuts a sorted list and may separate them.
/// Throws: InvalidArgument unless 0 < p <= 1 and min_keep >= 0. A row without a finite largest logit is not changed:
/// a draw from it throws InvalidDistribution.
/// Numeric: computed in double. If the mass of a set is within rounding of p, this set or the next larger one may stay.
/// Cost: an exponential for each token with a finite logit, and about two passes over these; put TopK before it. No
/// allocation in steady state.
/// Memory: 16 bytes for each token with a finite logit.
class TypicalP {
 public:
  explicit TypicalP(double p, Index min_keep = 0) : p_(p), min_keep_(min_keep) {
    if (!(p > 0 && p <= 1)) detail::invalid_argument("TypicalP{", p, "} is not above 0 and at most 1");
    if (min_keep < 0) detail::invalid_argument("TypicalP: min_keep = ", min_keep, " is negative");
  }

  template <detail::WholeRow Logits>
  void apply(Logits&& logits) {
    using Scalar = typename std::remove_cvref_t<Logits>::Scalar;
    const NumberRow<Scalar> row(logits.data(), logits.size());
    const auto largest = static_cast<double>(row.max(0, row.size()));
    if (p_ == 1 || !std::isfinite(largest)) return;
    const double centre = weigh(row, largest);
    const double reach = std::max(distance_of_mass(), distance_of_count());
    for (Index x = 0; x < row.size(); ++x)
      if (!(std::abs(static_cast<double>(row[x]) - largest - centre) <= reach))
        logits[x] = -std::numeric_limits<Scalar>::infinity();
  }
  void push(Token) {}
  void pop(Index) {}

 private:
  struct WeighedToken {
    double distance, weight;
  };

  // Surprise minus entropy is the mean logit minus the logit: the normaliser is in both. Fills tokens_, and returns the mean
  // relative to the largest logit.
  template <class Row>
  double weigh(const Row& row, double largest) {
    tokens_.clear();
    double total = 0, sum = 0;
    for (Index x = 0; x < row.size(); ++x) {
      const double s = static_cast<double>(row[x]) - largest;
      if (!std::isfinite(s)) continue;
      const double w = std::exp(s);
      tokens_.push_back({s, w});
      total += w;
      sum += w * s;
    }
    const double mean = sum / total;
    for (WeighedToken& token : tokens_) token.distance = std::abs(token.distance - mean);
    target_ = p_ * total;
    return mean;
  }

  // The least distance within which the tokens weigh enough; infinite if rounding lets all weigh less.
  double distance_of_mass() {
    auto first = tokens_.begin(), last = tokens_.end();
    double known = 0;  // the weight of the tokens before `first`, which are nearer than all others
    while (first != last) {
      const double pivot = first[(last - first) / 2].distance;
      const auto nearer = [&](const WeighedToken& token) { return token.distance < pivot; };
      const auto equal = [&](const WeighedToken& token) { return token.distance == pivot; };
      const auto middle = std::partition(first, last, nearer);
      const double weight = weight_of(first, middle);
      if (known + weight >= target_) {
        last = middle;
        continue;
      }
      const auto next = std::partition(middle, last, equal);
      known += weight + weight_of(middle, next);
      if (known >= target_) return pivot;
      first = next;
    }
    return std::numeric_limits<double>::infinity();
  }

  template <class Iterator>
  static double weight_of(Iterator first, Iterator last) {
    double sum = 0;
    for (; first != last; ++first) sum += first->weight;
    return sum;
  }

  // The least distance within which there are min_keep tokens.
  double distance_of_count() {
    if (min_keep_ == 0) return 0;
    const Index n = std::min(min_keep_, static_cast<Index>(tokens_.size()));
    const auto last = tokens_.begin() + (n - 1);
    const auto nearer = [](const WeighedToken& a, const WeighedToken& b) { return a.distance < b.distance; };
    std::nth_element(tokens_.begin(), last, tokens_.end(), nearer);
    return last->distance;
  }

  double p_;
  Index min_keep_;
  double target_ = 0;                 // the weight that is wanted
  std::vector<WeighedToken> tokens_;  // those with a finite logit
};

}  // namespace specdec

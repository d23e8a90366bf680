// XTC (exclude top choices): now and then, all likely tokens but the least likely of them are removed.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/more/samplers/applied_step.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// At a place of the text, with the given probability: of the tokens with p(x) >= threshold, removes all but the least
/// probable. If fewer than two tokens are that probable, or fewer than min_keep tokens would be left, nothing is removed.
/// A probability of 0 or a threshold above 0.5 switches it off.
///
///   ProcessedModel{model, Processors{TopK{40}, Xtc{0.5, 0.1, seed}, Temperature{0.8}}}
///
/// Whether tokens are removed at a place depends on the seed and the number of tokens before the place, and on nothing else.
/// So a row is a function of the text, and verifying is exact. Give target and draft model equal seeds: then they remove
/// tokens at equal places, and drafts are still accepted. Over all seeds, the law of the text is that of a fresh coin at
/// each place. Use one seed for one text, and another seed for the generator.
/// The set may lack the most probable token, so this is a processor, not a step of a Chain.
/// Source: xtc of llama.cpp and text-generation-webui; these draw the coin from a generator.
/// Ties: tokens that are equally the least probable of the likely ones all stay. llama.cpp keeps one of them.
/// Throws: InvalidArgument unless probability and threshold are between 0 and 1, and min_keep >= 0. A row without a
/// finite largest logit is not changed: a draw from it throws InvalidDistribution.
/// Random: tokens are removed if u < probability. u is the uniform01 of SplitMix64(k), k the first number of
/// SplitMix64(n + s), s the first number of SplitMix64(seed), and n the number of tokens before the place.
/// Numeric: a token whose probability is within about 1e-6 of the threshold (float logits) may be on either side.
/// Cost: none where the coin says no, else it normalises the row, and three passes of comparisons.
class Xtc {
 public:
  Xtc(double probability, double threshold, std::uint64_t seed, Index min_keep = 0)
      : probability_(probability), threshold_(threshold), seed_(seed), min_keep_(min_keep) {
    if (!(probability >= 0 && probability <= 1))
      detail::invalid_argument("Xtc: probability = ", probability, " is not between 0 and 1");
    if (!(threshold >= 0 && threshold <= 1))
      detail::invalid_argument("Xtc: threshold = ", threshold, " is not between 0 and 1");
    if (min_keep < 0) detail::invalid_argument("Xtc: min_keep = ", min_keep, " is negative");
  }

  /// Whether likely tokens are removed from the row after `length` tokens.
  bool removes_after(Index length) const {
    SplitMix64 bits(SplitMix64(SplitMix64(seed_)() + static_cast<std::uint64_t>(length))());
    return uniform01(bits) < probability_;
  }

  template <detail::WholeRow Logits>
  void apply(Logits&& logits) const {
    using Scalar = typename std::remove_cvref_t<Logits>::Scalar;
    constexpr Scalar none = -std::numeric_limits<Scalar>::infinity();
    if (threshold_ > 0.5 || !removes_after(length_)) return;
    const NumberRow<Scalar> row(logits.data(), logits.size());
    if (!std::isfinite(row.max(0, row.size()))) return;
    const double likely = LogitsRow<Scalar>(row).log_sum_exp().value + std::log(threshold_);
    Scalar least = std::numeric_limits<Scalar>::infinity();
    for (Index x = 0; x < row.size(); ++x)
      if (row[x] > none && static_cast<double>(row[x]) >= likely && row[x] < least) least = row[x];
    Index left = 0;
    for (Index x = 0; x < row.size(); ++x) left += row[x] > none && row[x] <= least ? 1 : 0;
    if (left < min_keep_) return;
    for (Index x = 0; x < row.size(); ++x)
      if (row[x] > least) logits[x] = none;
  }
  void push(Token) { ++length_; }
  void pop(Index n) { length_ -= n; }

 private:
  double probability_, threshold_;
  std::uint64_t seed_;
  Index min_keep_;
  Index length_ = 0;  // of the text
};

}  // namespace specdec

// The rows that tokens were drawn from, as an engine keeps them.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "specdec/more/device/fault.hpp"
#include "specdec/more/device/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::device {

namespace detail {

SPECDEC_TEAM bool is_probability(double q) { return q >= 0 && q <= 1 + 0x1p-8; }
/// What is wrong with the q of a drafted token.
SPECDEC_TEAM FaultKind fault_of_drawn(double q) {
  return q == 0              ? FaultKind::token_was_not_drawn
         : is_probability(q) ? FaultKind::none
                             : FaultKind::draft_is_no_probability;
}

}  // namespace detail

/// A draft row of logits whose sum is known: q(x) = exp(l(x)/temperature − log_sum_exp). The drafter has computed the sum when it
/// drew from the row. A row of probabilities is one of logits that are logarithms, with log_sum_exp = 0. If the drafter drew by
/// top-k or others, `cut` is the least logit that it kept: q is 0 below, and the sum is that of the logits from there on.
/// Numeric: in double.
template <class Scalar>
class DenseDraft {
 public:
  SPECDEC_TEAM DenseDraft(const Scalar* logits, Index vocab_size, double temperature, double log_sum_exp,
                          float cut = -infinity)
      : logits_(logits),
        size_(vocab_size),
        scale_(log2e / temperature),
        top_(log_sum_exp * log2e),
        cut_(cut) {}

  SPECDEC_TEAM double probability(Token x) const {
    if (x < 0 || x >= size_) return 0;
    const float l = widen(logits_[x]);
    if (l < cut_) return 0;
    const double power = product(static_cast<double>(l), scale_) - top_;
    return power != power ? power : power < 1 ? power_of_two(power) : 2;  // above 1 + 2^-8: a fault
  }

  /// What shows without a power that a token was not drawn from this row.
  SPECDEC_TEAM FaultKind fault_of(Token x) const {
    const float l = x >= 0 && x < size_ ? widen(logits_[x]) : -infinity;
    return l != l                       ? FaultKind::draft_is_no_probability
           : l >= cut_ && l > -infinity ? FaultKind::none
                                        : FaultKind::token_was_not_drawn;
  }

 private:
  static constexpr double log2e = 1.4426950408889634;
  const Scalar* logits_;
  Index size_;
  double scale_, top_;
  float cut_;
};

/// A draft row that lists its tokens, in any order: `probabilities[k]` belongs to `ids[k]`. All others have q = 0. For drafters
/// that keep few tokens, as top-k does: no row of V numbers has to stay in memory.
/// Cost: a look-up reads the list.
struct ListedDraft {
  const std::int32_t* ids;
  const float* probabilities;
  Index count;

  SPECDEC_TEAM double probability(Token x) const {
    for (Index k = 0; k < count; ++k)
      if (ids[k] == x) return static_cast<double>(probabilities[k]);
    return 0;
  }
  SPECDEC_TEAM FaultKind fault_of(Token x) const { return detail::fault_of_drawn(probability(x)); }
};

/// The draft row of a token that was chosen, by a look-up or as the likeliest: q is 1 for this token.
struct ChosenDraft {
  Token token;

  SPECDEC_TEAM double probability(Token x) const { return x == token ? 1 : 0; }
  SPECDEC_TEAM FaultKind fault_of(Token) const { return FaultKind::none; }
};

}  // namespace specdec::device

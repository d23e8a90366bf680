// Top-p (nucleus sampling): the most probable tokens that together have probability p.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/sample/threshold/peak_levels.hpp"
#include "specdec/sample/threshold/threshold.hpp"
#include "specdec/sample/threshold/token_weight.hpp"
#include "specdec/sample/threshold/weighed.hpp"

namespace specdec::inline v0_2_0 {

/// Keeps the smallest set of most probable tokens with mass at least p: the token that crosses p stays. p = 1 keeps
/// all. The mass is measured after the earlier steps, at the row's temperature.
/// Source: Holtzman et al., arXiv:1904.09751, §3.1; Hugging Face transformers and llama.cpp also keep the crossing token.
/// Ties: tokens of equal logit stay or go together. Hugging Face and llama.cpp cut a sorted list and may separate them.
/// Throws: InvalidArgument unless 0 < p <= 1; InvalidDistribution if the row cannot be read, or if a log-sum-exp that was handed in
/// is NaN, infinite or beyond all logits. Another wrong one is believed, since the row is not summed again: p may then be 0.
/// Numeric: if the mass of a set is within about 1e-6 of p (float logits), this set or the next larger one may stay.
/// Cost: normalises the row if need be. Reads a few per cent of it once more if few tokens share the mass p, the row some times
/// if a thousand or more do; see ThresholdSearch. The result is normalised. Later only stretches with a kept token are read.
class TopP {
 public:
  explicit TopP(double p) : p_(p) {
    if (!(p > 0 && p <= 1)) detail::invalid_argument("TopP{", p, "} is not above 0 and at most 1");
  }

  double value() const { return p_; }

  template <Real S, int Stride>
  LogitsRow<S, Stride> operator()(const LogitsRow<S, Stride>& row) const {
    using Scalar = Arithmetic<S>;
    if (p_ == 1 || row.is_argmax()) return row;
    const detail::Peaks<Scalar> peaks = row.peaks_and_normaliser();
    if (row.is_dead_end()) return row;
    const auto e = row.exponentials();
    const double total = 1 / row.scale();
    check_normaliser(e.shift, total);
    // A tiny share must not round to 0: then no token would be needed to reach it.
    const double target = std::max(p_ * total, std::numeric_limits<double>::min());
    detail::ThresholdSearch search(row.logits(), peaks,
                                   detail::TokenMass<Scalar>{e.shift, e.inverse_temperature, e.at_most_one},
                                   row.cut(), target);
    try_peaks(search, peaks, detail::PeakLevels<Scalar>(peaks, e), target);
    const Scalar cut = search.cut();
    return row.above(cut, peaks, e.shift, search.found() ? search.weight() : total);
  }

 private:
  // Has the search look from where the peaks alone have the mass. If they have not: from where some peaks lie, then further
  // down, by as much as twice the mass that is missing would take if it lay as dense as what the last step has found. Where far
  // more is missing, it lies in most of the row.
  template <class Search, class Scalar>
  static void try_peaks(Search& search, const detail::Peaks<Scalar>& peaks,
                        const detail::PeakLevels<Scalar>& levels, double target) {
    if (search.try_from(levels.of_mass(target))) return;
    Scalar high = peaks.top(), low = levels.of_count(16);
    for (double before = 0; !search.try_from(low);) {
      const double gained = search.weight() - before, missing = target - search.weight();
      if (!(gained > 0 && missing < 8 * gained)) return;
      const Scalar step = (high - low) * static_cast<Scalar>(std::clamp(2 * missing / gained, 0.05, 2.0));
      before = search.weight();
      high = low;
      low -= step;
    }
  }

  // Only a log-sum-exp that was handed in can fail: a computed sum is positive. With a NaN, every weight would pass as enough.
  template <class Scalar>
  static void check_normaliser(Scalar shift, double total) {
    if (!std::isfinite(shift) || !(total > 0) || !std::isfinite(total))
      detail::invalid_distribution("the log-sum-exp handed in cannot be that of its logits");
  }

  double p_;
};

}  // namespace specdec

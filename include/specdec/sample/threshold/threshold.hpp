// Finds the cut of a row of logits: the largest c such that the tokens with logit >= c weigh enough.
//
// The search does not sort. It begins with the peaks of the row, the largest logit of each stretch. Peaks are logits: if those
// from some value on weigh enough, the cut does not lie below this value. Only stretches with such a peak are read again,
// usually a few per cent of the row:
//
//   gather.hpp        copies the logits from the bound on to a buffer
//   weighed.hpp       the exact cut is found among them
//
// If the peaks give no bound, or too many logits lie above it, a sample of the row gives a bracket: two values with the cut
// probably between them (row_sample.hpp). One pass weighs the logits above the bracket and gathers the logits in it. If
// the bracket was wrong, the pass has shown on which side of it the cut lies, and the search goes on there. So the sample
// decides how long the search takes, never what it finds.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>

#include "specdec/rows/kinds/stretches.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/threshold/gather.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"
#include "specdec/sample/threshold/row_sample.hpp"
#include "specdec/sample/threshold/token_weight.hpp"
#include "specdec/sample/threshold/weighed.hpp"

namespace specdec::inline v0_2_0::detail {

/// Finds the cut of one row. One object does one search. Tokens of equal logit stay or go together.
///
/// Cost: where the peaks give a bound, the stretches above it. Else one pass over the row (comparisons only if few tokens lie
/// above the cut, else also their exponentials), and some ten microseconds for the sample. Each wrong sample costs a further
/// pass; at worst there are as many passes as a logit has bits. No allocation: 24 KiB on the stack.
template <Real S, int Stride, class TokenWeight>
class ThresholdSearch {
 public:
  using Scalar = Arithmetic<S>;

  ThresholdSearch(const NumberRow<S, Stride>& row, const Peaks<Scalar>& peaks, const TokenWeight& weight)
      : row_(row), peaks_(peaks), weight_(weight) {}
  ThresholdSearch(const ThresholdSearch&) = delete;  // sample_ refers to near_
  ThresholdSearch& operator=(const ThresholdSearch&) = delete;

  /// The largest cut from `floor` on such that the tokens that it keeps weigh at least `target`. If all tokens from the
  /// floor on weigh less, the result is floor. `total` is the weight of these tokens, if known. With `total`, the sample
  /// estimates only the many light tokens, which it does well, not the few heavy ones.
  Scalar operator()(Scalar floor, double target, std::optional<double> total = {}) {
    open_ = {ordered_key(floor), highest};
    kept_ = total;
    if (try_from_peaks(target)) return from_ordered_key<Scalar>(open_.low);
    live_ = peaks_.from(floor);
    Range bracket = sampled_bracket(floor, target, total, 2.5, true);
    for (int attempt = 0; open_.low < open_.high && !try_within(still_open(bracket), target); ++attempt) {
      if (overflow_) {
        guess(target);
        guess(target);
      }
      bracket = attempt == 0 ? sampled_bracket(floor, target, total, 9, false) : open_;
    }
    return from_ordered_key<Scalar>(open_.low);
  }

  /// The weight of the tokens that the cut keeps, if the search found it.
  std::optional<double> kept() const { return kept_; }

  /// Σ exp((l − shift)/T) over the logits that the cut keeps, if the search has gathered all of them.
  struct Mass {
    Scalar shift;
    double sum;
  };
  std::optional<Mass> mass(Scalar inverse_temperature) {
    if (!holds_all_kept_) return {};
    const auto top = from_ordered_key<Scalar>(near_.largest());
    weigh(near_, TokenMass<Scalar>{top, inverse_temperature}, top);
    return Mass{top, std::ldexp(static_cast<double>(near_.at_least(open_.low)), -TokenMass<Scalar>::bits)};
  }

 private:
  using Range = KeyRange<Scalar>;
  using Key = OrderedKey<Scalar>;
  static constexpr Key highest = ordered_key(std::numeric_limits<Scalar>::max());

  // Looks for the cut from the bound on that the peaks give. If it is not found there, nothing has changed.
  bool try_from_peaks(double target) {
    near_.size = static_cast<std::size_t>(peaks_.size());
    for (std::size_t s = 0; s < near_.size; ++s) near_.keys[s] = ordered_key(peaks_[static_cast<Index>(s)]);
    if (near_.size == 0) return false;
    near_.fill_up();
    if (near_.largest() == ordered_key(-std::numeric_limits<Scalar>::infinity())) return false;
    const Range all = open_;
    const std::optional<double> total = kept_;
    const bool bounded = select(target, 0);
    const Range from_bound{std::max(open_.low, all.low), highest};
    open_ = all;
    kept_ = total;  // and not what the peaks weigh
    holds_all_kept_ = false;
    live_ = peaks_.from(from_ordered_key<Scalar>(from_bound.low));
    return bounded && try_within(from_bound, target);
  }

  // A bracket from a sample, `deviations` standard deviations wide on each side. With `fit` it may be narrower, so that its
  // logits fit into the buffer. Without a sample, the whole open range.
  Range sampled_bracket(Scalar floor, double target, std::optional<double> total, double deviations,
                        bool fit) {
    if (!sample_.take(floor, weight_)) return open_;
    const double unit = weight_.unit(from_ordered_key<Scalar>(near_.largest())) * sample_.stride();
    const double aim = total ? sample_.weight() - (*total - target) / unit : target / unit;
    return sample_.bracket({aim, total.has_value(), deviations, fit}, open_);
  }

  // The part of a bracket that is still open. If no part is open, the whole open range.
  Range still_open(const Range& bracket) const {
    if (bracket.low > open_.high || bracket.high < open_.low) return open_;
    return {std::max(bracket.low, open_.low), std::min(bracket.high, open_.high)};
  }

  // The smallest number above a bracket. It exists, because no bracket contains +inf.
  static Scalar above(const Range& bracket) { return from_ordered_key<Scalar>(bracket.high + 1); }

  // Looks for the cut in a bracket. If it is not found, open_ is narrower or overflow_ is set.
  bool try_within(const Range& bracket, double target) {
    const GatherResult gathered = gather(row_, live_, bracket, near_, [&](const Scalar* logits) {
      return weight_.sum(logits, above(bracket));
    });
    overflow_ = gathered.overflow;
    if (gathered.above >= target) {
      open_.low = bracket.high + 1;
      kept_ = gathered.above;
      return false;
    }
    if (overflow_) {
      open_.high = bracket.high;
      return false;
    }
    if (select(target, gathered.above)) return true;
    open_.high = bracket.low - 1;
    return bracket.low == open_.low;  // all tokens together weigh less
  }

  // Finds the cut among the gathered logits, if it is there.
  bool select(double target, double above) {
    if (near_.size == 0) return false;
    const auto top = from_ordered_key<Scalar>(near_.largest());
    const double unit = weight_.unit(top);
    const std::uint64_t needed = whole_units(std::round((target - above) / unit));
    const auto from = [&](Key key) { return weight_from(near_, weight_, top, key); };
    const std::uint64_t dropped = near_.narrow(needed, from);
    const bool weighed = near_.size <= near_.most_weighed;
    if (weighed) weigh(near_, weight_, top);
    const Key smallest = near_.smallest();
    const Key cut = weighed ? near_.largest_cut(smallest, near_.largest(), needed - dropped) : smallest;
    const std::uint64_t gathered = dropped + (weighed ? near_.at_least(cut) : from(cut));
    if (gathered < needed) return false;
    open_.low = cut;
    kept_ = above + unit * static_cast<double>(gathered);
    holds_all_kept_ = above == 0 && dropped == 0 && weighed;
    return true;
  }

  // Narrows the open range by one pass at one value: first the cut of the sample, then the value right above it (that is
  // enough if very many logits are equal), then the middle.
  void guess(double target) {
    if (open_.low >= open_.high) return;
    const Key cut = next_guess();
    double above = 0;
    each_chunk(row_, live_,
               [&](const Scalar* logits) { above += weight_.sum(logits, from_ordered_key<Scalar>(cut)); });
    if (above >= target) {
      open_.low = cut;
      kept_ = above;
    } else {
      open_.high = cut - 1;
    }
  }

  Key next_guess() const {
    const Key centre = sample_.centre();
    if (centre > open_.low && centre <= open_.high) return centre;
    return centre == open_.low ? centre + 1 : std::midpoint(open_.high, open_.low);
  }

  NumberRow<S, Stride> row_;
  const Peaks<Scalar>& peaks_;
  LiveStretches live_;  // those that are read
  TokenWeight weight_;
  // The open range: the cut lies in [low, high]. Tokens from low on weigh kept_, if that is known, and this is enough.
  // Tokens above high do not weigh enough.
  Range open_ = {0, 0};
  std::optional<double> kept_;
  bool overflow_ = false, holds_all_kept_ = false;
  WeighedNumbers<Scalar> near_;
  RowSample<S, Stride, TokenWeight> sample_{row_, near_};
};

}  // namespace specdec::detail

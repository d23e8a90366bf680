// Finds the cut of a row of logits: the largest c such that the tokens with logit >= c weigh enough.
//
// The search does not sort. The largest logit of each stretch of the row is known (rows/kinds/stretches.hpp). Given a guess that
// is not above the cut, the search looks from it on. Only stretches with a larger logit are read again, usually a few per cent:
//
//   gather.hpp        copies the logits from this value on to a buffer
//   weighed.hpp       the exact cut is found among them; if they weigh less, the next value is to be lower
//
// If there are too many, they are weighed by level (levels.hpp). The cut is on the level that reaches the weight. Its logits are
// gathered; if they still are too many, the level is divided into levels in its turn.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>

#include "specdec/rows/kinds/stretches.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/threshold/gather.hpp"
#include "specdec/sample/threshold/levels.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"
#include "specdec/sample/threshold/token_weight.hpp"
#include "specdec/sample/threshold/weighed.hpp"

namespace specdec::inline v0_2_0::detail {

/// Finds the cut of one row: the largest one from `floor` on such that the tokens that it keeps weigh at least `target`. If all
/// tokens from the floor on weigh less, the cut is the floor. Tokens of equal logit stay or go together.
/// Cost: what is looked at, stretches above a guess. Where a guess leaves too many logits, and where there is none, two passes
/// over them: one with exponentials (unless tokens are counted), one with comparisons; more where many thousands of logits are
/// nearly equal. No allocation: 36 KiB on the stack.
template <Real S, int Stride, class TokenWeight>
class ThresholdSearch {
 public:
  using Scalar = Arithmetic<S>;

  ThresholdSearch(const NumberRow<S, Stride>& row, const Peaks<Scalar>& peaks, const TokenWeight& weight,
                  Scalar floor, double target)
      : row_(row),
        peaks_(peaks),
        weight_(weight),
        target_(target),
        floor_(ordered_key(floor)),
        high_(ordered_key(std::numeric_limits<Scalar>::max())) {}

  /// Looks for the cut from `low` on, unless this is −inf. Returns whether it is found. What is tried decides only the time.
  bool try_from(Scalar low) {
    if (!(low > none)) return found();
    const Range open{std::max(floor_, ordered_key(low)), high_};
    if (cut_ || open.low > open.high) return found();
    live_ = peaks_.from(from_ordered_key<Scalar>(open.low));
    const bool surely_too_many = open.low == lowest && row_.size() > most_gathered;
    if (surely_too_many || !gather(row_, live_, open, near_)) return find_by_levels(open);
    return select(above_) || not_from(open.low, above_ + gathered_);
  }

  /// The cut. Where it is not found yet, all tokens from the floor on are looked at.
  Scalar cut() {
    const Scalar floor = from_ordered_key<Scalar>(floor_);
    return try_from(floor) ? from_ordered_key<Scalar>(*cut_) : floor;
  }

  /// The weight of the tokens that the cut keeps, if it is found; else of those that were looked at.
  double weight() const { return above_; }
  bool found() const { return cut_.has_value(); }

  /// Σ exp((l − shift)/T) over the logits that the cut keeps, if the search has gathered all of them.
  struct Mass {
    Scalar shift;
    double sum;
  };
  std::optional<Mass> mass(Scalar inverse_temperature) {
    if (!holds_all_kept_) return {};
    const auto top = from_ordered_key<Scalar>(near_.largest());
    weigh(near_, TokenMass<Scalar>{top, inverse_temperature}, top);
    return Mass{top, std::ldexp(static_cast<double>(near_.at_least(*cut_)), -TokenMass<Scalar>::bits)};
  }

 private:
  using Range = KeyRange<Scalar>;
  using Key = OrderedKey<Scalar>;
  using Level = LevelOf<Scalar>;
  static constexpr Scalar none = -std::numeric_limits<Scalar>::infinity();

  static constexpr Key lowest = ordered_key(std::numeric_limits<Scalar>::lowest());
  static constexpr auto most_gathered = static_cast<Index>(WeighedNumbers<Scalar>::capacity);

  bool end(Key cut, double weight) {
    cut_ = cut;
    above_ = weight;
    return true;
  }
  // The tokens from `low` on weigh less than the target.
  bool not_from(Key low, double weight) {
    high_ = low - 1;
    above_ = weight;
    return false;
  }

  // Finds the cut among the gathered numbers, if they weigh enough together with those above them.
  bool select(double above) {
    gathered_ = 0;
    if (near_.size == 0) return false;
    const auto top = from_ordered_key<Scalar>(near_.largest());
    weigh(near_, weight_, top);
    const double unit = weight_.unit(top);
    const std::uint64_t needed = whole_units(std::round((target_ - above) / unit));
    const Key smallest = near_.smallest();
    const std::uint64_t all = near_.at_least(smallest);
    gathered_ = unit * static_cast<double>(all);
    if (all < needed) return false;
    const Key cut = near_.largest_cut(smallest, near_.largest(), needed);
    holds_all_kept_ = above == 0;
    return end(cut, above + unit * static_cast<double>(near_.at_least(cut)));
  }

  // Narrows the open range to one level after the other, until its logits can be gathered.
  bool find_by_levels(Range open) {
    Scalar high = std::min(peaks_.top(), from_ordered_key<Scalar>(open.high));
    if (!(high >= from_ordered_key<Scalar>(open.low))) return not_from(open.low, above_);
    const Scalar top = peaks_.top(), most = 4 * (top - peaks_.of_rank((peaks_.count() + 1) / 2));
    Scalar span = std::max(Scalar{1}, high - (top - most));
    for (bool enough = false;; enough = true) {
      const Level level(std::max(from_ordered_key<Scalar>(open.low), high - span), high);
      const auto weights = weights_on(level, open);
      double above = weights[0];
      std::int32_t k = 1;
      while (k < Level::levels && above + at(weights, k) < target_) above += at(weights, k++);
      const Range range = level.keys_on(k, open);
      const double kept = above + at(weights, k);
      const bool same = range.low == open.low && range.high == open.high;
      if (kept < target_ && !enough) return not_from(open.low, kept);
      if (kept < target_ || range.low == range.high) return end(range.low, kept);
      open = range;
      if (gather(row_, live_, range, near_)) return select(above) || end(range.low, kept);
      if (same) {  // numbers too near to one another for levels
        narrow(std::midpoint(range.high, range.low), open);
      } else if (const Key some = near_.smallest(); some == near_.largest()) {  // very many equal ones
        narrow(some + 1, open);
        narrow(some, open);
      }
      high = from_ordered_key<Scalar>(open.high);
      span = k < Level::levels ? high - from_ordered_key<Scalar>(open.low) : 64 * span;
    }
  }

  std::array<double, Level::levels + 1> weights_on(const Level& level, const Range& open) const {
    // Four tables: where most tokens are on one level, an addition would wait for the one before it.
    std::array<std::array<double, 4>, Level::levels + 1> parts{};
    const auto low = from_ordered_key<Scalar>(open.low);
    each_chunk(row_, live_, [&](const Scalar* logits) {
      const auto on = run_wide<Level>(logits, level);
      std::array<Scalar, chunk_size> of_tokens;
      weight_.write(logits, low, of_tokens.data());
      for (std::size_t i = 0; i < chunk_size; ++i)
        parts[static_cast<std::size_t>(on[i])][i % 4] += static_cast<double>(of_tokens[i]);
    });
    std::array<double, Level::levels + 1> weights;
    std::transform(parts.begin(), parts.end(), weights.begin(),
                   [](const auto& p) { return (p[0] + p[1]) + (p[2] + p[3]); });
    return weights;
  }

  // Narrows a range to one side of a cut in it.
  void narrow(Key cut, Range& open) {
    if (cut <= open.low || cut > open.high) return;
    double weight = 0;
    each_chunk(row_, live_,
               [&](const Scalar* logits) { weight += weight_.sum(logits, from_ordered_key<Scalar>(cut)); });
    if (weight >= target_) open.low = cut;
    else open.high = cut - 1;
  }

  NumberRow<S, Stride> row_;
  const Peaks<Scalar>& peaks_;
  LiveStretches live_;  // those that are read
  TokenWeight weight_;
  double target_;
  Key floor_, high_;  // the cut lies in [floor_, high_]
  std::optional<Key> cut_;
  double above_ = 0, gathered_ = 0;  // the weight above high_, or that the cut keeps; of the gathered ones
  bool holds_all_kept_ = false;
  WeighedNumbers<Scalar> near_;
};

}  // namespace specdec::detail

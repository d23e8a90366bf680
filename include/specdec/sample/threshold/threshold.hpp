// Finds the cut of a row of logits: the largest c such that the tokens with logit >= c weigh enough.
//
// The search does not sort. A row was read in stretches (rows/kinds/stretches.hpp), and what is known of these gives a value from
// which on the tokens probably weigh enough. Only stretches with a larger logit are read again, usually a few per cent of the row:
//
//   gather.hpp        copies the logits from this value on to a buffer
//   weighed.hpp       the exact cut is found among them
//
// If they do not weigh enough, or are too many, the whole row is weighed by level (levels.hpp). The cut is on the level that
// reaches the weight. Its logits are gathered; if they still are too many, the level is divided into levels in its turn.
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

/// Finds the cut of one row. One object does one search. Tokens of equal logit stay or go together.
///
/// Cost: where the stretches tell enough, those above the cut. Else two passes over the row: one with exponentials (unless
/// tokens are counted), one with comparisons; more where many thousands of logits are nearly equal. No allocation: 48 KiB on
/// the stack.
template <Real S, int Stride, class TokenWeight>
class ThresholdSearch {
 public:
  using Scalar = Arithmetic<S>;

  ThresholdSearch(const NumberRow<S, Stride>& row, const Peaks<Scalar>& peaks, const TokenWeight& weight)
      : row_(row), peaks_(peaks), weight_(weight) {}

  /// The largest cut from `floor` on such that the tokens that it keeps weigh at least `target`. If all tokens from the
  /// floor on weigh less, the result is floor. `likely` is a logit from which on the tokens probably weigh enough, −inf if
  /// nothing is known.
  Scalar operator()(Scalar floor, double target, Scalar likely) {
    open_ = {ordered_key(floor), ordered_key(std::numeric_limits<Scalar>::max())};
    if (!try_from(likely, target)) {
      live_ = peaks_.from(floor);
      find_by_levels(target);
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
  using Level = LevelOf<Scalar>;
  static constexpr Scalar none = -std::numeric_limits<Scalar>::infinity();

  void end(Key cut, double kept) {
    open_.low = cut;
    kept_ = kept;
  }

  // Finds the cut among the gathered numbers, if they weigh enough together with those above them.
  bool select(double target, double above) {
    if (near_.size == 0) return false;
    const auto top = from_ordered_key<Scalar>(near_.largest());
    weigh(near_, weight_, top);
    const double unit = weight_.unit(top);
    const std::uint64_t needed = whole_units(std::round((target - above) / unit));
    const Key cut = near_.largest_cut(near_.smallest(), near_.largest(), needed);
    const std::uint64_t weight = near_.at_least(cut);
    if (weight < needed) return false;
    end(cut, above + unit * static_cast<double>(weight));
    holds_all_kept_ = above == 0;
    return true;
  }

  // Looks for the cut in the stretches with a peak from `low` on.
  bool try_from(Scalar low, double target) {
    if (!(low > none)) return false;
    live_ = peaks_.from(low);
    return gather(row_, live_, {std::max(open_.low, ordered_key(low)), open_.high}, near_) &&
           select(target, 0);
  }

  // Narrows the open range to one level after the other, until its logits can be gathered.
  void find_by_levels(double target) {
    Scalar high = peaks_.top();
    if (!(high > none) || high < from_ordered_key<Scalar>(open_.low)) return;
    Scalar span = std::max(Scalar{1}, 4 * (high - peaks_.of_rank((peaks_.count() + 1) / 2)));
    for (;;) {
      const Level level(std::max(from_ordered_key<Scalar>(open_.low), high - span), high);
      const auto weights = weights_on(level);
      double above = weights[0];
      std::int32_t k = 1;
      while (k < Level::levels && above + at(weights, k) < target) above += at(weights, k++);
      const Range range = level.keys_on(k, open_);
      const double kept = above + at(weights, k);
      const bool same = range.low == open_.low && range.high == open_.high;
      if (kept < target || range.low == range.high) return end(range.low, kept);
      open_ = range;
      if (gather(row_, live_, range, near_)) {
        if (!select(target, above)) end(range.low, kept);
        return;
      }
      if (same) {  // numbers too near to one another for levels
        narrow(std::midpoint(range.high, range.low), target);
      } else if (const Key some = near_.smallest(); some == near_.largest()) {  // very many equal ones
        narrow(some + 1, target);
        narrow(some, target);
      }
      high = from_ordered_key<Scalar>(open_.high);
      span = k < Level::levels ? high - from_ordered_key<Scalar>(open_.low) : 64 * span;
    }
  }

  std::array<double, Level::levels + 1> weights_on(const Level& level) const {
    // Four tables: where most tokens are on one level, an addition would wait for the one before it.
    std::array<std::array<double, 4>, Level::levels + 1> parts{};
    const auto low = from_ordered_key<Scalar>(open_.low);
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

  // Narrows the open range to one side of a cut in it.
  void narrow(Key cut, double target) {
    if (cut <= open_.low || cut > open_.high) return;
    double weight = 0;
    each_chunk(row_, live_,
               [&](const Scalar* logits) { weight += weight_.sum(logits, from_ordered_key<Scalar>(cut)); });
    if (weight >= target) open_.low = cut;
    else open_.high = cut - 1;
  }

  NumberRow<S, Stride> row_;
  const Peaks<Scalar>& peaks_;
  LiveStretches live_;  // those that are read
  TokenWeight weight_;
  Range open_ = {0, 0};  // the cut lies in it
  std::optional<double> kept_;
  bool holds_all_kept_ = false;
  WeighedNumbers<Scalar> near_;
};

}  // namespace specdec::detail

// The cut of a row of logits: the largest c for which the tokens of logit >= c weigh enough.
//
// It is found without sorting, in three steps:
//
//   row_sample.hpp    a sample of the row says between which two values the cut probably lies
//   gather.hpp        one pass weighs the logits above these values and gathers those between
//   weighed.hpp       the cut is found among the few thousand gathered, exactly
//
// Where the sample was wrong, the pass has shown on which side the cut lies, and the search goes on there. So the
// sample decides how long the search takes, never what it finds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/flags.hpp"
#include "specdec/sample/gather.hpp"
#include "specdec/sample/ordered_key.hpp"
#include "specdec/sample/row_sample.hpp"
#include "specdec/sample/token_weight.hpp"
#include "specdec/sample/weighed.hpp"

namespace specdec::detail {

/// Finds the cut of one row, once. Tokens of equal logit stand or fall together.
///
/// Cost: one pass over the row (of comparisons where the tokens above the cut are few, else with their
/// exponentials), some ten microseconds for the sample; a further pass where the sample misled, at worst as
/// many as a logit has bits. No allocation: 64 KiB on the stack.
template <Real S, int Stride, class TokenWeight>
class ThresholdSearch {
 public:
  using Scalar = Arithmetic<S>;

  ThresholdSearch(const NumberRow<S, Stride>& row, const TokenWeight& weight) : row_(row), weight_(weight) {}
  ThresholdSearch(const ThresholdSearch&) = delete;  // the sample refers to what is near
  ThresholdSearch& operator=(const ThresholdSearch&) = delete;

  /// The largest cut in [floor, ceiling] above which tokens weigh at least `target`; floor where all above it
  /// weigh less. `total` is the weight of those above the floor, where it is known: then the sample has to
  /// tell the weight of the light tokens only, which it represents well, not that of the few heavy ones.
  /// Throws InvalidDistribution on a NaN and on a logit of +inf.
  Scalar operator()(Scalar floor, Scalar ceiling, double target, std::optional<double> total = {}) {
    open_ = {ordered_key(floor), ordered_key(ceiling)};
    kept_ = total;
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

  /// The cut above which tokens have the given share of the weight of the whole row, which is not known, in a
  /// single pass that comes to know it. Only where the sample can tell how the weight is spread, which is
  /// where many tokens share it, and has told rightly; else nothing.
  std::optional<Scalar> cut_of_share(double share) {
    constexpr double many = 10;
    constexpr Scalar lowest = std::numeric_limits<Scalar>::lowest();
    open_ = {ordered_key(lowest), ordered_key(std::numeric_limits<Scalar>::max())};
    if (!sample_.take(lowest, weight_)) return {};
    if (sample_.weight() < std::ldexp(many, TokenWeight::bits)) return {};  // the largest weighs 2^bits
    const Range bracket = sample_.bracket({share * sample_.weight(), true, 2.5, true}, open_);
    if (bracket.high == open_.high) return {};
    weight_.shift = from_ordered_key<Scalar>(near_.largest());
    double total = 0;
    const Gathered gathered = gather(row_, bracket, near_, [&](const Scalar* logits, bool) {
      const auto [all, above_bracket] = weight_.sums(logits, above(bracket));
      total += all;
      return above_bracket;
    });
    const double target = share * total;
    if (gathered.overflow || !(gathered.above < target) || !std::isfinite(total)) return {};
    if (!select(target, gathered.above)) return {};
    return from_ordered_key<Scalar>(open_.low);
  }

  /// The weights that were used, whose shift the search may have chosen.
  const TokenWeight& weight() const { return weight_; }

  /// The weight of the tokens that the cut leaves, where the search came to know it.
  std::optional<double> kept() const { return kept_; }

  /// Σ exp((l − shift)/T) of the logits that the cut leaves, where the search has come to hold them all.
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

  // The bracket of a sample, so many standard deviations wide on each side, or fewer to make it `fit`; all that is
  // open where there is no sample.
  Range sampled_bracket(Scalar floor, double target, std::optional<double> total, double deviations,
                        bool fit) {
    if (!sample_.take(floor, weight_)) return open_;
    const double unit = weight_.unit(from_ordered_key<Scalar>(near_.largest())) * sample_.stride();
    const double aim = total ? sample_.weight() - (*total - target) / unit : target / unit;
    return sample_.bracket({aim, total.has_value(), deviations, fit}, open_);
  }

  // What of a bracket has not been ruled out; all that has not where nothing of it is left.
  Range still_open(const Range& bracket) const {
    if (bracket.low > open_.high || bracket.high < open_.low) return open_;
    return {std::max(bracket.low, open_.low), std::min(bracket.high, open_.high)};
  }

  // The least number above a bracket; there is one, as +inf is in none.
  static Scalar above(const Range& bracket) { return from_ordered_key<Scalar>(bracket.high + 1); }

  // Whether that settles the matter; if not, open_ or overflow_ tells why.
  bool try_within(const Range& bracket, double target) {
    const Gathered gathered = gather(row_, bracket, near_, [&](const Scalar* logits, bool any) {
      return any ? weight_.sum(logits, above(bracket)) : 0.0;
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
    return bracket.low == open_.low;  // all that there is weighs less
  }

  // The cut among what is near, if it is there.
  bool select(double target, double above) {
    if (near_.size == 0) return false;
    const auto top = from_ordered_key<Scalar>(near_.largest());
    weigh(near_, weight_, top);
    const double unit = weight_.unit(top);
    const std::uint64_t needed = whole_units(std::round((target - above) / unit));
    const Key smallest = near_.smallest();
    if (near_.at_least(smallest) < needed) return false;
    open_.low = near_.largest_cut(smallest, near_.largest(), needed);
    kept_ = above + unit * static_cast<double>(near_.at_least(open_.low));
    holds_all_kept_ = above == 0;
    return true;
  }

  // Narrows what is open by one pass: at the cut of the sample, right above it (where very many logits are
  // equal, that is all it takes), then in the middle.
  void guess(double target) {
    if (open_.low >= open_.high) return;
    const Key cut = next_guess();
    double above = 0;
    each_chunk(row_,
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
  TokenWeight weight_;
  // Where the cut is still looked for. Tokens above its low end weigh kept_, which is enough, if known; those above its
  // high end do not weigh enough.
  Range open_ = {0, 0};
  std::optional<double> kept_;
  bool overflow_ = false, holds_all_kept_ = false;
  Weighed<Scalar> near_;
  RowSample<S, Stride, TokenWeight> sample_{row_, near_};
};

}  // namespace specdec::detail

// The cut of a row of logits: the largest c for which the tokens of logit >= c weigh enough.
//
// Sorting is what this is for avoiding. A sample of the row says between which two values the cut must lie;
// one pass then weighs what is above them and gathers what is between, a few thousand logits, in which the
// cut is found exactly. Where the sample was wrong, the pass has shown on which side the cut lies, and the
// search goes on there: the sample decides how long it takes, never what is found.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>

#include "specdec/error.hpp"
#include "specdec/rows/logits_row.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/flags.hpp"
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

  /// The largest cut in [floor, ceiling] above which tokens weigh at least `target`; floor where all above it
  /// weigh less. `total` is the weight of those above the floor, where it is known: then the sample has to
  /// tell the weight of the light tokens only, which it represents well, not that of the few heavy ones.
  /// Throws InvalidDistribution on a NaN and on a logit of +inf.
  Scalar operator()(Scalar floor, Scalar ceiling, double target, std::optional<double> total = {}) {
    low_ = ordered_key(floor);
    high_ = ordered_key(ceiling);
    kept_ = total;
    const auto aim = [&](double unit) {
      return total ? weight_of_sample() - (*total - target) / unit : target / unit;
    };
    Bracket bracket = sampled_bracket(floor, aim, total.has_value(), 2.5, true);
    for (int attempt = 0; low_ < high_ && !try_within(still_open(bracket), target); ++attempt) {
      if (overflow_) {
        guess(target);
        guess(target);
      }
      bracket =
          attempt == 0 ? sampled_bracket(floor, aim, total.has_value(), 9, false) : Bracket{low_, high_};
    }
    return from_ordered_key<Scalar>(low_);
  }

  /// The cut above which tokens have the given share of the weight of the whole row, which is not known, in a
  /// single pass that comes to know it. Only where the sample can tell how the weight is spread, which is
  /// where many tokens share it, and has told rightly; else nothing.
  std::optional<Scalar> cut_of_share(double share) {
    low_ = ordered_key(std::numeric_limits<Scalar>::lowest());
    high_ = ordered_key(std::numeric_limits<Scalar>::max());
    constexpr double many = 10;
    if (!sample(from_ordered_key<Scalar>(low_))) return {};
    if (weight_of_sample() < std::ldexp(many, TokenWeight::bits)) return {};  // the largest weighs 2^bits
    const Bracket bracket = bracket_of_sample(share * weight_of_sample(), true, 2.5, true);
    if (bracket.high == high_) return {};
    weight_.shift = from_ordered_key<Scalar>(near_.largest());
    double total = 0;
    const double above = gather(bracket, [&](const Scalar* logits, const Chunk&, bool) {
      const auto [all, above_bracket] = weight_.sums(logits, from_ordered_key<Scalar>(bracket.high));
      total += all;
      return above_bracket;
    });
    const double target = share * total;
    if (overflow_ || !(above < target) || !std::isfinite(total) || !select(target, above)) return {};
    return from_ordered_key<Scalar>(low_);
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
  std::optional<Mass> mass(double temperature) {
    if (!holds_all_kept_) return {};
    const auto top = from_ordered_key<Scalar>(near_.largest());
    weigh(TokenMass<Scalar>{top, static_cast<Scalar>(1 / temperature)}, top);
    return Mass{top, std::ldexp(static_cast<double>(near_.at_least(low_)), -TokenMass<Scalar>::bits)};
  }

 private:
  using Near = Weighed<Scalar>;
  using Key = typename Near::Key;

  // The cut is looked for among logits of keys low..high.
  struct Bracket {
    Key low, high;
  };

  static constexpr auto chunk = static_cast<Index>(Flags::size);  // logits that are looked at together
  using Chunk = Eigen::Array<Scalar, chunk, 1>;
  static constexpr Index few = 2048;  // which are gathered without a sample
  static constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();

  // Calls f with the row, a chunk at a time, where it lies if it can be read there. What is short of a whole
  // chunk is filled up with −inf.
  template <class F>
  void each_chunk(F&& f) const {
    Chunk copy;
    for (Index start = 0; start < row_.size(); start += chunk) {
      const Index count = std::min(chunk, row_.size() - start);
      if constexpr (std::floating_point<S> && Stride == 1) {
        if (count == chunk) {
          f(row_.data() + start);
          continue;
        }
      }
      copy.setConstant(-infinity);
      copy.head(count) = row_.segment(start, count);
      f(static_cast<const Scalar*>(copy.data()));
    }
  }

  // Fills in the weights of what is near.
  template <class W>
  void weigh(const W& weight, Scalar top) {
    std::array<Scalar, Flags::size> values;
    for (std::size_t start = 0; start < near_.size; start += values.size()) {
      const std::size_t count = std::min(values.size(), near_.size - start);
      for (std::size_t i = 0; i < count; ++i) values[i] = from_ordered_key<Scalar>(near_.keys[start + i]);
      weight.weigh(values.data(), static_cast<Index>(count), top, near_.weights.data() + start);
    }
  }

  // Where the cut must lie by what a sample shows, give or take so many standard deviations (or fewer, to make
  // it fit). aim(unit) is the weight above the cut that is looked for in the sample, of which one stands for
  // `unit` in the row.
  template <class Aim>
  Bracket sampled_bracket(Scalar floor, Aim&& aim, bool from_below, double deviations, bool fit) {
    if (!sample(floor)) return {low_, high_};
    const double unit = weight_.unit(from_ordered_key<Scalar>(near_.largest())) * stride();
    return bracket_of_sample(aim(unit), from_below, deviations, fit);
  }

  Bracket bracket_of_sample(double aim, bool from_below, double deviations, bool fit) {
    centre_ = cut_of_sample(aim);
    const double margin = deviations * standard_deviation(from_below);
    const Bracket bracket = around(aim, margin);
    const double expected = expected_size(bracket), room = 0.7 * static_cast<double>(Near::capacity);
    return fit && expected > room ? around(aim, margin * room / expected) : bracket;
  }

  // What of a bracket has not been ruled out; all that has not where nothing of it is left.
  Bracket still_open(const Bracket& bracket) const {
    if (bracket.low > high_ || bracket.high < low_) return {low_, high_};
    return {std::max(bracket.low, low_), std::min(bracket.high, high_)};
  }

  // Logits at equal distances, and their weights; whether there are any worth it.
  bool sample(Scalar floor) {
    if (row_.size() <= few) return false;
    near_.size = 0;
    const Index step = row_.size() / sample_size();
    for (Index i = 0; i < sample_size(); ++i) {
      const Scalar l = row_[i * step + step / 2];
      near_.keys[near_.size] = ordered_key(l);
      near_.size += both(l >= floor, l < infinity);
    }
    if (near_.size == 0) return false;
    weigh(weight_, from_ordered_key<Scalar>(near_.largest()));
    return true;
  }

  // The larger the sample, the fewer logits have to be gathered.
  Index sample_size() const { return std::clamp<Index>(row_.size() / 64, 256, 2048); }
  double stride() const { return static_cast<double>(row_.size()) / static_cast<double>(sample_size()); }

  double weight_of_sample() const { return static_cast<double>(near_.at_least(near_.smallest())); }

  Key cut_of_sample(double aim) const {
    const double least = aim > 1 ? std::min(aim, 0x1p62) : 1;  // 1 for NaN, too
    return near_.largest_cut(near_.smallest(), near_.largest(), static_cast<std::uint64_t>(least));
  }

  // Of the weight that the sample has below its cut, or above it.
  double standard_deviation(bool below) const {
    constexpr int shift = std::max(0, TokenWeight::bits - 19);  // so that squares can be summed
    std::uint64_t sum = 0, squares = 0;
    for (std::size_t i = 0; i < near_.size; ++i) {
      const bool counts = below ? near_.keys[i] <= centre_ : near_.keys[i] >= centre_;
      const std::uint64_t w = counts ? std::uint64_t{near_.weights[i]} >> shift : 0;
      sum += w;
      squares += w * w;
    }
    const auto s = static_cast<double>(sum);
    const double variance = static_cast<double>(squares) - s * s / static_cast<double>(sample_size());
    return std::ldexp(std::sqrt(std::max(variance, 1.0)), shift);
  }

  // Where few tokens are above it the bracket takes them all in, so that no exponential is needed to weigh
  // them, and not too few: the sample knows how many they are much better than what the heaviest weigh.
  Bracket around(double aim, double margin) const {
    Bracket bracket{cut_of_sample(aim + margin), high_};
    const double room = 0.35 * static_cast<double>(Near::capacity);
    if (expected_size(bracket) > room) {
      if (aim > margin) bracket.high = cut_of_sample(aim - margin);
      return bracket;
    }
    const auto rank = static_cast<std::size_t>(room / stride());
    bracket.low = rank < near_.size ? std::min(bracket.low, near_.of_rank(rank)) : low_;
    return bracket;
  }

  double expected_size(const Bracket& bracket) const {
    return static_cast<double>(near_.count(bracket.low, bracket.high)) * stride();
  }

  // Whether that settles the matter; if not, low_ or high_ or overflow_ tells why.
  bool try_within(const Bracket& bracket, double target) {
    const double above = gather(bracket, [&](const Scalar*, const Chunk& those_above, bool any) {
      return any ? weight_.sum(those_above) : 0.0;
    });
    if (above >= target) {
      low_ = bracket.high + 1;
      kept_ = above;
      return false;
    }
    if (overflow_) {
      high_ = bracket.high;
      return false;
    }
    if (select(target, above)) return true;
    high_ = bracket.low - 1;
    return bracket.low == low_;  // all that there is weighs less
  }

  // The cut among what is near, if it is there.
  bool select(double target, double above) {
    if (near_.size == 0) return false;
    const auto top = from_ordered_key<Scalar>(near_.largest());
    weigh(weight_, top);
    const double unit = weight_.unit(top);
    const auto needed =
        static_cast<std::uint64_t>(std::clamp(std::round((target - above) / unit), 1.0, 0x1p62));
    const Key smallest = near_.smallest();
    if (near_.at_least(smallest) < needed) return false;
    low_ = near_.largest_cut(smallest, near_.largest(), needed);
    kept_ = above + unit * static_cast<double>(near_.at_least(low_));
    holds_all_kept_ = above == 0;
    return true;
  }

  // One pass: gathers the logits in the bracket and returns the weight of those above it, which is what
  // weigh_above makes of a chunk, of those in it that are above, and of whether there are any.
  template <class WeighAbove>
  double gather(const Bracket& bracket, WeighAbove&& weigh_above) {
    const auto low = from_ordered_key<Scalar>(bracket.low), high = from_ordered_key<Scalar>(bracket.high);
    near_.size = 0;
    overflow_ = false;
    double weight = 0;
    Flags inside;
    Chunk above;
    each_chunk([&](const Scalar* logits) {
      const bool any = part(logits, low, high, inside, above);
      weight += weigh_above(logits, above, any);
      overflow_ = overflow_ || near_.size + Flags::size > Near::capacity;
      if (overflow_) return;
      near_.size = inside.pick(near_.size,
                               [&](std::size_t k, std::size_t i) { near_.keys[k] = ordered_key(logits[i]); });
    });
    return weight;
  }

  // Flags the logits of a chunk that lie in [low, high] and copies those above; tells whether there are any.
  static bool part(const Scalar* logits, Scalar low, Scalar high, Flags& inside, Chunk& above) {
    unsigned any = 0, bad = 0;
    for (std::size_t i = 0; i < Flags::size; ++i) {
      const Scalar l = logits[i];
      inside[i] = both(l >= low, l <= high);
      above[static_cast<Index>(i)] = l > high ? l : -infinity;
      any |= static_cast<unsigned>(l > high);
      bad |= static_cast<unsigned>(!(l < infinity));
    }
    if (bad != 0) throw InvalidDistribution("a logit is nan or inf");
    return any != 0;
  }

  // Narrows the range by one pass: at the cut of the sample, right above it (where very many logits are
  // equal, that is all it takes), then in the middle.
  void guess(double target) {
    if (low_ >= high_) return;
    Key cut = std::midpoint(high_, low_);
    if (centre_ > low_ && centre_ <= high_) cut = centre_;
    else if (centre_ == low_) cut = low_ + 1;
    double above = 0;
    Chunk kept;
    each_chunk([&](const Scalar* logits) {
      kept = Eigen::Map<const Chunk>(logits);
      mask_below(from_ordered_key<Scalar>(cut), kept.data(), Flags::size);
      above += weight_.sum(kept);
    });
    if (above >= target) {
      low_ = cut;
      kept_ = above;
    } else {
      high_ = cut - 1;
    }
  }

  NumberRow<S, Stride> row_;
  TokenWeight weight_;
  // The cut is in low_..high_; tokens above low_ weigh kept_, which is enough, if known; those above high_ do
  // not weigh enough.
  Key low_ = 0, high_ = 0;
  std::optional<double> kept_;
  Key centre_ = std::numeric_limits<Key>::max();  // the cut of the sample
  bool overflow_ = false, holds_all_kept_ = false;
  Near near_;
};

}  // namespace specdec::detail

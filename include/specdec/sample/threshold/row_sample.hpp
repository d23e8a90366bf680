// A sample of a row's logits, and the bracket that it gives: two values with the row's cut probably between them.
//
// The sample is a few hundred to fifteen hundred logits at equal distances. Its own cut is near the row's cut. How near
// follows from how much the weights in the sample vary. A wrong bracket costs time and nothing else.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "specdec/rows/numbers.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"
#include "specdec/sample/threshold/token_weight.hpp"
#include "specdec/sample/threshold/weighed.hpp"

namespace specdec::inline v0_2_0::detail {

/// A sample of a row. Its logits and weights lie in `gathered`, a buffer of the caller. They are gone when the caller uses the
/// buffer for something else.
template <Real S, int Stride, class TokenWeight>
class RowSample {
 public:
  using Scalar = Arithmetic<S>;
  using Range = KeyRange<Scalar>;
  using Key = OrderedKey<Scalar>;

  RowSample(const NumberRow<S, Stride>& row, WeighedNumbers<Scalar>& gathered) : row_(row), near_(gathered) {}

  /// Takes a sample of the logits >= floor. Returns whether there is one: a short row needs none.
  bool take(Scalar floor, const TokenWeight& weight) {
    if (row_.size() <= few) return false;
    near_.size = 0;
    const Index step = row_.size() / size();
    for (Index i = 0; i < size(); ++i) {
      const Scalar l = row_[i * step + step / 2];
      near_.keys[near_.size] = ordered_key(l);
      near_.size += both(l >= floor, l < std::numeric_limits<Scalar>::infinity());
    }
    if (near_.size == 0) return false;
    near_.fill_up();
    weigh(near_, weight, from_ordered_key<Scalar>(near_.largest()));
    return true;
  }

  /// How many logits of the row each logit of the sample stands for.
  double stride() const { return static_cast<double>(row_.size()) / static_cast<double>(size()); }

  /// The weight of the whole sample, in whole units.
  double weight() const { return static_cast<double>(near_.at_least(near_.smallest())); }

  /// How a bracket is chosen.
  struct Wish {
    double aim;  // the weight above the cut, in units of the sample
    bool
        from_below;  // whether the aim comes from the weight below the cut: then that weight's deviation counts
    double deviations;  // how many standard deviations the bracket is wide on each side
    bool fit;           // whether it may be narrower, so that there is room for its logits
  };

  /// The bracket that the sample gives. Where the sample gives no bound, the bound of `open`.
  Range bracket(const Wish& wish, const Range& open) {
    centre_ = cut(wish.aim);
    const double margin = wish.deviations * standard_deviation(wish.from_below);
    const Range range = around(wish.aim, margin, open);
    const double expected = expected_size(range), room = 0.7 * static_cast<double>(near_.capacity);
    return wish.fit && expected > room ? around(wish.aim, margin * room / expected, open) : range;
  }

  /// The sample's own cut: the centre of the last bracket.
  Key centre() const { return centre_; }

 private:
  static constexpr Index few = 2048;  // logits that are gathered without a sample

  // The larger the sample, the fewer logits have to be gathered.
  Index size() const { return std::clamp<Index>(row_.size() / 64, 256, 1536); }

  Key cut(double aim) const { return near_.largest_cut(near_.smallest(), near_.largest(), whole_units(aim)); }

  // The standard deviation of the sample's weight below its cut, or above it.
  double standard_deviation(bool below) const {
    constexpr int shift = std::max(0, TokenWeight::bits - 19);  // so that squares can be summed
    std::uint64_t sum = 0, squares = 0;
    for (std::size_t i = 0; i < near_.size; ++i) {
      const bool counts = below ? near_.keys[i] <= centre_ : near_.keys[i] >= centre_;
      const std::uint64_t w = counts ? std::uint64_t{near_.weights()[i]} >> shift : 0;
      sum += w;
      squares += w * w;
    }
    const auto s = static_cast<double>(sum);
    const double variance = static_cast<double>(squares) - s * s / static_cast<double>(size());
    return std::ldexp(std::sqrt(std::max(variance, 1.0)), shift);
  }

  // If few tokens lie above the cut, the bracket contains all of them, and a good number of tokens besides. Then weighing
  // needs no exponential. The sample knows the tokens' number much better than the weight of the heaviest.
  Range around(double aim, double margin, const Range& open) const {
    Range range{cut(aim + margin), open.high};
    const double room = 0.35 * static_cast<double>(near_.capacity);
    if (expected_size(range) > room) {
      if (aim > margin) range.high = cut(aim - margin);
      return range;
    }
    const auto rank = static_cast<std::size_t>(room / stride());
    range.low = rank < near_.size ? std::min(range.low, near_.of_rank(rank)) : open.low;
    return range;
  }

  double expected_size(const Range& range) const {
    return static_cast<double>(near_.count(range.low, range.high)) * stride();
  }

  NumberRow<S, Stride> row_;
  WeighedNumbers<Scalar>& near_;
  Key centre_ = std::numeric_limits<Key>::max();
};

}  // namespace specdec::detail

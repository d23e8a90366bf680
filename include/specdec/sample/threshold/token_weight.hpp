// The weight of a token in the search for a cut: 1 for top-k, its exponential for top-p.
//
//   sum(l, c)          the total weight of the logits >= c among chunk_size logits; c is not −inf
//   write(l, c, w)     writes the weights of chunk_size logits; a logit below c, or of −inf, weighs 0
//   weigh(l, top, w)   writes the weights of chunk_size logits as integers, in a unit that depends on `top`, the largest
//                      logit; a logit of −inf weighs 0
//   unit(top)          that unit
//   bits               how many bits the integers take
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "specdec/kernels/exponentials.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/sample/threshold/ordered_key.hpp"
#include "specdec/sample/threshold/weighed.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Every token weighs 1.
template <class Scalar>
struct TokenCount {
  using Weight = typename WeighedNumbers<Scalar>::Weight;

  static constexpr int bits = 1;

  double sum(const Scalar* logits, Scalar cut) const {
    std::int32_t n = 0;
    for (std::size_t i = 0; i < chunk_size; ++i) n += logits[i] >= cut ? 1 : 0;
    return n;
  }

  void write(const Scalar* logits, Scalar cut, Scalar* weights) const {
    for (std::size_t i = 0; i < chunk_size; ++i) weights[i] = logits[i] >= cut ? 1 : 0;
  }

  double unit(Scalar) const { return 1; }

  void weigh(const Scalar* logits, Scalar, Weight* weights) const {
    for (std::size_t i = 0; i < chunk_size; ++i)
      weights[i] = logits[i] >= std::numeric_limits<Scalar>::lowest() ? 1 : 0;
  }
};

/// A token weighs exp((l − shift)/T). Integers relative to the largest weight keep the precision of Scalar's exponentials.
template <class Scalar>
struct TokenMass {
  using Weight = typename WeighedNumbers<Scalar>::Weight;

  static constexpr int bits = WeighedNumbers<Scalar>::weight_bits;

  Scalar shift, inverse_temperature;
  /// Promises that no logit is larger than the shift.
  bool at_most_one = false;

  double sum(const Scalar* logits, Scalar cut) const {
    return run_wide<SumOfExponentials<Scalar>>(logits, size, from(cut));
  }

  void write(const Scalar* logits, Scalar cut, Scalar* weights) const {
    run_wide<WriteExponentials<Scalar>>(logits, size, from(cut), Scalar{1}, weights);
  }

  double unit(Scalar top) const {
    return std::ldexp(std::exp((static_cast<double>(top) - static_cast<double>(shift)) *
                               static_cast<double>(inverse_temperature)),
                      -bits);
  }

  void weigh(const Scalar* logits, Scalar top, Weight* weights) const {
    std::array<Scalar, chunk_size> w;
    const Exponentials<Scalar> e{top, inverse_temperature};  // `top` is not always the largest logit
    constexpr auto most = static_cast<Scalar>(std::uint64_t{1} << bits);
    run_wide<WriteExponentials<Scalar>>(logits, size, e, most, w.data());
    for (std::size_t i = 0; i < chunk_size; ++i) weights[i] = static_cast<Weight>(w[i]);
  }

 private:
  static constexpr auto size = static_cast<Index>(chunk_size);

  Exponentials<Scalar> from(Scalar cut) const { return {shift, inverse_temperature, cut, at_most_one}; }
};

/// Fills in the weights of `numbers`. `top` is the largest of them.
template <class Scalar, class TokenWeight>
void weigh(WeighedNumbers<Scalar>& numbers, const TokenWeight& weight, Scalar top) {
  std::array<Scalar, chunk_size> values;
  for (std::size_t start = 0; start < numbers.size; start += values.size()) {
    const std::size_t count = std::min(values.size(), numbers.size - start);
    for (std::size_t i = 0; i < count; ++i) values[i] = from_ordered_key<Scalar>(numbers.keys[start + i]);
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(count), values.end(),
              -std::numeric_limits<Scalar>::infinity());
    weight.weigh(values.data(), top, numbers.weights.data() + start);
  }
}

/// Rounds a wanted weight down to whole units: at least 1 (also for NaN), at most 2^62.
inline std::uint64_t whole_units(double weight) {
  return weight > 1 ? static_cast<std::uint64_t>(std::min(weight, 0x1p62)) : 1;
}

}  // namespace specdec::detail

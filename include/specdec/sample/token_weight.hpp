// What a token weighs when a cut is looked for: 1 for top-k, its exponential for top-p.
//
//   sum(x)              the weight of some logits, those of −inf apart, as an Eigen array
//   weigh(x, n, top, w) the weights of n logits as integers, in units that depend on the largest, `top`
//   unit(top)           that unit
//   bits                how many bits the integers take
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "specdec/rows/logits_row.hpp"
#include "specdec/sample/flags.hpp"
#include "specdec/sample/ordered_key.hpp"
#include "specdec/sample/weighed.hpp"

namespace specdec::detail {

/// Every token counts.
template <class Scalar>
struct TokenCount {
  using Weight = typename Weighed<Scalar>::Weight;

  static constexpr int bits = 1;

  template <class Logits>
  double sum(const Logits& logits) const {
    std::int32_t n = 0;
    for (Index i = 0; i < logits.size(); ++i) n += logits[i] >= std::numeric_limits<Scalar>::lowest() ? 1 : 0;
    return n;
  }

  double unit(Scalar) const { return 1; }

  void weigh(const Scalar*, Index count, Scalar, Weight* weights) const {
    for (Index i = 0; i < count; ++i) weights[i] = 1;
  }
};

/// Tokens weigh exp((l − shift)/T). Relative to the largest among them the integers lose nothing that the
/// exponential in its own arithmetic had.
template <class Scalar>
struct TokenMass {
  using Weight = typename Weighed<Scalar>::Weight;

  static constexpr int bits = Weighed<Scalar>::weight_bits;

  Scalar shift, inverse_temperature;

  template <class Logits>
  double sum(const Logits& logits) const {
    return static_cast<double>(Exponentials<Scalar>{shift, inverse_temperature}.sum(logits));
  }

  /// The weight of all of Flags::size logits, and of those above a number.
  std::pair<double, double> sums(const Scalar* logits, Scalar number) const {
    Eigen::Array<Scalar, static_cast<int>(Flags::size), 1> w;
    Exponentials<Scalar>{shift, inverse_temperature}(Eigen::Map<const decltype(w)>(logits),
                                                     [&](const auto& e) { w = e; });
    const auto all = static_cast<double>(w.sum());
    for (Index i = 0; i < w.size(); ++i) w[i] *= static_cast<Scalar>(logits[i] > number);
    return {all, static_cast<double>(w.sum())};
  }

  double unit(Scalar top) const {
    return std::ldexp(std::exp((static_cast<double>(top) - static_cast<double>(shift)) *
                               static_cast<double>(inverse_temperature)),
                      -bits);
  }

  void weigh(const Scalar* logits, Index count, Scalar top, Weight* weights) const {
    using Values = Eigen::Array<Scalar, Eigen::Dynamic, 1>;
    const auto scale = static_cast<Scalar>(std::uint64_t{1} << bits);
    Eigen::Array<Scalar, Eigen::Dynamic, 1, Eigen::ColMajor, Flags::size> w(count);
    Exponentials<Scalar>{top, inverse_temperature}(Eigen::Map<const Values>(logits, count),
                                                   [&](const auto& e) { w = e * scale; });
    for (Index i = 0; i < count; ++i) weights[i] = static_cast<Weight>(w[i]);
  }
};

/// Fills in the weights of numbers, of which `top` is the largest.
template <class Scalar, class TokenWeight>
void weigh(Weighed<Scalar>& numbers, const TokenWeight& weight, Scalar top) {
  std::array<Scalar, Flags::size> values;
  for (std::size_t start = 0; start < numbers.size; start += values.size()) {
    const std::size_t count = std::min(values.size(), numbers.size - start);
    for (std::size_t i = 0; i < count; ++i) values[i] = from_ordered_key<Scalar>(numbers.keys[start + i]);
    weight.weigh(values.data(), static_cast<Index>(count), top, numbers.weights.data() + start);
  }
}

/// How many whole units a weight is that a cut has to leave: one at least, also where the weight is NaN, and no more
/// than can be counted.
inline std::uint64_t whole_units(double weight) {
  return weight > 1 ? static_cast<std::uint64_t>(std::min(weight, 0x1p62)) : 1;
}

}  // namespace specdec::detail

// Random numbers that are the same under every standard library. The distributions of <random> are not.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "specdec/chance/random.hpp"
#include "specdec/types.hpp"

namespace acceptance {

using specdec::Index;
using specdec::SplitMix64;
using specdec::Token;

/// N(0, 1).
///
/// Source: Box and Muller, 1958; the sine is not used.
/// Random: two uniform01.
inline double normal(SplitMix64& generator) {
  const double u = 1 - specdec::uniform01(generator);  // never 0
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * specdec::uniform01(generator));
}

/// Gamma with this shape > 0 and scale 1.
///
/// Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000, with their step for
/// shapes below 1.
inline double gamma(SplitMix64& generator, double shape) {
  if (shape < 1) {
    const double larger = gamma(generator, shape + 1);
    return larger * std::pow(1 - specdec::uniform01(generator), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(generator), root = 1 + c * x, v = root * root * root;
    if (v <= 0) continue;
    const double u = 1 - specdec::uniform01(generator);
    if (std::log(u) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

/// Uniform on 0..count−1, by the high half of a product. The bias is below count/2^32, which is small enough here.
inline Index below(SplitMix64& generator, Index count) {
  return static_cast<Index>((generator() >> 32) * static_cast<std::uint64_t>(count) >> 32);
}

/// A number that depends on every bit of a and b. Gives each numbered object a seed of its own.
inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return SplitMix64(SplitMix64(a)() ^ (b * 0xd1342543de82ef95u + 1))();
}

}  // namespace acceptance
